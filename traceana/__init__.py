"""Statistical analysis of machine-learning cluster traces.

Every public name is importable from here and is loaded when it is first used, so that
``import traceana`` costs next to nothing. ``__init__.pyi`` lists the names and their modules.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("traceana")
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
