"""Figure of the variants of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_HEADINGS: Final = {"beta": "Stop at beta times the least cost", "part left out": "Part left out"}


@figure(
    "policy-variants",
    result="policy_variants",
    reading="Dot: geometric mean over data sets of the energy relative to the policy (beta and "
    "parts) or to the default (GPU). Line: range over seeds. Dashed line: 1, no difference.",
)
def plot_policy_variants(variants: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the relative energy of the variants of a policy, one row per variant.

    Parameters
    ----------
    variants
        Rows of one comparison: [comparison, variant, energy, energy_low, energy_high].

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_policy_variants
    >>> variants = pl.DataFrame({"comparison": "beta", "variant": ["2", "5"], "energy": [1.0, 1.05],
    ...                          "energy_low": [1.0, 1.02], "energy_high": [1.0, 1.08]})
    >>> plot_policy_variants(variants).get_xlabel()
    'Relative energy (geometric mean)'
    """
    known = variants.drop_nulls("energy")
    if known.is_empty():
        raise DataError("plot_policy_variants has nothing to draw: no variant was simulated")
    ax = start_axes(ax, height_in=0.8 + 0.26 * known.height)
    rows = range(known.height)
    ax.hlines(
        rows, known["energy_low"], known["energy_high"], color=color_of(0), linewidth=1.2,
        linestyle="-", gid="seeds",
    )  # fmt: skip
    ax.plot(known["energy"], rows, marker="o", markersize=4, linestyle="none", color=color_of(0))
    for row, energy in enumerate(known["energy"]):
        ax.annotate(f"{energy:.3f}", (energy, row), (0, 3), textcoords="offset points",
                    ha="center", fontsize="small")  # fmt: skip
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.set_yticks(rows, known["variant"].to_list())
    ax.set_ylim(known.height - 0.5, -0.7)
    ax.margins(x=0.12)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("Relative energy (geometric mean)")
    what = known["comparison"][0]
    ax.set_ylabel(_HEADINGS.get(what, what))
    return ax


def describe_policy_variants(variants: pl.DataFrame) -> str:
    """Return one sentence on the variants shown."""
    known = variants.drop_nulls("energy").sort("energy")
    least, most = known.row(0, named=True), known.row(-1, named=True)
    return (
        f"{known.height} variants: {least['variant']} {least['energy']:.3f} (least) to "
        f"{most['variant']} {most['energy']:.3f} (most)."
    )
