"""Settings of the documentation: ``sphinx-build docs docs/_build``."""

from __future__ import annotations

import inspect
import os
import re
import sys
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

from docutils.nodes import SkipNode, inline
from jupyter_client.manager import KernelManager
from latex2mathml.converter import convert

import traceana

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))
from api import documented_names, write_pages
from inventories import BASES
from reference_figures import figures_page
from reference_tables import tables_page

from traceana.tables.result import Result

REPOSITORY = "https://github.com/traceana/traceana"
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
    "thumbnail_size": (280, 196),
    "write_computation_times": False,
}
html_theme = "furo"
html_title = f"traceana {release}"
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "https://traceana.github.io/traceana/")
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(Path(__file__).parent / "_static" / "search.js")
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/traceana/traceana/",
    "source_branch": "main",
    "source_directory": "docs/",
    "footer_icons": [{"name": "GitHub", "url": REPOSITORY, "html": "GitHub", "class": ""}],
}
highlight_language = "sh"
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
    ("py:.*", r"(pyspark|typer|np|nw|narwhals)\..*"),
    ("py:.*", r"traceana\.(stats|schema|tables|claims|simulate|ingesters)\..*"),
    ("py:class", r"traceana\.\w+\.\w+\.(Found|Panel|Plot|Capacity|TableManifest)"),
    ("py:class", r"collections\..*"),
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
    # where annotations are evaluated
    "matplotlib.axes._axes.Axes": "matplotlib.axes.Axes",
    "numpy.random._generator.Generator": "numpy.random.Generator",
}
"""Names that signatures have in short, since annotations are not evaluated."""
ALIASES = {
    "Names": "str or sequence of str",
    "Values": "array-like of numbers",
    "Flags": "array-like of bool",
    "Paths": "path or sequence of paths",
    "IntoModel": "IntoFrame",
    "TrainingDefaults": "mapping",
    **dict.fromkeys(("Draw", "Policy", "PolicyMaker", "Progress"), "callable"),
}
"""Text in place of an alias of a type."""


def write_parameters(*event: Any) -> None:  # noqa: ANN401
    """Describe each parameter by itself: no "as in another function", no shared descriptions.

    The star of `[*by, ...]` is escaped so that it is no emphasis.
    """
    lines = event[-1]
    if event[1] == "function":
        parts = PARAMETERS.split("\n".join(lines), maxsplit=1)
        parts[1:2] = [described for text in parts[1:2] for described in _separate(text)]
        lines[:] = "".join(parts).splitlines()
    lines[:] = [line.replace("*by", r"\*by") for line in lines]


PARAMETERS = re.compile(r"(?<=\nParameters\n----------\n)((?:\S.*\n(?: {4}.*\n|\n(?= ))+)+)")
FIELD = re.compile(r"^(\S.*)\n((?: {4}.*\n|\n(?= ))+)", re.MULTILINE)
AS_IN = re.compile(r" *As in :func:`~?([\w.]+)`\.\n*")
SHARED = re.compile(
    r" *(Column|Status value|Value|Name|Number|Text|Time)s of ([^:;.]*)(.*)", re.DOTALL
)


def _separate(text: str) -> Iterator[str]:
    """Yield the parameters of a docstring's section one by one."""
    for names, description in FIELD.findall(text):
        each = names.split(", ")
        noun, own_parts, kind = _shared(description)
        for number, name in enumerate(each):
            own = description
            if match := AS_IN.fullmatch(description):
                own = _found(match[1].rpartition(".")[2], name)
            elif len(own_parts) == len(each) > 1:
                own = f"    {noun} of {own_parts[number]}{kind}"
            yield f"{name}\n{own.rstrip()}\n"


def _shared(description: str) -> tuple[str, list[str], str]:
    """Divide "Columns of the start and the end: seconds." into noun, parts and the rest."""
    match = SHARED.fullmatch(description)
    noun, parts, rest = match.groups() if match else ("", "", "")
    noun = "Status values" if noun == "Status value" else noun
    return noun, re.split(r"(?:,? and (?!no )|, )(?:of )?", parts), rest


def _found(function: str, name: str) -> str:
    """Return the description of a parameter of another function."""
    text = inspect.getdoc(documented_names()[function][1]) or ""
    section = PARAMETERS.search(text + "\n")
    fields = _separate(section[0]) if section else iter(())
    return {field.split("\n")[0]: field.partition("\n")[2] for field in fields}[name]


def find_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:  # noqa: ANN401
    """Resolve a name by its last part: `traceana.claims.check_claims` is `check_claims`.

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


def keep_annotations(_app: object, thing: Any, _is_method: bool) -> None:  # noqa: ANN401
    """Show annotations as they are written, each alias by its name."""
    with suppress(AttributeError, TypeError):  # a method of a class in C
        thing.__no_type_check__ = True


def simplify_frames() -> None:
    """Show a frame of a result as a frame; its columns are listed in the class's docstring."""
    for _, thing in documented_names().values():
        if isinstance(thing, type) and issubclass(thing, Result) and thing.tables:  # read before
            thing.__annotations__ = {
                name: re.sub(r"Annotated\[([^,]+), [^]]*]", r"\1", str(kind))
                for name, kind in thing.__annotations__.items()
            }


def write_math(translator: Any, node: Any) -> None:  # noqa: ANN401
    """Write a formula as MathML, which browsers show without a script or a network."""
    display = "inline" if node.tagname == "math" else "block"
    translator.body.append(convert(node.astext(), display=display))
    raise SkipNode


NOTED = re.compile(r"<!-- (?:(output)|(?:file|mapping): (\S+)) -->\n```(\w+)\n")


def write_captions(_app: object, _page: str, text: list[str]) -> None:
    """Show the file name of a block, and mark output, where a comment before it states them."""
    text[0] = NOTED.sub(
        lambda found: (
            f"```{{code-block}} {found[3]}\n"
            + (":class: output\n\n" if found[1] else f":caption: {found[2]}\n\n")
        ),
        text[0],
    )


def write_preview(
    app: Any,  # noqa: ANN401
    page: str,
    _template: str,
    context: dict[str, Any],
    _tree: object,
) -> None:
    """Add what a link to the page shows elsewhere: title, sentence and picture."""
    address = app.config.html_baseurl
    tags = {
        "og:type": "website",
        "og:site_name": "traceana",
        "og:title": re.sub("<[^>]+>", "", context.get("title", "traceana")),
        "og:description": traceana.__doc__.partition("\n")[0],
        "og:url": f"{address}{page}.html",
        "og:image": f"{address}_static/preview.png",
        "twitter:card": "summary_large_image",
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta property="{name}" content="{escape(value)}">\n' for name, value in tags.items()
    )


def shorten_navigation(
    _app: object, page: str, _template: str, context: dict[str, Any], _tree: object
) -> None:
    """List fewer pages beside each function and example, since these are most of the pages."""
    if page.startswith(("reference/api/", "gallery/")) and "toctree" in context:
        full = context["toctree"]
        context["toctree"] = lambda **_: full(
            collapse=True, titles_only=True, maxdepth=1, includehidden=True
        )


def setup(app: Any) -> None:  # noqa: ANN401
    app.connect("autodoc-before-process-signature", keep_annotations)
    app.connect("source-read", write_captions)
    app.connect("html-page-context", write_preview)
    app.connect("html-page-context", shorten_navigation, priority=400)  # before the theme
    reference = Path(__file__).parent / "reference"
    write_pages(reference / "api")
    simplify_frames()
    (reference / "tables.md").write_text(tables_page(), encoding="utf-8")
    (reference / "figures.md").write_text(figures_page(), encoding="utf-8")
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("autodoc-process-docstring", write_parameters, priority=400)
    app.connect("missing-reference", find_public_name, priority=400)
