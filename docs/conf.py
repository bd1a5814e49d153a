"""Settings of the documentation: ``sphinx-build docs docs/_build``."""

import sys
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode, inline
from jupyter_client.manager import KernelManager
from latex2mathml.converter import convert

import traceana

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))
from api import documented_names, write_pages
from inventories import BASES

project = "traceana"
copyright = "the traceana contributors"
release = traceana.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples", "gallery/**.ipynb"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
if hasattr(KernelManager, "transport_encryption"):  # else new kernels warn of plain text
    KernelManager.transport_encryption.default_value = "auto"
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("scrape.save_axes",),
    "abort_on_example_error": True,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("traceana",),
    "download_all_examples": False,
    "min_reported_time": 1000,
    "show_signature": False,
    "write_computation_times": False,
}
html_theme = "furo"
html_title = "traceana"
html_math_renderer = "mathml"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
intersphinx_mapping = {
    project: (base, f"inventories/{project}.inv") for project, base in BASES.items()
}
smartquotes_action = "D"  # names keep their straight quotes
nitpicky = True
# names of types in this package, and internal modules, have no pages
nitpick_ignore_regex = [
    ("py:.*", r"[\w ]+"),
    ("py:.*", r"(pyspark|typer)\..*"),
    ("py:.*", r"traceana\.(stats|schema|results)\..*"),
    ("py:data", r"traceana\..*"),
]
FULL_NAMES = {
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    "IntoFrame": "narwhals.typing.IntoFrame",
    "AbstractContextManager": "contextlib.AbstractContextManager",
    "ArrayLike": "numpy.typing.ArrayLike",
    "DataFrame": "polars.DataFrame",
    "LazyFrame": "polars.LazyFrame",
    "Path": "pathlib.Path",
    "PathLike": "os.PathLike",
    "date": "datetime.date",
    "datetime": "datetime.datetime",
}
"""Names that signatures have in short, since annotations are not evaluated."""
ALIASES = {
    "Names": "str or sequence of str",
    "Values": "array-like of numbers",
    "Flags": "array-like of bool",
    "Paths": "path or sequence of paths",
    "TrainingDefaults": "mapping",
    **dict.fromkeys(("Draw", "Policy", "PolicyMaker", "Progress"), "callable"),
}
"""Text in place of an alias of a type."""


def escape_stars(*event: object) -> None:
    """Write the star of `[*by, ...]` so that it is no emphasis."""
    lines = event[-1]
    lines[:] = [line.replace("*by", r"\*by") for line in lines]


def find_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:  # noqa: ANN401
    """Resolve a name by its last part: `traceana.analysis.correlate` is `traceana.correlate`.

    Names of other libraries are completed for intersphinx, which comes next.
    """
    target = node.get("reftarget", "")
    if target in ALIASES:
        return inline("", ALIASES[target])
    name = target.rpartition(".")[2]
    if target.startswith(("pl.", "polars.")):
        node["reftarget"] = f"polars.{name}"
    elif target.startswith("np."):
        node["reftarget"] = f"numpy.{target[3:]}"
    else:
        node["reftarget"] = FULL_NAMES.get(target, target)
    path, _ = documented_names().get(name, (None, None))
    if node.get("refdomain") != "py" or path in (None, node["reftarget"]):
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], path, node, contnode
    )


def write_math(translator: Any, node: Any) -> None:  # noqa: ANN401
    """Write a formula as MathML, which browsers show without a script or a network."""
    display = "inline" if node.tagname == "math" else "block"
    translator.body.append(convert(node.astext(), display=display))
    raise SkipNode


def setup(app: Any) -> None:  # noqa: ANN401
    write_pages(Path(__file__).parent / "reference" / "api")
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("autodoc-process-docstring", escape_stars, priority=400)
    app.connect("missing-reference", find_public_name, priority=400)
