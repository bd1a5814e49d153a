"""How a publisher's files become our tables: one file a trace, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.ingesters import itp, minibatch, openb, pai, zeus

if TYPE_CHECKING:
    from traceana.ingesters.recipe import Recipe

INGESTERS: Final[dict[str, tuple[Recipe, ...]]] = {
    "alibaba-minibatch-2020": minibatch.RECIPES,
    "alibaba-openb-2023": openb.RECIPES,
    "alibaba-pai-2020": pai.RECIPES,
    "elasticflow-2023": itp.ELASTICFLOW_RECIPES,
    "microsoft-itp-2021": itp.ITP_RECIPES,
    "zeus-2023": zeus.RECIPES,
}
