"""Solvers: they see a problem and settings, and return a certified result."""

from taufpl.problem import conjugate_gradients
from taufpl.solvers._accelerated import Accelerated
from taufpl.solvers._line_search import line_search
from taufpl.solvers._newton import Newton, Pace
from taufpl.solvers._path import Solver, solve_path
from taufpl.solvers._result import Callback, Record, Result, Status

__all__ = [
    "Accelerated",
    "Callback",
    "Newton",
    "Pace",
    "Record",
    "Result",
    "Solver",
    "Status",
    "conjugate_gradients",
    "line_search",
    "solve_path",
]

# Earlier names of what serves remote rows too.
BlockNewton = Newton
BlockResult = Result
