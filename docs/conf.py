"""Sphinx configuration.

Diagrams are SVG files beside the pages. Mermaid is left out: its Sphinx extension loads the renderer from a CDN when a
page is opened, and these pages must be readable on a machine without the Internet.
"""

import collections.abc
import sys
import tomllib
from enum import Enum
from pathlib import Path

from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

sys.path.insert(0, str(Path(__file__).parents[1] / "interpose/python"))
sys.path.insert(0, str(Path(__file__).parents[1] / "interpose/gpusim/python"))
sys.path.insert(0, str(Path(__file__).parents[1]))
import hami_core
from contrib.vendor_folders import copy_pages

ROOT = Path(__file__).parents[1]

VENDOR_PAGES = copy_pages()

project = "HAMi in Python"
author = "The HAMi authors"
copyright = "The HAMi authors"
release = version = hami_core.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"HAMi in Python {version}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0f766e", "color-brand-content": "#0f766e"},
    "dark_css_variables": {"color-brand-primary": "#2dd4bf", "color-brand-content": "#2dd4bf"},
}
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {}).get("Source")
if REPOSITORY:
    html_theme_options |= {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
napoleon_use_ivar = True
nitpicky = True
nitpick_ignore_regex = [
    # Other projects' documentation is on the Internet, where the build does not look.
    ("py:.*", r"(aiohttp|collections|datetime|fractions|os|pathlib|pydantic_core|typing)\..*"),
    ("py:class", "Path"),
    # Types that a public signature names and a vendor never makes.
    ("py:class", r".*\.(M|_T)|Enforcement|ErrorDetails|Loaded"),
]
# Names that public modules import for type checkers only.
NAMES = {name: getattr(door, name) for door in (collections.abc, hami_core) for name in door.__all__} | {"Path": Path}


def resolve(app, obj, bound):
    """Let autodoc find what the annotations of a function mean."""
    for name, value in NAMES.items():
        getattr(obj, "__globals__", {}).setdefault(name, value)


def sign(app, what, name, obj, options, signature, answer):
    """Leave out what a reader can't use: Python's word for made defaults, the kit's fixtures, pydantic's arguments."""
    if not signature:
        return None
    if name.endswith(".EnvironmentSettings"):
        return "", None
    return ("()", None) if ".VendorSuite." in name else (signature.replace("<factory>", "..."), answer)


def show(app, what, name, obj, skip, options):
    """Show public constants and the members of an Enum, which have no docstring that Python knows."""
    constant = what == "module" and not callable(obj) and not name.startswith("_")
    return False if constant or isinstance(obj, Enum) else None


def describe(app, what, name, obj, options, lines):
    """Take the text below a constant from the module that defines it."""
    constant = name.rpartition(".")[2]
    for home, module in sorted(sys.modules.items()):
        if what == "data" and not lines and home.startswith("hami_core.") and constant in vars(module):
            try:
                lines += ModuleAnalyzer.for_module(home).find_attr_docs().get(("", constant), [])
            except PycodeError:  # a module without a source file
                continue


def hide_edit_link(app, pagename, templatename, context, doctree):
    """A vendor's page is a copy: its address below docs/ is not in the repository."""
    if pagename in VENDOR_PAGES:
        context.pop("page_source_suffix", None)


def setup(app):
    app.connect("autodoc-before-process-signature", resolve)
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", show)
    app.connect("autodoc-process-docstring", describe)
    app.connect("html-page-context", hide_edit_link)
