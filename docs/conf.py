"""How `make docs` builds the site. It loads nothing from the network, when it is built and when it is read."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
from pathlib import Path
from typing import Any

import taufpl

os.environ["MPLBACKEND"] = "Agg"  # pictures of the gallery are drawn, never shown

HERE = Path(__file__).resolve().parent

project = "taufpl"
author = "The taufpl developers"
version = release = taufpl.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_gallery.gen_gallery"]

exclude_patterns = ["_build", "gallery", "figures"]
if importlib.util.find_spec("taufpl.persistence") is None:
    exclude_patterns.append("api/persistence.rst")

# Reading Markdown.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# Reading docstrings: formulas and examples are in the text, types in the sections of parameters.
default_role = "literal"
autodoc_typehints = "none"
autodoc_default_options = {"inherited-members": True, "member-order": "bysource"}
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(collections|matplotlib|numpy|scipy|sklearn)\..*"),  # no network, hence no inventories of others
    ("py:.*", r"taufpl\.(\w+\.)*_\w+.*"),  # private names have no page
]

# The gallery: every script is run.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto/gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 3600,  # times would differ from build to build
    "write_computation_times": False,
    "plot_gallery": "True",
    "doc_module": ("taufpl",),
    "reference_url": {"taufpl": None},
    "backreferences_dir": "auto/used",
    "image_scrapers": ("matplotlib",),
    "default_thumb_file": str(HERE / "figures" / "collapse.png"),
}

# The looks.
html_theme = "furo"
html_title = "taufpl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
templates_path = ["_templates"]

# Files of the repository whose page here has another name.
SHOWN_AS = {
    "../README.md": "index.md",
    "../ARCHITECTURE.md": "project/architecture.md",
    "../CHANGELOG.md": "project/changelog.md",
    "../CONTRIBUTING.md": "project/contributing.md",
    "../SECURITY.md": "project/security.md",
    "../benchmarks/README.md": "project/benchmarks.md",
    **{
        f"../benchmarks/results/{name}.md": f"project/benchmarks-{name}.md"
        for name in ("projection", "solvers", "guarantee", "recall", "kernels", "scale")
    },
    **{
        f"../results/{name}/table.md": f"project/results-{name}.md"
        for name in ("ranking", "classification", "projection", "scaling")
    },
    "gallery/GALLERY_HEADER.rst": "auto/gallery/index.rst",
}
INCLUDE = re.compile(r"^```\{include\} (?P<path>\S+)\n```$", re.MULTILINE)
PROMPTS = re.compile(r"(^```python\n>>>.*?\n)\n(?=```$)", re.MULTILINE | re.DOTALL)
ERROR = re.compile(r"(?<=\d) ± (?=[\d.])")
LINK = re.compile(r"(?P<text>!?\[[^\[\]]*\])\((?P<path>[\w./-]+\.\w+)(?P<anchor>#[\w-]+)?\)")


def relink(text: str, home: Path, shown_in: Path) -> str:
    """Links of a file that lies in the folder `home`, for a page in the folder `shown_in`."""

    def replace(match: re.Match[str]) -> str:
        target = os.path.relpath(home / match["path"], HERE).replace(os.sep, "/")
        target = re.sub(r"^gallery/(plot_\w+)\.py$", r"auto/gallery/\1.rst", SHOWN_AS.get(target, target))
        path = os.path.relpath(HERE / target, shown_in).replace(os.sep, "/")
        return f"{match['text']}({path}{match['anchor'] or ''})"

    return LINK.sub(replace, text)


def on_source_read(app: Any, name: str, source: list[str]) -> None:
    """Files of the repository keep links that hold where they lie; here they are made to hold on the site."""
    if Path(app.env.doc2path(name)).suffix != ".md":
        return
    folder = (HERE / name).parent

    def include(match: re.Match[str]) -> str:
        path = (folder / match["path"]).resolve()
        app.env.note_dependency(str(path))
        return relink(path.read_text(encoding="utf-8"), path.parent, folder)

    whole = INCLUDE.fullmatch(source[0].strip())
    source[0] = include(whole) if whole else relink(source[0], folder, folder)
    source[0] = ERROR.sub("\u00a0±\u00a0", source[0])  # a figure and its error stay on one line
    source[0] = PROMPTS.sub(r"\1", source[0])  # doctest wants an empty line at the end, a reader does not


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Of inherited members show those of this library: scikit-learn has pages of its own."""
    if skip or what != "class":
        return None
    function = obj.fget if isinstance(obj, property) else getattr(obj, "__func__", obj)
    module = getattr(inspect.unwrap(function) if callable(function) else function, "__module__", None)
    return None if isinstance(module, str) and module.startswith("taufpl") else True


def setup(app: Any) -> None:
    app.connect("source-read", on_source_read)
    app.connect("autodoc-skip-member", skip_foreign)
