"""Settings of the documentation: ``sphinx-build docs docs/_build``."""

import traceana

project = "traceana"
copyright = "the traceana developers"
release = traceana.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "traceana"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpicky = False


def escape_stars(*event: object) -> None:
    """Write the star of `[*by, ...]` so that it is no emphasis."""
    lines = event[-1]
    lines[:] = [line.replace("*by", r"\*by") for line in lines]


def setup(app: object) -> None:
    app.connect("autodoc-process-docstring", escape_stars, priority=400)
