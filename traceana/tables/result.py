"""Base of the classes that analyses and simulations return."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from traceana.tables.declare import declared
from traceana.tables.display import html_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

    from matplotlib.axes import Axes

    from traceana.tables.declare import ResultTable


class Result:
    """Base of the frozen dataclasses that analyses and simulations return.

    ``print(result)`` and :meth:`summary` give a short text; ``repr(result)`` names the fields and
    gives the size of each frame; a notebook shows the summary and the first rows of the tables. A
    dataclass takes it with ``@dataclass(frozen=True, repr=False)``.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    tables: ClassVar[Mapping[str, type[ResultTable]]] = {}
    """Declaration of each field that is a frame."""
    drawn_by: ClassVar[str] = ""
    """Function of :mod:`traceana.figures` that draws the result."""

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

    def summary(self) -> str:
        """Return a short text on the result."""
        return repr(self)

    def plot(self, *, ax: Axes | None = None, **options: object) -> Axes:
        """Draw the result; the options are those of the figure's function.

        Raises a TypeError if no figure draws results of this class.
        """
        if not self.drawn_by:
            raise TypeError(f"no figure draws a {type(self).__name__}")
        axes: Axes = getattr(import_module("traceana.figures"), self.drawn_by)(
            self, ax=ax, **options
        )
        return axes

    def _repr_html_(self) -> str:
        parts = [f"<pre>{escape(self.summary())}</pre>"]
        parts += [
            f"<p><b>{name}</b></p>{html_table(getattr(self, name), table)}"
            for name, table in self.tables.items()
            if getattr(self, name) is not None
        ]
        return "".join(parts)


def _short(value: object) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:  # a frame, a series or an array
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    if isinstance(value, dict):
        return f"<dict of {len(value)}>"
    if isinstance(value, tuple | list) and len(value) > 5:
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)
