"""How a publisher's files become our tables: one file a trace, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.ingesters import itp, minibatch, openb, pai, zeus
from traceana.ingesters.archive import UnlistedMemberError
from traceana.ingesters.block import LINE, Block
from traceana.ingesters.convert import REJECTED, Converted, convert
from traceana.ingesters.files import CsvFile, Listing, content_sha256, list_csvs, sha256_of
from traceana.ingesters.rows import read_ahead, read_blocks, read_header

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

__all__ = [
    "INGESTERS",
    "LINE",
    "REJECTED",
    "Block",
    "Converted",
    "CsvFile",
    "Listing",
    "UnlistedMemberError",
    "content_sha256",
    "convert",
    "list_csvs",
    "read_ahead",
    "read_blocks",
    "read_header",
    "sha256_of",
]
