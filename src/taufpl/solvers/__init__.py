"""Solvers: they see a problem and settings, and return a certified result."""

from taufpl.solvers._accelerated import Accelerated
from taufpl.solvers._block_newton import BlockNewton
from taufpl.solvers._block_result import BlockResult
from taufpl.solvers._newton import Newton, Pace
from taufpl.solvers._path import Solver, solve_path
from taufpl.solvers._result import Callback, Record, Result, Status

__all__ = [
    "Accelerated",
    "BlockNewton",
    "BlockResult",
    "Callback",
    "Newton",
    "Pace",
    "Record",
    "Result",
    "Solver",
    "Status",
    "solve_path",
]
