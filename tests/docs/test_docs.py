"""The documentation: links lead somewhere, scripts run, every public name has its place."""

import importlib
import importlib.util
import inspect
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

MADE = {"_build", "auto"}
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    + [page for page in DOCS.rglob("*.md") if not MADE & set(page.relative_to(DOCS).parts)]
)
# The longest of them are left to the whole run.
LONG_SCRIPTS = {"plot_2_thresholds", "plot_7_boosting", "plot_8_kernels"}
SCRIPTS = [
    pytest.param(path, marks=[pytest.mark.slow] * (path.stem in LONG_SCRIPTS), id=path.stem)
    for path in sorted((DOCS / "gallery").glob("plot_*.py"))
]

# Modules with a page of their own, and where it is.
MODULES = {
    "taufpl": "estimators",
    "taufpl.baselines": "baselines",
    "taufpl.baselines.projection": "baselines",
    "taufpl.cli": "cli",
    "taufpl.datasets": "datasets",
    "taufpl.exceptions": "exceptions",
    "taufpl.experiments": "experiments",
    "taufpl.inspection": "inspection",
    "taufpl.kernels": "kernels",
    "taufpl.metrics": "metrics",
    "taufpl.monitoring": "monitoring",
    "taufpl.operators": "operators",
    "taufpl.persistence": "persistence",
    "taufpl.planning": "planning",
    "taufpl.plotting": "plotting",
    "taufpl.preprocessing": "preprocessing",
    "taufpl.problem": "problem",
    "taufpl.projection": "projection",
    "taufpl.projection.agnostic": "projection",
    "taufpl.report": "report",
    "taufpl.solvers": "solvers",
    "taufpl.thresholding": "thresholding",
}

FENCE = re.compile(r"^(?P<ticks>```+|:::+).*?^(?P=ticks)\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\[\]]*\]\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#*$", re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code, in which nothing is a link or a heading."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings: small letters, hyphens for spaces, other signs dropped."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    plain = [re.sub(r"[^\w\- ]", "", match["text"].lower()) for match in HEADING.finditer(text)]
    return {heading.replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> list[str]:
    found = []
    for match in LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", match["target"]):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            found.append(f"{match['target']}: there is no {target}")
        elif anchor and anchor not in anchors(path):
            found.append(f"{match['target']}: {path.name} has no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links(page):
    assert not broken_links(page)


def test_a_broken_link_is_reported(tmp_path):
    (tmp_path / "other.md").write_text("# One heading\n\n## It's `two`, (so)\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#its-two-so) [b](other.md#three) ![c](none.png) [d](https://none.example)\n\n"
        "```\n[e](none.md)\n```\n\n[f](#nowhere)\n",
        encoding="utf-8",
    )
    assert [text.partition(":")[0] for text in broken_links(page)] == ["other.md#three", "none.png", "#nowhere"]


def test_a_broken_link_of_the_site_is_reported(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.html").write_text('<p id="here"><a href="#">top</a>', encoding="utf-8")
    links = ["deep/other.html#here", "deep/other.html#gone", "deep", "none.html", "https://none.example", "#nowhere"]
    page = "".join(f'<a href="{link}">' for link in links)
    (tmp_path / "page.html").write_text(f'{page}<img src="none.png">', encoding="utf-8")
    found = runpy.run_path(str(DOCS / "check_links.py"))["broken_links"](tmp_path)
    assert found == [f"page.html: {link}" for link in ("#nowhere", "deep/other.html#gone", "none.html", "none.png")]


def entries(page: Path) -> list[Path]:
    """Where the tables of contents of a page lead, without suffixes."""
    bodies = (match["body"] for match in TOCTREE.finditer(page.read_text(encoding="utf-8")))
    lines = (line.strip() for body in bodies for line in body.splitlines())
    named = (re.sub(r"^.* <(.*)>$", r"\1", line) for line in lines if line and not line.startswith(":"))
    return [page.parent / name for name in named]


def test_every_page_is_in_a_table_of_contents():
    listed = [entry for folder in (DOCS, DOCS / "api", DOCS / "decisions") for entry in entries(folder / "index.md")]
    assert len(listed) == len(set(listed))
    written = {page.with_suffix("") for page in [*PAGES, *(DOCS / "api").glob("*.rst")] if DOCS in page.parents}
    made = {page for page in listed if "auto" in page.parts}
    assert set(listed) - made == written - {DOCS / "index"}


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent in (DOCS, DOCS / "howto")], ids=named)
def test_a_page_says_first_what_it_is_for(page):
    first = re.match(r"# .+\n\n(?P<start>\S)", page.read_text(encoding="utf-8"))
    assert first, "a page begins with a heading"
    assert first["start"] not in "#`|!:", "then with a sentence"


@pytest.mark.gallery
@pytest.mark.parametrize("script", SCRIPTS)
def test_gallery(script, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt.close("all")
    try:
        runpy.run_path(str(script))
        assert plt.get_fignums(), "an example has a picture"
    finally:
        plt.close("all")


def public_names(module: str) -> set[str]:
    """What a module offers: its `__all__`, or else the classes and functions that it defines."""
    content = importlib.import_module(module)
    if hasattr(content, "__all__"):
        return {name for name in content.__all__ if not inspect.ismodule(getattr(content, name))}
    own = (name for name, value in vars(content).items() if getattr(value, "__module__", None) == module)
    return {name for name in own if not name.startswith("_")}


def listed_names(page: Path) -> dict[str, set[str]]:
    """Names in the summaries of an API page, by module."""
    found: dict[str, set[str]] = {}
    module = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(".. module:: "):
            module = line.removeprefix(".. module:: ").strip()
        elif re.fullmatch(r"   \w+", line):
            found.setdefault(module, set()).add(line.strip())
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not there")
    assert listed_names(DOCS / "api" / f"{MODULES[module]}.rst")[module] == public_names(module)


def test_the_reference_lists_no_other_module():
    assert {module for page in (DOCS / "api").glob("*.rst") for module in listed_names(page)} == set(MODULES)


def test_every_public_module_has_a_page():
    import taufpl

    home = Path(taufpl.__file__).parent
    modules = {
        f"taufpl.{path.stem}" for path in home.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"
    }
    private = {name for name in modules if name.split(".")[1].startswith("_")}
    # The estimators and the code of the paper are shown under the names by which they are imported.
    assert modules - private - {"taufpl.estimators", "taufpl.paper"} == {
        name for name in MODULES if name.count(".") == 1 and importlib.util.find_spec(name) is not None
    }
