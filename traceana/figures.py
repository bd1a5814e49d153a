"""Figures by name: a finished result in, matplotlib Axes out; nothing is computed while drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("traceana", __file__)
