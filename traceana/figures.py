"""Figures by name: a finished result in, matplotlib Axes out; nothing is computed while drawn."""

import lazy_loader

# loaded at once: the lazy loader would put the function in the place of this module
from traceana.drawing.registry import figures  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("traceana", __file__)
