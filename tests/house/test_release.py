"""What goes out: one version everywhere, and an archive and a wheel that install where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The wheel that this builds has 1.7 MB, of which the compiled modules are two thirds.
MOST_BYTES = 3_000_000

# Without the sources of this run.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

SMOKE = """
import numpy as np
from taufpl import TauFPLClassifier, __version__
from taufpl.datasets import load_breast_cancer

rng = np.random.default_rng(0)
y = np.repeat([0, 1], [2000, 200])
X = rng.normal(size=(2200, 5)) + y[:, np.newaxis]
screen = TauFPLClassifier(tau=0.05, threshold="np", random_state=0).fit(X, y)
assert screen.evidence_.guaranteed
assert load_breast_cancer().data.shape[0] > 500
table = np.column_stack([X, y])
np.savetxt("rows.csv", table, delimiter=",", header="a,b,c,d,e,y", comments="")
print(__version__)
"""


def version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))[1]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def extra(name):
    """What an extra asks for, with that of the extras which it names."""
    found = set()
    for text in project()["optional-dependencies"][name]:
        inner = re.fullmatch(r"taufpl\[(.+)\]", text)
        found |= {text} if inner is None else set().union(*map(extra, inner[1].split(",")))
    return found


def test_the_version_is_one():
    assert "version" in project()["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == version()
    released = re.search(r"^date-released: (.+)$", citation, re.MULTILINE)[1]
    assert f"## [{version()}] - {released}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_recipe_asks_for_what_the_package_asks_for():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == version()
    library, command = (output["requirements"] for output in recipe["outputs"])
    asked = {text.replace(" ", "") for text in library["run"]}
    assert asked == {"python", *project()["dependencies"]}
    assert {text.replace(" ", "") for text in command["run"][1:]} == extra("cli")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert {each.lower() for each in build} <= {text.replace(" ", "") for text in library["host"]}
    known = {re.split("[<>=]", text)[0]: text for text in extra("all")}
    for text in library["run_constraints"]:
        name, floor = text.split(" ")
        assert known[name.removesuffix("-base")].endswith(floor)


def test_every_python_of_the_classifiers_is_built_and_tested():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)", text)
    assert versions
    built = tomllib.loads(text)["tool"]["cibuildwheel"]["build"]
    assert [f"cp{each.replace('.', '')}-*" for each in versions] == [each for each in built if "t-" not in each]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert all(f'python: "{each}"' in workflow for each in versions)
    assert f'requires-python = ">={versions[0]}"' in text


def empty_environment(folder):
    """The commands of an environment that holds nothing, not even pip."""
    venv.create(folder)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def pip(place, *words, env=CLEAN):
    """Have the pip of this run work for another environment; what is not imported there is not compiled either."""
    command, *rest = words
    options = ["--no-compile"] * (command == "install")
    run(sys.executable, "-m", "pip", "--python", place / "python", command, *options, *rest, env=env)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The archive, and the wheel that pip makes of it, where there is nothing but what the build asks for."""
    if not (ROOT / ".git").exists():
        pytest.skip("an archive is made from a clone")
    folder = tmp_path_factory.mktemp("dist")
    tools = empty_environment(tmp_path_factory.mktemp("tools") / "venv")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    pip(tools, "install", *build["requires"], "ninja")
    env = {**CLEAN, "PATH": os.pathsep.join([str(tools), os.environ["PATH"]])}
    run(tools / "python", "-c", f"import mesonpy; mesonpy.build_sdist({str(folder)!r})", cwd=ROOT, env=env)
    (archive,) = folder.glob("*.tar.gz")
    pip(tools, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, archive, env=env)
    (wheel,) = folder.glob("*.whl")
    return archive, wheel


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(built):
    archive, wheel = built
    assert wheel.stat().st_size < MOST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"taufpl", f"taufpl-{version()}.dist-info"}
    assert not [name for name in names if re.search(r"test|bench|__pycache__|\.pyx|\.c$", name)]
    assert {"taufpl/py.typed", "taufpl/report/templates/page.html", "taufpl/_kernels/_csr.pyi"} <= set(names)
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "SECURITY.md", "tests/house/test_release.py"} <= inside
    assert not [name for name in inside if name.endswith(".so")]


@pytest.mark.slow
def test_twine_finds_nothing_wrong(built):
    pytest.importorskip("twine", reason="twine is not installed: pip install 'taufpl[dev]'")
    run(sys.executable, "-m", "twine", "check", "--strict", *built)


@pytest.mark.slow
def test_library_and_command_run_from_the_wheel_without_a_compiler(built, tmp_path):
    place = empty_environment(tmp_path / "venv")
    bare = {**CLEAN, "CC": "false", "PATH": str(place)}
    pip(place, "install", f"{built[1]}[cli]", env=bare)
    pip(place, "check", env=bare)
    options = {"cwd": tmp_path, "env": bare}
    assert run(place / "python", "-W", "error", "-c", SMOKE, **options).strip() == version()
    assert run(place / "taufpl", "--version", **options).strip() == f"taufpl {version()}"
    choice = ("--target", "y", "--tau", "0.05", "--model", "linear")
    run(place / "taufpl", "fit", "rows.csv", *choice, "-o", "screen.skops", **options)
    run(place / "taufpl", "predict", "screen.skops", "rows.csv", "-o", "decisions.csv", **options)
    assert len((tmp_path / "decisions.csv").read_text(encoding="utf-8").splitlines()) == 2201
    run(place / "taufpl", "report", "screen.skops", "rows.csv", "-o", "report.html", **options)
