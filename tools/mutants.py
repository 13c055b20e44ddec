"""Change a comparison, a sign, an `and`, a `not` of a package, one at a time, and see whether its tests notice.

    python tools/mutants.py thresholding --sample 60 --seed 1

cosmic-ray makes the changes, in a copy of the installed package below build/mutants; `make mutants` installs what is
needed first. A change is tried on those quick tests of the package's folder that run its line, by coverage.py; tests
of the same folder alone, because a test belongs beside what it tests. Prints the changes that no test noticed.
docs/decisions/mutants.md lists those that are known to be harmless.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "mutants"
# Opposites and borders of comparisons, signs, `and`, `or`, `not`, `True`, `break`.
OPERATORS = re.compile(
    r"core/(ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_(LtE|GtE)|LtE_(Lt|Gt)|Gt_(GtE|LtE)|GtE_(Gt|Lt)"
    r"|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul)"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_Not|Delete_USub)"
    r"|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue"
    r"|ReplaceBreakWithContinue|ReplaceContinueWithBreak)"
)
SECONDS = 120.0  # for one change: what runs for ever counts as noticed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("package", help="a package of taufpl, such as thresholding or persistence/files")
    parser.add_argument("--tests", help="folder of its tests; by default tests/PACKAGE, or the nearest above")
    parser.add_argument("--sample", type=int, help="how many changes to try; by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="try changes of lines that match FILE:LINE alone, as a regular expression"
    )
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)  # what cosmic-ray calls
    options = parser.parse_args()
    if options.run:
        sys.exit(run_tests(options.run))
    tests = Path(options.tests or "tests") / ("" if options.tests else options.package)
    while not (ROOT / tests).is_dir() or not list((ROOT / tests).glob("test_*.py")):
        tests = tests.parent
    work = prepare(options.package)
    learn_lines(work, tests)
    report(try_changes(work, options))


def prepare(package: str) -> Path:
    """A folder with a copy of the installed package to change, a second to compare with, and the tests."""
    work = FOLDER / package.replace("/", "-")
    shutil.rmtree(work, ignore_errors=True)
    where = [sys.executable, "-c", "import taufpl; print(taufpl.__path__[0])"]
    installed = subprocess.run(where, cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    if "site-packages" not in installed:
        sys.exit("taufpl is linked to src here: `make mutants` installs a copy that can be changed.")
    for name in ("changed", "pristine"):
        shutil.copytree(installed, work / name / "taufpl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "docs", "README.md", "pyproject.toml", "meson.build"):
        (work / name).symlink_to(ROOT / name)
    return work


def environment(work: Path) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"), "1")
    return os.environ | one | {"PYTHONPATH": str(work / "changed"), "CI": "true"}


def pytest(*arguments: str) -> list[str]:
    return ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not cluster", *arguments]


def learn_lines(work: Path, tests: Path) -> None:
    """Which tests run which line, into lines.json; all of them must pass before anything is changed."""
    (work / "coveragerc").write_text(
        f"[run]\ndynamic_context = test_function\nsource = {work}/changed/taufpl\ndata_file = {work}/coverage\n"
    )
    call = [sys.executable, "-m", "coverage", "run", f"--rcfile={work}/coveragerc", *pytest(str(tests))]
    done = subprocess.run(call, cwd=work, env=environment(work), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The tests of {tests} fail as they are:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    from coverage import CoverageData

    files = {path.stem: f"{path.relative_to(ROOT)}" for path in (ROOT / tests).rglob("test_*.py")}
    data, lines = CoverageData(str(work / "coverage")), {}
    data.read()
    for path in data.measured_files():
        name = str(Path(path).relative_to(work / "changed"))
        lines[name] = {
            number: sorted(
                {node for context in contexts if (node := node_of(context, files))} if "" not in contexts else []
            )
            for number, contexts in data.contexts_by_lineno(path).items()
        }
    (work / "lines.json").write_text(json.dumps({"tests": str(tests), "lines": lines}))


def node_of(context: str, files: dict[str, str]) -> str | None:
    """The name that pytest has for `package.test_file.[Class.]test_function`, if it is one."""
    parts = context.split(".")
    for i, part in enumerate(parts):
        if part in files:
            return "::".join([files[part], *parts[i + 1 :]])
    return None


def run_tests(work: Path) -> int:
    """What cosmic-ray calls after a change: the tests that run the line."""
    known = json.loads((work / "lines.json").read_text())
    nodes: set[str] = set()
    for path in (work / "changed" / "taufpl").rglob("*.py"):
        old, new = (p.read_text() for p in (work / "pristine" / path.relative_to(work / "changed"), path))
        if old == new:
            continue
        lines = known["lines"].get(str(path.relative_to(work / "changed")), {})
        for number in statement(old, first_difference(old, new)):
            if str(number) in lines:
                nodes |= set(lines[str(number)] or [known["tests"]])  # run at import: all tests
    if not nodes:
        return 0  # no test runs the line, so that none can notice
    call = [sys.executable, *pytest(*sorted(nodes))]
    return subprocess.run(call, cwd=work, env=environment(work), check=False).returncode


def first_difference(old: str, new: str) -> int:
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    return next(number for number, (a, b) in enumerate(pairs, 1) if a != b)


def statement(source: str, line: int) -> range:
    """Lines of the smallest statement that holds a line; of a compound one, those before its body."""
    best = range(line, line + 1)
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    if nodes:
        node = min(nodes, key=lambda n: n.end_lineno - n.lineno)
        body = getattr(node, "body", None)
        last = min(n.lineno for n in body) - 1 if body else node.end_lineno
        best = range(node.lineno, max(last, line) + 1)
    return best


def try_changes(work: Path, options: argparse.Namespace) -> Counter[str]:
    from cosmic_ray.commands import init
    from cosmic_ray.modules import find_modules
    from cosmic_ray.mutating import mutate_and_test
    from cosmic_ray.work_db import WorkDB, use_db

    path = work / "changed" / "taufpl" / options.package
    command = f"{sys.executable} {Path(__file__).resolve()} {options.package} --run {work}"
    results: list[str] = []
    with use_db(str(work / "session.sqlite"), WorkDB.Mode.create) as db:
        init(find_modules([path]), db, {})
        changes = [item.mutations[0] for item in db.work_items]
    changes = [change for change in changes if OPERATORS.fullmatch(change.operator_name)]
    changes = [change for change in changes if re.search(options.only, place(change, work))]
    changes.sort(key=lambda change: (str(change.module_path), change.start_pos, change.operator_name))
    if options.sample and options.sample < len(changes):
        changes = random.Random(options.seed).sample(changes, options.sample)
    started = time.monotonic()
    for done, change in enumerate(changes, 1):
        result = mutate_and_test([change], command, SECONDS)
        outcome = result.test_outcome.value if result.test_outcome else "no change"
        results.append(outcome)
        if outcome == "survived":
            print(f"{place(change, work)} {change.operator_name[5:]}\n{changed_lines(result.diff)}\n", flush=True)
        if done % 10 == 0:
            print(f"# {done} of {len(changes)}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return Counter(results)


def place(spec, work: Path) -> str:
    return f"{spec.module_path.relative_to(work / 'changed' / 'taufpl')}:{spec.start_pos[0]}"


def changed_lines(diff: str) -> str:
    kept = [line for line in diff.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
    return "\n".join(f"    {line}" for line in kept)


def report(counts: Counter[str]) -> None:
    tried = counts.total() - counts["no change"]
    print(f"{tried} changes, {counts['survived']} survived: {1 - counts['survived'] / max(tried, 1):.1%} noticed.")


if __name__ == "__main__":
    main()
