"""Figures by name: a finished result in, matplotlib Axes out; nothing is computed while drawn."""

import lazy_loader

# loaded at once: the lazy loader would put the function in the place of this module
from traceana.drawing.registry import figures  # noqa: F401
from traceana.guesses import correct_name

_load, __dir__, __all__ = lazy_loader.attach_stub("traceana", __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    raise AttributeError(correct_name(name, __all__, of="traceana.figures"), name=name)
