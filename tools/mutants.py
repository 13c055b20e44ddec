"""Change a comparison, a sign, an `and`, a `not` of a package, one at a time, and see whether its tests notice.

    python tools/mutants.py thresholding --sample 60 --seed 1

cosmic-ray makes the changes, in a copy of the installed package below build/mutants; `make mutants` installs what is
needed first. A change is tried on those quick tests of the package's own folder that run its line, by coverage.py. Each
try is a fork of this process, which has imported everything but taufpl. Prints the changes that no test noticed;
docs/decisions/mutants.md lists those that are known to be harmless.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Opposites and borders of comparisons, signs, `and`, `or`, `not`, `break`.
OPERATORS = re.compile(
    r"core/(ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_(LtE|GtE)|LtE_(Lt|Gt)|Gt_(GtE|LtE)|GtE_(Gt|Lt)"
    r"|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul)"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_Not|Delete_USub)"
    r"|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot|ReplaceBreakWithContinue|ReplaceContinueWithBreak)"
)
SECONDS = 60.0  # for one change: what runs for ever is noticed
SETTINGS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"), "1") | {"CI": "true"}

Lines = dict[str, dict[int, set[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("package", help="a package of taufpl, such as thresholding")
    parser.add_argument("--sample", type=int, help="how many changes to try; by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="regular expression for FILE:LINE of the changes to try")
    options = parser.parse_args()
    tests = Path("tests") / options.package
    while not list((ROOT / tests).glob("test_*.py")):
        tests = tests.parent
    work = prepare(options.package)
    lines = learn_lines(work, tests)
    counts = try_changes(work, lines, tests, options)
    tried = counts.total() - counts["no change"]
    noticed = counts["noticed"] + counts["ran for ever"]
    print(f"{tried} changes: {dict(counts)}; {noticed / max(tried, 1):.1%} noticed.")


def prepare(package: str) -> Path:
    """A folder with a copy of the installed package to change, and the tests."""
    work = ROOT / "build" / "mutants" / package.replace("/", "-")
    shutil.rmtree(work, ignore_errors=True)
    where = [sys.executable, "-c", "import taufpl; print(taufpl.__path__[0])"]
    installed = subprocess.run(where, cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    if "site-packages" not in installed:
        sys.exit("taufpl is linked to src here: `make mutants` installs a copy that can be changed.")
    shutil.copytree(installed, work / "taufpl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "docs", "README.md", "pyproject.toml", "meson.build"):
        (work / name).symlink_to(ROOT / name)
    return work


def arguments(*nodes: str) -> list[str]:
    return ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not cluster", *nodes]


def learn_lines(work: Path, tests: Path) -> Lines:
    """The tests that run each line; an empty set where it is run at import. All tests must pass as it is."""
    (work / "coveragerc").write_text(f"[run]\nsource = {work}/taufpl\ndata_file = {work}/coverage\n")
    call = [sys.executable, "-m", "coverage", "run", f"--rcfile={work}/coveragerc", "-m", "pytest"]
    call += ["-p", Path(__file__).stem, *arguments(str(tests))]
    environment = os.environ | SETTINGS | {"PYTHONPATH": f"{work}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run(call, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The tests of {tests} fail as they are:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    from coverage import CoverageData

    data, lines = CoverageData(str(work / "coverage")), {}
    data.read()
    for path in data.measured_files():
        found = data.contexts_by_lineno(path).items()
        lines[path] = {number: set() if "" in contexts else set(contexts) for number, contexts in found}
    return lines


def pytest_runtest_logstart(nodeid: str) -> None:
    """Hook of pytest: the lines that run from now on are those of this test."""
    from coverage import Coverage

    if (running := Coverage.current()) is not None:
        running.switch_context(nodeid.split("[")[0])


def try_changes(work: Path, lines: Lines, tests: Path, options: argparse.Namespace) -> Counter[str]:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changes = all_changes(work / "taufpl" / options.package)
    changes = [change for change in changes if re.search(options.only, place(work, *change[1:3]))]
    if options.sample and options.sample < len(changes):
        changes = random.Random(options.seed).sample(changes, options.sample)
    os.environ.update(SETTINGS)
    import_all_but_taufpl(work)
    outcomes: Counter[str] = Counter()
    for done, (operator, path, line, occurrence) in enumerate(changes, 1):
        old = path.read_text()
        new = mutate_code(old, get_operator(operator)(), occurrence)
        if new in (None, old):
            outcomes["no change"] += 1
            continue
        known = lines.get(str(path), {})
        ran = [known[number] for number in statement(old, line) if number in known]
        nodes = {str(tests)} if any(not nodes for nodes in ran) else set().union(*ran)
        path.write_text(new)
        try:
            outcome = outcome_of(work, sorted(nodes)) if nodes else "not run"
        finally:
            path.write_text(old)
        outcomes[outcome] += 1
        if outcome in ("survived", "not run"):
            pairs = zip(old.splitlines(), new.splitlines(), strict=False)
            a, b = next((a, b) for a, b in pairs if a != b)
            print(f"{place(work, path, line)} {operator[5:]}, {outcome}\n    -{a}\n    +{b}\n", flush=True)
        if done % 20 == 0:
            print(f"# {done} of {len(changes)}: {dict(outcomes)}", file=sys.stderr, flush=True)
    return outcomes


def all_changes(package: Path) -> list[tuple[str, Path, int, int]]:
    """Operator, file, line, and which of the operator's places in the file, in the order of files and lines."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.modules import find_modules
    from cosmic_ray.plugins import get_operator, operator_names

    found = []
    for path in map(Path, find_modules([package])):
        nodes, lines = list(ast_nodes(get_ast_from_path(path))), path.read_text().splitlines()
        for name in filter(OPERATORS.fullmatch, operator_names()):
            operator: Any = get_operator(name)()
            places = [place for node in nodes for place in operator.mutation_positions(node)]
            # The star before arguments that need their name is no product.
            is_star = [lines[line - 1][column:].startswith("*,") for (line, column), _ in places]
            found += [(name, path, place[0][0], i) for i, place in enumerate(places) if not is_star[i]]
    return sorted(found, key=lambda change: (*change[1:3], change[0], change[3]))


def import_all_but_taufpl(work: Path) -> None:
    """What takes seconds to import is there for every fork."""
    import hypothesis.extra.numpy
    import pandas
    import pytest
    import scipy.stats
    import sklearn.ensemble
    import sklearn.model_selection

    assert not any(name.startswith("taufpl") for name in sys.modules)
    assert all((hypothesis, pandas, pytest, scipy, sklearn))
    sys.path.insert(0, str(work))


def outcome_of(work: Path, nodes: list[str]) -> str:
    """Whether tests fail, in a process of their own."""
    import pytest

    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(work)
        os.environ["PYTHONPATH"] = str(work)
        for stream in (1, 2):
            os.dup2(os.open(work / "last.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        code = 70
        try:
            code = int(pytest.main([*arguments(*nodes), "-W", "ignore::pytest.PytestAssertRewriteWarning"]))
        finally:
            os._exit(code)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "survived" if status == 0 else "noticed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "ran for ever"


def statement(source: str, line: int) -> range:
    """Lines of the smallest statement that holds a line; of a compound one, those before its body."""
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    if not nodes:
        return range(line, line + 1)
    node = min(nodes, key=lambda n: n.end_lineno - n.lineno)
    body = getattr(node, "body", None)
    last = min(n.lineno for n in body) - 1 if body else node.end_lineno
    return range(node.lineno, max(last, line) + 1)


def place(work: Path, path: Path, line: int) -> str:
    return f"{path.relative_to(work / 'taufpl')}:{line}"


if __name__ == "__main__":
    main()
