"""Settings of the documentation: ``sphinx-build docs docs/_build``."""

import traceana

project = "traceana"
copyright = "the traceana developers"
release = traceana.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "traceana"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpicky = False
