"""Groups, such as nodes, that fail more often than the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.definitions import open_outcomes, with_failure
from traceana.questions.failures.tables import FailureOutliers
from traceana.stats.arguments import check_confidence
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.strata import pooled_odds
from traceana.store.frames import Names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_FEWEST_EXPECTED: Final = 5
_FOUND: Final = ("odds_ratio", "ci_low", "ci_high", "pvalue")


@returns(FailureOutliers)
def failure_outliers(
    frame: IntoFrame,
    /,
    by: str,
    *,
    strata: str | None = None,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Find groups, such as nodes, with more failures than the rest.

    Jobs of one user fail alike and tend to run on the same nodes. With ``strata="user"`` a node is
    compared with the other nodes' jobs of the same users.

    Parameters
    ----------
    frame
        One row per job that ran in one group: `by`, `strata` and `status`; eager or lazy, of any
        supported engine.
    by
        Column of the group; rows without a value are excluded.
    strata
        Column within whose values rows are compared, null being one; None: all rows.
    success, failure, status, confidence
        As in :func:`outcome_rates`.

    Returns
    -------
    DataFrame
        The smallest adjusted p first, with the column of `by` and
        {columns}

        A group with fewer than five expected failures is not tested.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"node": ["a"] * 50 + ["b"] * 50,
    ...      "status": ["failed"] * 30 + ["completed"] * 20 + ["failed"] * 5 + ["completed"] * 45}
    ... )
    >>> traceana.failure_outliers(jobs, "node").select("node", "failures", "expected").rows()
    [('a', 30, 17.5), ('b', 5, 17.5)]
    """
    check_confidence(confidence)
    refuse_clash((by,), FailureOutliers.columns())
    keys = (by,) if strata is None else (by, strata)
    lazy, succeeded, failed = open_outcomes(
        frame, keys, status=status, success=success, failure=failure
    )
    ended = with_failure(lazy, status, succeeded, failed)
    cells = reduce_frame(ended, keys, n=nw.len(), failures=nw.col("failure").sum())
    cells = cells.drop_nulls(by).with_columns(
        stratum=pl.lit(0) if strata is None else pl.col(strata).rank("dense").fill_null(0)
    )
    totals = cells.group_by("stratum").agg(total=pl.col("n").sum(), failed=pl.col("failures").sum())
    compared = cells.join(totals, on="stratum", maintain_order="left").with_columns(
        expected=pl.col("n") * pl.col("failed") / pl.col("total")
    )
    sums = {name: pl.col(name).sum() for name in ("n", "failures", "expected")}
    groups = reduce_frame(compared, (by,), **sums)
    tested = groups.filter(pl.col("expected") >= _FEWEST_EXPECTED)[by].to_list()
    own = compared.filter(pl.col(by).is_in(tested)).partition_by(by, as_dict=True)
    odds = [{by: group, **_compare(own[group,], confidence=confidence)} for group in sorted(tested)]
    schema: dict[str, Any] = {by: groups.schema[by], **dict.fromkeys(_FOUND, pl.Float64)}
    found = groups.join(pl.DataFrame(odds, schema=schema), on=by, how="left")
    adjusted = adjust_pvalues(found["pvalue"].fill_null(np.nan).to_numpy(), method="holm")
    few = pl.when(~pl.col(by).is_in(tested)).then(
        pl.lit(f"fewer than {_FEWEST_EXPECTED} expected failures")
    )
    found = found.with_columns(pvalue_adjusted=pl.Series(adjusted).fill_nan(None), note=few).sort(
        "pvalue_adjusted", by, nulls_last=True
    )
    return declared(found, FailureOutliers, by=(by,))


def _compare(cells: pl.DataFrame, *, confidence: float) -> dict[str, float | None]:
    """Return the odds ratio of one group against the other rows of its strata."""
    columns = (pl.col("failures"), pl.col("n") - pl.col("failures"))
    others = (pl.col("failed") - columns[0], pl.col("total") - pl.col("failed") - columns[1])
    table = cells.select(a=columns[0], b=columns[1], c=others[0], d=others[1]).to_numpy()
    odds = pooled_odds(table.reshape(-1, 2, 2).astype(float), confidence=confidence)
    values = (odds.odds_ratio, odds.ci_low, odds.ci_high, odds.pvalue)
    return {
        name: None if np.isnan(value) else float(value)
        for name, value in zip(_FOUND, values, strict=True)
    }
