"""Fits on a device: time of the public calls, stage by stage, against the floor that memory sets, and against rivals.

    python benchmarks/gpu.py [--old OLD/src] [--rows 10000000] [--features 100] [--repeats 5] [--rival-rows 500000]

The data are two overlapping normal classes in single precision, made on the device: CUDA where there is one, else the
CPU (take fewer rows then). With `--old` another version of the sources, with its compiled modules, makes the same calls
in turns. Recall and false alarms are those on a million unseen rows. Where the time passes is told by package, by the
profiler, in one call more each in which every launch waits for the device. The floor is what the passes of the solver
would take at the speed of a copy. Prints Markdown.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from taufpl import TauFPLClassifier, TauFPLRanker
from turns import Fit, Version, serve

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = "TAUFPL_GPU_SHAPE"  # names rows, features, share and shift in the environment, for the processes of versions
UNSEEN_ROWS = 1_000_000
CALLS: dict[str, Callable[[], Any]] = {
    "TauFPLRanker()": TauFPLRanker,
    'TauFPLClassifier(threshold="np", reg=1e-3, tau_scale=1.0)': lambda: TauFPLClassifier(
        threshold="np", reg=1e-3, tau_scale=1.0, random_state=0
    ),
    "TauFPLClassifier()": lambda: TauFPLClassifier(random_state=0),
}


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median seconds of some calls after one that does not count, and the last answer."""
    call()
    seconds = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        answer = call()
        wait()
        seconds.append(time.perf_counter() - began)
    return median(seconds), answer


def make_data(
    rows: int, features: int, share: float, shift: float, unseen: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Standard normal rows; positives lie `shift` standard deviations further in one direction.

    Rows that no fit has seen follow after the others, from the same classes.
    """
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.empty((rows, features), dtype=torch.float32, device=DEVICE)
    X.normal_(generator=generator)
    is_positive = torch.rand(rows, generator=generator, device=DEVICE) < share
    direction = torch.randn(features, generator=generator, device=DEVICE)
    direction *= shift / direction.norm()
    if unseen:
        X = torch.empty((unseen, features), dtype=torch.float32, device=DEVICE).normal_(generator=generator)
        is_positive = torch.rand(unseen, generator=generator, device=DEVICE) < share
    places = is_positive.nonzero()[:, 0]
    for part in places.split(1 << 20):
        X[part] += direction
    return X, is_positive


def serve_calls() -> None:
    """Make the public calls in this process, on rows of its own."""
    rows, features, share, shift = os.environ[SHAPE].split()
    shape = (int(rows), int(features), float(share), float(shift))
    X, y = make_data(*shape)
    unseen, labels = make_data(*shape, unseen=UNSEEN_ROWS)

    def tell(model: Any) -> dict[str, float]:
        alarms = model.predict(unseen) == 1
        rates = [float(alarms[mask].double().mean()) for mask in (labels, ~labels)]
        return {"primal": model.primal_objective_, "gap": model.dual_gap_, "recall": rates[0], "fpr": rates[1]}

    def case(make: Callable[[], Any]) -> Callable[[], Fit]:
        return lambda: lambda: make().fit(X, y)

    serve({name: case(make) for name, make in CALLS.items()}, tell)


def report_calls(args: argparse.Namespace) -> None:
    """Seconds of the public calls, each version in a process of its own, in turns."""
    os.environ[SHAPE] = f"{args.rows} {args.features} {args.share} {args.shift}"
    sources = ([args.old] if args.old else []) + [os.path.dirname(os.path.dirname(sys.modules["taufpl"].__file__))]
    versions = [Version(__file__, source) for source in sources]
    print("\n| call | version | s | primal | gap | recall | false alarms |\n|---|---|---|---|---|---|---|")
    try:
        for name in CALLS:
            told: list[list[Any]] = [[] for _ in versions]
            for _ in range(args.repeats):
                for version, answers in zip(versions, told, strict=True):
                    answers.append(version.fit(name))
            for label, answers in zip(("old", "new")[-len(versions) :], told, strict=True):
                seconds, (_, last) = median(each for each, _ in answers), answers[-1]
                # An average of rankings has no certificate.
                proven = "- | -" if np.isnan(last["gap"]) else f"{last['primal']:.6f} | {last['gap']:.1e}"
                print(
                    f"| `{name}` | {label} | **{seconds:.3f}** | {proven} | {last['recall']:.4f} | {last['fpr']:.5f} |",
                    flush=True,
                )
    finally:
        for version in versions:
            version.end()


def pose(X: torch.Tensor, is_positive: torch.Tensor, tau: float, reg: float) -> Any:
    from taufpl.operators.remote import as_blocks, divide
    from taufpl.problem import top_count
    from taufpl.problem.remote import BlockRankingProblem

    blocks = as_blocks(X, is_positive)
    divide(blocks, True)
    m = int(is_positive.sum())
    n = X.shape[0] - m
    return BlockRankingProblem(blocks, m, n, top_count(tau, n), reg)


def copy_bandwidth(size: int) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.empty(min(size, 1 << 32) // 4, dtype=torch.float32, device=DEVICE).normal_()
    target = torch.empty_like(source)
    seconds, _ = timed(lambda: target.copy_(source), 10)
    return 2.0 * source.nbytes / seconds


def report_products(X: torch.Tensor, bandwidth: float) -> None:
    """Ways to multiply all rows by one vector: bytes of X over time, as a share of the copy's speed."""
    w = torch.randn(X.shape[1], dtype=torch.float32, device=DEVICE)
    narrow, wide = w[:, None].contiguous(), w[:, None].repeat(1, 8).contiguous()
    host = w.double().cpu().numpy()
    from taufpl.operators.remote import as_block

    block = as_block(X)
    ways: dict[str, Callable[[], Any]] = {
        "torch.mv": lambda: torch.mv(X, w),
        "torch.matmul, d x 1": lambda: X @ narrow,
        "torch.matmul, d x 8": lambda: X @ wide,
        "block.dot, as the solver calls it": lambda: block.dot(host),
        "block.dot, in double precision": lambda: block.dot(host, exact=True),
    }
    print("\n| product | ms | GB/s | share of the copy's speed |\n|---|---|---|---|")
    for name, way in ways.items():
        seconds, _ = timed(way, 10)
        speed = X.nbytes / seconds
        print(f"| {name} | {1e3 * seconds:.2f} | {speed / 1e9:.0f} | {speed / bandwidth:.0%} |", flush=True)


def seconds_by_package(call: Callable[[], Any]) -> dict[str, float]:
    """Seconds of one call by package of taufpl; what other libraries take counts for those who called them."""
    call()
    gc.collect()  # so that Python does not clear up in the middle
    profile = cProfile.Profile()
    profile.enable()
    call()
    wait()
    profile.disable()
    stats: dict[Any, Any] = pstats.Stats(profile).stats
    own = os.path.dirname(sys.modules["taufpl"].__file__) + os.sep
    seconds: dict[str, float] = defaultdict(float)

    def charge(function: Any, spent: float, seen: tuple[Any, ...]) -> None:
        if function[0].startswith(own):
            seconds[os.path.dirname(function[0].removeprefix(own)).replace(os.sep, ".") or "taufpl"] += spent
            return
        callers = {who: how[3] for who, how in stats[function][4].items() if who not in seen and how[3] > 0}
        if not callers:
            seconds["elsewhere"] += spent
        for who, share in callers.items():
            charge(who, spent * share / sum(callers.values()), (*seen, function))

    for function, (_, _, spent, _, _) in stats.items():
        if spent > 0:
            charge(function, spent, (function,))
    return seconds


def report_stages(args: argparse.Namespace) -> None:
    """Tables of where the time of each call passes, in a process in which each launch waits for the device."""
    X, is_positive = make_data(args.rows, args.features, args.share, args.shift)
    for name, make in CALLS.items():
        seconds = seconds_by_package(lambda make=make: make().fit(X, is_positive))
        total = sum(seconds.values())
        print(f"\n| `{name}`: {1e3 * total:.1f} ms, each launch waiting | ms | share |\n|---|---|---|")
        for package, spent in sorted(seconds.items(), key=lambda item: -item[1]):
            print(f"| {package} | {1e3 * spent:.2f} | {spent / total:.1%} |", flush=True)


def report_fit(problem: Any, X: torch.Tensor, args: argparse.Namespace, bandwidth: float) -> None:
    from taufpl.solvers import Newton

    solver = Newton(tol=args.tol)
    seconds, result = timed(lambda: solver.solve(problem), args.repeats)
    floor = result.n_passes * X.nbytes / bandwidth
    print(f"\nSolver: **{1e3 * seconds:.1f} ms** (median of {args.repeats}), {describe(result)}.")
    print(f"Floor for these passes at the copy's speed: {1e3 * floor:.1f} ms, {floor / seconds:.0%} of it.")


def describe(result: Any) -> str:
    return (
        f"{result.status}, relative gap {result.gap:.1e}, P = {result.primal:.5f}; {result.n_iter} steps, "
        f"{result.n_passes:.1f} passes, {result.n_projections} projections, {result.n_rounds} rounds"
    )


def logistic_regression(X: torch.Tensor, is_positive: torch.Tensor, reg: float) -> tuple[int, float]:
    """L-BFGS to a gradient of a thousandth of the first; evaluations and the last gradient's share."""
    target = is_positive.to(X.dtype)
    w = torch.zeros(X.shape[1], dtype=X.dtype, device=DEVICE, requires_grad=True)
    b = torch.zeros(1, dtype=X.dtype, device=DEVICE, requires_grad=True)
    seen: list[float] = []

    def evaluate() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(X @ w + b, target) + 0.5 * reg * w.dot(w)
        loss.backward()
        seen.append(float(w.grad.norm()))
        return loss

    optimiser = torch.optim.LBFGS([w, b], max_iter=20, history_size=10, line_search_fn="strong_wolfe")
    for _ in range(10):
        optimiser.step(evaluate)
        if seen[-1] <= 1e-3 * seen[0]:
            break
    return len(seen), seen[-1] / seen[0]


def report_rivals(X: torch.Tensor, is_positive: torch.Tensor, args: argparse.Namespace) -> None:
    from taufpl.operators import as_operator
    from taufpl.problem import RankingProblem
    from taufpl.solvers import Newton

    part, labels = X[: args.rival_rows], is_positive[: args.rival_rows]
    problem = pose(part, labels, args.tau, args.reg)
    seconds, result = timed(lambda: Newton(tol=args.tol).solve(problem), 3)
    host, mask = part.cpu().numpy(), labels.cpu().numpy()
    there = RankingProblem(as_operator(host), np.flatnonzero(mask), np.flatnonzero(~mask), problem.k, args.reg)
    began = time.perf_counter()
    in_memory = Newton(tol=args.tol).solve(there)
    cpu_seconds = time.perf_counter() - began
    print("\n| solver | rows | s | |\n|---|---|---|---|")
    print(
        f"| blocks on {DEVICE.type} | {len(part):,} | {seconds:.3f} | gap {result.gap:.1e}, P = {result.primal:.5f} |"
    )
    print(
        f"| in-memory Newton, CPU | {len(part):,} | {cpu_seconds:.3f} | gap {in_memory.gap:.1e}, "
        f"P = {in_memory.primal:.5f} |"
    )
    logistic_regression(part, labels, args.reg)  # loads what the optimiser is made of
    wait()
    began = time.perf_counter()
    evaluations, share = logistic_regression(X, is_positive, args.reg)
    wait()
    print(
        f"| logistic regression, torch L-BFGS on {DEVICE.type} | {len(X):,} | {time.perf_counter() - began:.3f} | "
        f"{evaluations} evaluations, gradient {share:.0e} of the first |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.05, help="of positives")
    parser.add_argument("--shift", type=float, default=3.5, help="of the positives, in standard deviations")
    parser.add_argument("--tau", type=float, default=0.01)
    parser.add_argument("--reg", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rival-rows", type=int, default=500_000)
    parser.add_argument("--old", help="sources of another version, with its compiled modules")
    parser.add_argument("--stages", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False

    if args.serve or args.stages:
        serve_calls() if args.serve else report_stages(args)
        return
    X, is_positive = make_data(args.rows, args.features, args.share, args.shift)
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    print(f"### {args.rows:,} x {args.features}, float32, {int(is_positive.sum()):,} positives, on {name}\n")
    bandwidth = copy_bandwidth(X.nbytes)
    print(f"tau {args.tau:g}, reg {args.reg:g}, to a relative gap of {args.tol:g}. torch {torch.__version__}.")
    print(f"Copy: {bandwidth / 1e9:.0f} GB/s. Floor of a pass: {1e3 * X.nbytes / bandwidth:.2f} ms.")
    report_calls(args)
    # What is timed elsewhere must not wait at each launch.
    subprocess.run([*sys.orig_argv, "--stages"], env=os.environ | {"CUDA_LAUNCH_BLOCKING": "1"}, check=True)
    report_products(X, bandwidth)
    report_fit(pose(X, is_positive, args.tau, args.reg), X, args, bandwidth)
    report_rivals(X, is_positive, args)


if __name__ == "__main__":
    main()
