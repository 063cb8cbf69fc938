"""Sphinx configuration."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from contrib.vendors import in_tree
from hami_core import __version__

# A vendor's page lies in its folder; Sphinx reads pages below docs/ only.
PAGES = Path(__file__).parent / "vendors"
shutil.rmtree(PAGES, ignore_errors=True)
PAGES.mkdir()
for vendor in in_tree():
    shutil.copy2(vendor.page, PAGES / f"{vendor.name}.md")

project = "HAMi in Python"
author = "The HAMi authors"
copyright = "The HAMi authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"HAMi in Python {version}"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "description"
default_role = "code"
