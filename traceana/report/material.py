"""What sections are built from: the store, its accounts, and what the page says of their origin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from traceana.catalog import get_trace, load_catalog
from traceana.report.blocks import Absent, Picture

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.claims.data import Data
    from traceana.report.origin import Origin
    from traceana.store import Ledger, Store


@dataclass(frozen=True)
class Material:
    """An open store with the ledger of each of its traces.

    Attributes
    ----------
    origin
        Where it comes from.
    store
        The store.
    ledgers
        The accounts by trace.
    date
        The date to show, if any.
    figures
        Ids of the figures to draw; None stands for all.
    formats
        Formats besides SVG in which they are drawn: pdf, png.
    master
        Master of the Spark that reduces the largest tables; None: Polars reduces all.
    """

    origin: Origin
    store: Store
    ledgers: dict[str, Ledger]
    date: str | None
    figures: frozenset[str] | None = None
    formats: tuple[str, ...] = ()
    master: str | None = None

    @cached_property
    def data(self) -> Data:
        """What sections and judges share: computed once in a process."""
        from traceana.claims.data import Data  # noqa: PLC0415  the judges load all analyses

        return Data(self.store, self.master)

    def has(self, trace: str, table: str, /) -> bool:
        """Say whether there is such a table with any row in it."""
        ledger = self.ledgers.get(trace)
        return ledger is not None and any(
            entry.table == table and entry.rows_kept for entry in ledger.entries
        )

    def scan(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return a table."""
        return self.store.scan(trace, table)

    def frame(self, trace: str, table: str, /) -> IntoFrame:
        """Return a table as the engine of this run reads it, for what takes any engine's frame."""
        return self.data.frame(trace, table)

    def synthetic(self, trace: str | None, /) -> bool:
        """Say whether a trace is in the store with synthetic rows; None: whether all are."""
        if trace is None:
            return len(self.synthetic_traces) == len(self.ledgers)
        return trace in self.ledgers and self.ledgers[trace].synthetic

    @property
    def synthetic_traces(self) -> list[str]:
        """The traces whose rows are synthetic."""
        return [trace for trace in self.ledgers if self.synthetic(trace)]

    def title(self, trace: str, /) -> str:
        """Return a trace's title: its manifest's, else the catalog's, else its id."""
        if trace in self.ledgers:
            return self.store.manifest(trace).title
        return get_trace(trace).title if trace in load_catalog() else trace

    def name(self, trace: str | None, /) -> str:
        """Return a trace's title, with a word where its rows are synthetic."""
        if trace is None:
            return "Simulated, from no trace"
        title = self.title(trace)
        return f"{title} (SYNTHETIC)" if self.synthetic(trace) else title

    def picture(
        self,
        figure: str,
        result: pl.DataFrame,
        /,
        *,
        trace: str | None,
        key: str,
        about: str,
        name: str | None = None,
        **options: object,
    ) -> Picture:
        """Draw a result.

        Parameters
        ----------
        figure
            Id of the figure in the registry.
        result
            What it takes.
        trace
            The trace that it shows; synthetic rows are marked as such. None where it shows none:
            then it is marked where all of the page is synthetic.
        key
            A name for the picture that no other on the page has.
        about
            What is shown, as the caption's first words.
        name
            What the trace is called, where its title does not say all.
        **options
            Passed on to the figure.
        """
        if self.figures is not None and figure not in self.figures:
            return Picture("", "", key, figure)
        # matplotlib is slow to load, and a report that was kept draws nothing
        from traceana.figures import (  # noqa: PLC0415
            FIGURES,
            draw_figure,
            mark_synthetic,
            render_file,
            render_svg,
        )

        entry = FIGURES[figure]
        drawn = draw_figure(figure, result, **options)
        caption = f"{about}. {name or self.name(trace)}. {entry.describe(result)}"
        if self.synthetic(trace):
            mark_synthetic(drawn)
            caption += " SYNTHETIC data: no real system is shown."
        svg = render_svg(drawn, prefix=key)  # the first: each rendering moves the layout a little
        files = tuple((suffix, render_file(drawn, suffix)) for suffix in self.formats)
        return Picture(svg, caption, key, figure, entry.reading, files)

    def absent(self, trace: str, table: str, /, *, what: str) -> Absent:
        """Say what is missing for lack of a table, and what brings it."""
        return Absent(
            f"{what}: table `{table}` of {self.title(trace)} is not in the store.",
            (
                f"traceana fetch {trace} --to files/{trace}",
                f"traceana ingest files/{trace} {self.origin.option}",
            ),
        )
