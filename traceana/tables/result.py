"""Base of the classes that analyses and simulations return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from functools import cache
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin, get_type_hints

import numpy as np
import polars as pl

from traceana.tables.declare import ResultTable, declared
from traceana.tables.display import html_table, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@cache
def _declarations(result: type[Any]) -> dict[str, type[ResultTable]]:
    hints = get_type_hints(result, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


class _Declarations:
    def __get__(self, _: object, owner: type[Any]) -> Mapping[str, type[ResultTable]]:
        return _declarations(owner)  # type: ignore[arg-type]  # a class is hashable


class Result:
    """Base of the frozen dataclasses that analyses and simulations return.

    ``print(result)`` and :meth:`summary` give a short text; ``repr(result)`` names the fields and
    gives the size of each frame; a notebook shows the summary and the first rows of the tables. A
    dataclass takes it with ``@dataclass(frozen=True, repr=False, eq=False)``. Two results are equal
    if they are of one class and all their fields are equal: frames and arrays in every cell, null
    and NaN as themselves.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    tables: ClassVar[Mapping[str, type[ResultTable]]] = _Declarations()  # type: ignore[assignment]
    """Declaration of each field that is a frame: ``Annotated[pl.DataFrame, its declaration]``."""
    drawn_by: ClassVar[str] = ""
    """Function of :mod:`traceana.figures` that draws the result."""
    summarized: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Tables that the summary has, each with its columns; all by default."""

    def __post_init__(self) -> None:
        for name, table in self.tables.items():
            frame = getattr(self, name)
            if frame is not None:
                by = [key for key in frame.columns if key not in table.columns()]
                object.__setattr__(self, name, declared(frame, table, by=by))

    def __repr__(self) -> str:
        names = (field.name for field in fields(self) if field.repr)
        shown = (f"{name}={_short(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __str__(self) -> str:
        return self.summary()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = (field.name for field in fields(self) if field.compare)
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # frames have none

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  always raises
        text = f"{type(self).__name__} has no {name!r}"
        if (
            name.startswith(("write_", "to_", "head", "filter", "select", "columns"))
            and self.tables
        ):
            text += f"; its frames have: {', '.join(f'.{table}.{name}' for table in self.tables)}"
        elif not name.startswith("_"):
            names = [field.name for field in fields(self)]
            text += f"; it has {', '.join([*names, 'summary()', 'plot()'])}"
        raise AttributeError(text, name=name, obj=self)

    def summary(self) -> str:
        """Return a short text on the result."""
        parts = [
            text_table(getattr(self, name), self.tables[name], columns)
            for name, *columns in self.summarized
        ]
        return "\n\n".join(parts) or repr(self)

    def plot(self, *, ax: Axes | None = None, **options: object) -> Axes:
        """Draw the result; the options are those of the figure's function."""
        if not self.drawn_by:
            frames = ", ".join(f".{name}" for name in self.tables)
            raise TypeError(
                f"no figure draws a {type(self).__name__}; its frames {frames} can be drawn with "
                "matplotlib, or see dir(traceana.figures)"
            )
        figure = getattr(import_module("traceana.figures"), self.drawn_by)
        return figure(self._drawn(), ax=ax, **options)

    def _drawn(self) -> object:
        return self

    def _repr_html_(self) -> str:
        parts = [] if self.summarized else [f"<pre>{escape(self.summary())}</pre>"]
        parts += [
            f"<p><b>{name}</b></p>{html_table(getattr(self, name), table)}"
            for name, table in self.tables.items()
            if getattr(self, name) is not None
        ]
        return "".join(parts)


def _same(value: object, other: object) -> bool:
    if isinstance(value, pl.DataFrame | pl.Series):
        return type(value) is type(other) and value.equals(other)  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        if not isinstance(other, np.ndarray):
            return False
        numbers = {value.dtype.kind, other.dtype.kind} <= {"f", "c"}
        return np.array_equal(value, other, equal_nan=numbers)
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, tuple | list) and type(value) is type(other):
        pairs = zip(value, other, strict=False)
        return len(value) == len(other) and all(_same(*pair) for pair in pairs)
    both_nan = value != value and other != other  # noqa: PLR0124  NaN alone differs from itself
    return bool(value == other) or both_nan


def _short(value: object) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:  # a frame, a series or an array
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    if isinstance(value, dict):
        return f"<dict of {len(value)}>"
    if isinstance(value, tuple | list) and len(value) > 5:
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)
