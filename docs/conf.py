"""Sphinx's settings: `make docs` builds these pages into build/docs, and fails on any warning."""

import smallmm

project = "smallmm"
author = copyright = "the authors of smallmm"
release = version = smallmm.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
default_role = "py:obj"  # single backticks in docstrings

myst_heading_anchors = 3

autodoc_typehints = "none"  # numpydoc's sections say it better
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"smallmm {release}"
