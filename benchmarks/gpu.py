"""A ranking on a device: time of the fit against the floor that memory sets, stage by stage, and against rivals.

    python benchmarks/gpu.py [--rows 10000000] [--features 100] [--repeats 5] [--rival-rows 500000]

The data are two overlapping normal classes in single precision, made on the device: CUDA where there is one, else the
CPU (take fewer rows then). The floor is what the passes of a fit would take at the speed of a copy. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from statistics import median
from typing import Any

import numpy as np
import torch

from taufpl.operators import as_operator
from taufpl.operators.remote import ArrayBlock, LocalBlocks, as_block
from taufpl.problem import RankingProblem, top_count
from taufpl.problem.remote import BlockRankingProblem, _oracle, _tasks, labelled
from taufpl.projection.remote import _device as _device_projection, _tasks as _round_tasks, _top_mean
from taufpl.solvers import Newton, Result

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHARED = ("select", "transfers")


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


def make_data(rows: int, features: int, share: float, shift: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Standard normal rows; positives lie `shift` standard deviations further in one direction."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.empty((rows, features), dtype=torch.float32, device=DEVICE)
    X.normal_(generator=generator)
    is_positive = torch.rand(rows, generator=generator, device=DEVICE) < share
    direction = torch.randn(features, generator=generator, device=DEVICE)
    direction *= shift / direction.norm()
    places = is_positive.nonzero()[:, 0]
    for part in places.split(1 << 20):
        X[part] += direction
    return X, is_positive


def pose(X: torch.Tensor, is_positive: torch.Tensor, tau: float, reg: float) -> BlockRankingProblem:
    block = as_block(X)
    blocks = LocalBlocks([block], [labelled(block, is_positive)])
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


class Stages:
    """Seconds by stage, each without the stages inside it; the device is waited for at every border."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._stack = ["host, the rest"]
        self._since = time.perf_counter()

    def _switch(self) -> None:
        wait()
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def wrapped(self, call: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @wraps(call)
        def inner(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            # What several stages do belongs to projections where it is done for one.
            whose = "projection: " if stage in SHARED and self._stack[-1].startswith("projection") else ""
            self._stack.append(whose + stage)
            self.calls[whose + stage] += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._switch()
                self._stack.pop()

        return inner

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Wrap what the stages are made of."""
        places = [
            (ArrayBlock, "dot", "products"),
            (ArrayBlock, "add", "dual_direction"),
            (ArrayBlock, "moments", "Gram"),
            (ArrayBlock, "select", "select"),
            (ArrayBlock, "to_host", "transfers"),
            (_device_projection.SolveOnDevice, "__call__", "projection: solve"),
            (_round_tasks.Look, "__call__", "projection: look"),
            (_round_tasks.Fetch, "__call__", "projection: fetch"),
            (_round_tasks.Sample, "__call__", "projection: sample"),
            (_oracle, "project_by_rounds", "projection: host"),
            (_tasks.EvaluatePair, "deferred", "evaluate"),
            (_tasks.Recentre, "__call__", "centre"),
            (_tasks.Step, "__call__", "step"),
            (_top_mean.LookAtTop, "__call__", "top mean"),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for owner, name, stage in places:
            setattr(owner, name, self.wrapped(getattr(owner, name), stage))
        self._since = time.perf_counter()
        try:
            yield
            self._switch()
        finally:
            for owner, name, original in before:
                setattr(owner, name, original)


def report_fit(problem: BlockRankingProblem, X: torch.Tensor, args: argparse.Namespace, bandwidth: float) -> None:
    solver = Newton(tol=args.tol)
    seconds, result = timed(lambda: solver.solve(problem), args.repeats)
    floor = result.n_passes * X.nbytes / bandwidth
    print(f"\nFit: **{1e3 * seconds:.1f} ms** (median of {args.repeats}), {describe(result)}.")
    print(f"Floor for these passes at the copy's speed: {1e3 * floor:.1f} ms, {floor / seconds:.0%} of the fit.")
    stages = Stages()
    gc.collect()  # so that Python does not clear up in the middle of a stage
    with stages.watching():
        began = time.perf_counter()
        solver.solve(problem)
        total = time.perf_counter() - began
    print(f"\n| stage, waiting at every border ({1e3 * total:.1f} ms in all) | calls | ms | share |\n|---|---|---|---|")
    for stage, spent in sorted(stages.seconds.items(), key=lambda item: -item[1]):
        print(f"| {stage} | {stages.calls[stage]} | {1e3 * spent:.2f} | {spent / total:.1%} |")
    projection = sum(spent for stage, spent in stages.seconds.items() if stage.startswith("projection"))
    print(
        f"\nProjections together: {projection / total:.0%} of the fit, "
        f"{1e3 * projection / max(1, result.n_projections):.2f} ms each."
    )


def describe(result: Result) -> str:
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
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False

    X, is_positive = make_data(args.rows, args.features, args.share, args.shift)
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    print(f"### {args.rows:,} x {args.features}, float32, {int(is_positive.sum()):,} positives, on {name}\n")
    bandwidth = copy_bandwidth(X.nbytes)
    print(f"tau {args.tau:g}, reg {args.reg:g}, to a relative gap of {args.tol:g}. torch {torch.__version__}.")
    print(f"Copy: {bandwidth / 1e9:.0f} GB/s. Floor of a pass: {1e3 * X.nbytes / bandwidth:.2f} ms.")
    report_products(X, bandwidth)
    report_fit(pose(X, is_positive, args.tau, args.reg), X, args, bandwidth)
    report_rivals(X, is_positive, args)


if __name__ == "__main__":
    main()
