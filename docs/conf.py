"""Configuration of the documentation: `make docs`."""

from importlib.metadata import version as version_of

project = "bayes_feasible"
author = "the bayes_feasible developers"
release = version = version_of("bayes_feasible")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc shows the types in the sections of each docstring
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
exclude_patterns = ["_build"]

html_theme = "sphinx_book_theme"
html_title = "bayes_feasible"
html_theme_options = {"show_navbar_depth": 2, "home_page_in_toc": True}
