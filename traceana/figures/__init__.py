"""Figures: a finished result in, matplotlib Axes out; nothing is computed while it is drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
