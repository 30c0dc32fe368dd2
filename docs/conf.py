"""The documentation, by Sphinx: ``python -m sphinx -W docs docs/_build`` after ``pip install '.[docs]'``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import twoafc
from twoafc.distances import distance

# Kernels of the tutorials find `running` there, with which a failing command fails its page.
here = Path(__file__).parent
sys.argv[0] = "twoafc"  # the program that the usage lines of commands name
sys.path.insert(0, str(here))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(here), os.environ.get("PYTHONPATH")]))

project = "twoafc"
author = "The twoafc developers"
release = version = twoafc.__version__
html_title = "twoafc"

extensions = [
    "cyclopts.ext.sphinx",
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "jupyter_execute"]  # both are written by a build in this folder
templates_path: list[str] = []

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# Every tutorial is run anew, in a folder of its own, and a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_execution_excludepatterns: list[str] = []
try:
    distance("lpips_alex")
except (ImportError, ValueError) as error:
    # The one tutorial that needs published weights is shown without its output where they are not at hand.
    nb_execution_excludepatterns = ["tutorials/author.md"]
    print(f"tutorials/author is not run: {error}")

# Short names such as `low` that several classes share, in the text of docstrings: no link is better than any.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
