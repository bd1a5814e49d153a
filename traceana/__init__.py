"""Statistical analysis of machine-learning cluster traces.

Every public name is importable from here and is loaded when it is first used, so that
``import traceana`` costs next to nothing. ``__init__.pyi`` lists the names and their modules.
"""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

import lazy_loader

from traceana.guesses import correct_name

__version__ = version("traceana")
_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(correct_name(name, __all__), name=name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
