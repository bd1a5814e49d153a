"""Settings of the documentation: ``sphinx-build docs docs/_build``."""

import sys
from pathlib import Path
from typing import Any

import traceana

sys.path.insert(0, str(Path(__file__).parent))
from api import public_names, write_pages

project = "traceana"
copyright = "the traceana contributors"
release = traceana.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples", "gallery/**.ipynb"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_merge_streams = True
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
autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpicky = True
# no inventory of other libraries is kept here, and internal modules have no pages
nitpick_ignore_regex = [
    ("py:.*", r"(?!traceana\.).*"),
    ("py:.*", r"traceana\.(stats|schema|results)\..*"),
    ("py:data", r"traceana\..*"),
]


def escape_stars(*event: object) -> None:
    """Write the star of `[*by, ...]` so that it is no emphasis."""
    lines = event[-1]
    lines[:] = [line.replace("*by", r"\*by") for line in lines]


def find_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:  # noqa: ANN401
    """Resolve a name by its last part: `traceana.analysis.correlate` is `traceana.correlate`."""
    name = node.get("reftarget", "").rpartition(".")[2]
    path, _ = public_names().get(name, (None, None))
    if node.get("refdomain") != "py" or path in (None, node["reftarget"]):
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], path, node, contnode
    )


def setup(app: object) -> None:
    write_pages(Path(__file__).parent / "reference" / "api")
    app.connect("autodoc-process-docstring", escape_stars, priority=400)
    app.connect("missing-reference", find_public_name)
