"""Write `docs/inventories`: the names of other libraries in our signatures, and their pages.

The projects' own inventories cannot be downloaded where the docs are built; these list the few
names that are used, by the projects' public URL scheme. A missing name fails the docs build.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "inventories"
BASES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "polars": "https://docs.pola.rs/api/python/stable/",
    "matplotlib": "https://matplotlib.org/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "narwhals": "https://narwhals-dev.github.io/narwhals/",
}
NAMES = {
    "python": {
        "library/collections.abc.html": "collections.abc.Callable collections.abc.Iterable "
        "collections.abc.Iterator collections.abc.Mapping collections.abc.Sequence",
        "library/contextlib.html": "contextlib.AbstractContextManager",
        "library/datetime.html": "datetime.date datetime.datetime",
        "library/decimal.html": "decimal.Decimal",
        "library/exceptions.html": "Exception ValueError TypeError RuntimeError",
        "library/functions.html": "bool float int object",
        "library/os.html": "os.PathLike",
        "library/pathlib.html": "pathlib.Path",
        "library/stdtypes.html": "bytes dict frozenset list set str tuple",
    },
    "numpy": {
        "reference/generated/numpy.ndarray.html": "numpy.ndarray",
        "reference/generated/numpy.dtype.html": "numpy.dtype",
        "reference/arrays.scalars.html": "numpy.float64 numpy.int64 numpy.bool",
        "reference/random/generator.html": "numpy.random.Generator",
        "reference/typing.html": "numpy.typing.ArrayLike",
    },
    "polars": {
        "reference/dataframe/index.html": "polars.DataFrame",
        "reference/lazyframe/index.html": "polars.LazyFrame",
        "reference/series/index.html": "polars.Series",
        "reference/expressions/index.html": "polars.Expr",
        "reference/api/polars.datatypes.DataType.html": "polars.DataType",
    },
    "matplotlib": {
        "api/_as_gen/matplotlib.axes.Axes.html": "matplotlib.axes.Axes",
        "api/_as_gen/matplotlib.figure.Figure.html": "matplotlib.figure.Figure",
    },
    "scipy": {
        f"reference/generated/scipy.stats.{name}.html": f"scipy.stats.{name}"
        for name in ("kendalltau", "brunnermunzel", "mannwhitneyu", "bootstrap")
    },
    "narwhals": {"api-reference/typing/": "narwhals.typing.IntoFrame"},
}


def write() -> None:
    for project, pages in NAMES.items():
        lines = [
            f"{name} py:{'function' if project == 'scipy' else 'class'} 1 {page}#$ -"
            for page, names in pages.items()
            for name in names.split()
        ]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        packed = zlib.compress("".join(f"{line}\n" for line in lines).encode(), 9)
        (FOLDER / f"{project}.inv").write_bytes(head.encode() + packed)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write()
