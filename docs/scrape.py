"""Pictures of the gallery: the figure of `ax`, the axes that each example draws."""

from __future__ import annotations

from typing import Any

from sphinx_gallery.scrapers import figure_rst


def save_axes(_block: object, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save the figure of `ax`; traceana's figures are not pyplot's, which Sphinx-Gallery finds."""
    path = next(variables["image_path_iterator"])
    figure = variables["example_globals"]["ax"].get_figure(root=True)
    figure.savefig(path, dpi=144, bbox_inches="tight")
    return str(figure_rst([path], settings["src_dir"]))
