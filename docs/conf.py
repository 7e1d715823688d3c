"""Builds the site from the Markdown of the repository and the docstrings of the public modules.

Run it from the root of the repository, with the dependency group ``docs``::

    sphinx-build -c docs . site
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import version as version_of
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

import mcptrio
import mcptrio.auth

API = Path(__file__).parent / "api"

project = "mcptrio"
author = "the maintainers of mcptrio"
version = release = version_of("mcptrio")

# The root of the repository is the source, so a link between two files is the same here and on a forge.
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/api/*.rst", "plugins/*/README.md", "benchmarks/RESULTS.md", "[CS]*.md"]

PAGES = re.findall(r"automodule:: (\S+)", "".join(page.read_text() for page in sorted(API.glob("*.rst"))))
"""The public modules."""

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
autodoc_default_options = {"members": True, "imported-members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

# Every reference to a name of ours is a link. There is no network while the site is built, so other libraries' are not.
nitpicky = True
_FOREIGN = "collections|contextlib|datetime|ipaddress|outcome|pathlib|pluggy|sqlite3|ssl|subprocess|trio|typing"
nitpick_ignore_regex = [
    ("py:.*", rf"({_FOREIGN})\..*|Path"),
    ("py:(class|obj)", r"(.*\.)?[A-Z](_co)?"),  # type variables
    ("py:class", r".*[\['].*"),  # parts of an annotation
]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_extra_path = ["redirect"]  # the first page of the site is below docs/
html_title = f"mcptrio {version}"


def _links(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each heading of the index with the pages that the lines below it link to."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title.strip(), re.findall(r"\]\(([\w./-]+)\.(?:md|rst)\)", body)


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the types to a page of the reference, and make the navigation of the index, which a forge shows as lists."""
    for public in re.findall(r"automodule:: (\S+)", source[0]):
        # Autodoc passes over names that are neither classes nor functions and are described in another module.
        module = importlib.import_module(public)
        own = {name for _, name in ModuleAnalyzer.for_module(public).find_attr_docs()}
        for name in sorted({*module.__all__} - own):
            if not inspect.isclass(value := getattr(module, name)) and not inspect.isroutine(value):
                source[0] += f"\n.. autodata:: {module.__name__}.{name}\n   :no-value:\n"
    if page == root_doc:
        for title, pages in _links(source[0]):
            listed = "\n".join(pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n"


def select(app: Sphinx, what: str, name: str, value: object, skip: bool, options: Any) -> bool | None:
    """An error that ``mcptrio`` or ``mcptrio.auth`` has as well is described there alone."""
    page = app.env.current_document.docname
    return True if page == "docs/api/errors" and name in {*mcptrio.__all__, *mcptrio.auth.__all__} else None


def hide_wiring(app: Sphinx, what: str, name: str, value: object, options: Any, signature: str, result: str) -> Any:
    """Hide the parameters of a class that users get and never make, and how attrs marks a default that it computes."""
    if what == "class" and "Made by" in (inspect.getdoc(value) or ""):
        return "", None
    return (signature.replace("= NOTHING", "= ..."), result) if signature else None


def find_public(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.Node | None:
    """Link what is named without its module, or by the module that has it, to the public name."""
    if node["refdomain"] != "py":
        return None
    target, objects = node["reftarget"], env.domains.python_domain.objects
    own, last = node.get("py:module") or "mcptrio", target.rpartition(".")[2]
    found = [each for each in objects if each.rpartition(".")[2] == last and each.rpartition(".")[0] in PAGES]
    if not found:
        return None
    # The public module that has it, else the one that the reference is in, else the most central.
    near = min(
        found, key=lambda each: (not target.startswith(each.rpartition(".")[0] + "."), own not in each, len(each))
    )
    return make_refnode(app.builder, node["refdoc"], objects[near].docname, objects[near].node_id, text, near)


def describe(app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    """Give an alias of types the string below it, and keep the colons where Napoleon would read ``TYPE: TEXT``."""
    if what == "data":
        lines[:] = _below(*name.rpartition(".")[::2]).splitlines() or lines
    if what in ("attribute", "data", "property"):
        lines.insert(0, "\\ ")
    for number, line in enumerate(lines):
        if line.strip() == "Returns:":
            lines[number + 1] = re.sub(r"^ *", r"\g<0>: ", lines[number + 1])


def _below(module: str, name: str) -> str:
    """The string below the assignment of a name, in the module that has it."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node in (each for part in body for each in (part.body if isinstance(part, ast.If) else [part])):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return _below(node.module or "", name)
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(after, ast.Expr):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == name and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    return ""


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", describe, priority=400)  # before Napoleon's
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", select)
    app.connect("autodoc-process-signature", hide_wiring)
    app.connect("missing-reference", find_public)
