"""What all results share: a short representation, whatever the size of the frames they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dataclasses import Field


class Result:
    """Base of the frozen dataclasses that analyses and simulations return.

    ``print(result)`` gives the summary of each kind; ``repr(result)``, which a notebook and a
    debugger show, names the fields and gives of a frame its size alone. A dataclass takes it with
    ``@dataclass(frozen=True, repr=False)``.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        names = (name for name, field in self.__dataclass_fields__.items() if field.repr)
        shown = (f"{name}={_short(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:  # a frame, a series or an array
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    if isinstance(value, dict):
        return f"<dict of {len(value)}>"
    if isinstance(value, tuple | list) and len(value) > 5:
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)
