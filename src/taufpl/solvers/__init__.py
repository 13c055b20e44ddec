"""Solvers: they see a problem and settings, and return a certified result."""

from taufpl._extras import deprecated
from taufpl.solvers._accelerated import Accelerated
from taufpl.solvers._newton import FrozenModel as FrozenModel, Newton, Pace, line_search as line_search
from taufpl.solvers._result import Callback, Record, Result, Solver, Status, solve_path

__all__ = ["Accelerated", "Callback", "Newton", "Pace", "Record", "Result", "Solver", "Status", "solve_path"]

__getattr__ = deprecated(__name__, {"BlockNewton": Newton, "BlockResult": Result})
