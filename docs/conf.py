"""The site: Markdown pages through MyST, and the API from docstrings. `make docs` builds it."""

import re
from importlib.metadata import version as installed

from sphinx.application import Sphinx

project = "autosched"
author = "The autosched authors"
version = release = installed("autosched")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["results/data"]
myst_heading_anchors = 4  # as GitHub makes them

nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # annotations name types of many internal modules

default_role = "literal"  # docstrings write code in single backquotes
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "autosched"


def setup(app: Sphinx) -> None:
    """Adapt pages and docstrings before they are parsed."""
    app.connect("source-read", _with_downloads)
    app.connect("autodoc-process-docstring", _without_types, priority=600)  # after napoleon


def _with_downloads(app: Sphinx, docname: str, source: list[str]) -> None:
    """Offer Markdown files outside docs/ as downloads: they are no pages of the site."""
    outside = "../" * (docname.count("/") + 1)
    source[0] = re.sub(rf"\]\(({re.escape(outside)}[^)#]+\.md)(#[^)]*)?\)", r"](path:\1)", source[0])


def _without_types(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Join sentences again that napoleon cut at a colon, taking the first part for the type of a property."""
    types = [k for k, line in enumerate(lines) if line.startswith(":type: ")]
    if what == "property" and types and lines[0]:
        lines[0] = f"{lines.pop(types[0]).removeprefix(':type: ')}: {lines[0]}"
