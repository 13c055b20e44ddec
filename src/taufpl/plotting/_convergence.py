"""The duality gap of a solver, which bounds its distance from the optimum, against passes or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taufpl._types import Vector
from taufpl.plotting import style
from taufpl.plotting._display import CurveDisplay, display_name
from taufpl.plotting._scores import find_attribute
from taufpl.solvers import Record

_LABELS = {"passes": "Passes over the data", "seconds": "Time (s)"}

# Relative gaps under this are rounding, and a logarithmic axis has no 0.
_FLOOR = 1e-16


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay(CurveDisplay):
    """Relative duality gap against passes over the data or seconds, both axes logarithmic.

    The gap is (P - D) / P of the best primal and the best dual value so far, so that it never rises: it bounds how far
    the objective still is from its optimum.

    Make it by :meth:`from_estimator` or :meth:`from_history`.

    Parameters
    ----------
    cost : ndarray of shape (n_records,)
        Passes or seconds.
    gap : ndarray of shape (n_records,)
    against : {"passes", "seconds"}, default="passes"
    tol : float, default=None
        Tolerance of the solver, marked by a line.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib objects
        After `plot`.

    Examples
    --------
    >>> from taufpl.plotting import ConvergenceDisplay
    >>> from taufpl.solvers import Record
    >>> history = [Record(2.0, 0.01, 1.0, 0.2, 0.8), Record(9.0, 0.05, 0.5, 0.4999, 2e-4)]
    >>> display = ConvergenceDisplay.from_history(history, tol=1e-3)
    >>> display.cost
    array([2., 9.])
    """

    _purpose = "to draw the convergence of a solver"

    cost: Vector
    gap: Vector
    against: str = "passes"
    tol: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.against not in _LABELS:
            raise ValueError(f"against must be one of {tuple(_LABELS)}, got {self.against!r}.")

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, against: str = "passes", name: str | None = None, ax: Any = None, **line_options: Any
    ) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `history_`; its `tol` is marked.
        name : str, default=None
            Name in the legend; None for the estimator's class.
        against, ax, **line_options
            As for :meth:`from_history`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        check_is_fitted(estimator)
        history = find_attribute(estimator, "history_")
        if history is None:
            raise TypeError(
                f"estimator must keep a history of its solver in history_, and {type(estimator).__name__} keeps none. "
                "TauFPLRanker does."
            )
        tol, name = find_attribute(estimator, "tol"), display_name(estimator, name)
        return cls.from_history(history, against=against, tol=tol, name=name, ax=ax, **line_options)

    @classmethod
    def from_history(
        cls,
        history: Sequence[Record],
        *,
        against: str = "passes",
        tol: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> Self:
        """Draw a solver's history, for example `Result.history`.

        Parameters
        ----------
        history : sequence of Record
        against, tol, name
            As for the class.
        ax : matplotlib axes, default=None
            Where to draw; several displays may share them.
        **line_options
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        if len(history) == 0:
            raise ValueError("history must hold at least one record, got none. Did the solver run?")
        cost = [record.n_passes if against == "passes" else record.seconds for record in history]
        display = cls(
            cost=np.asarray(cost, dtype=np.float64),
            gap=np.asarray([record.gap for record in history], dtype=np.float64),
            against=against,
            tol=tol,
            name=name,
        )
        return display.plot(ax=ax, **line_options)

    def _curve(self) -> tuple[Vector, Vector, dict[str, Any]]:
        # A start that costs nothing yet has no place on the axis.
        shown = self.cost > 0
        marker = {"marker": "o", "markersize": 3.5} if self.cost.size <= 60 else {}
        return self.cost[shown], np.maximum(self.gap[shown], _FLOOR), marker

    def _frame(self, ax: Any) -> None:
        ax.set(xscale="log", yscale="log", xlabel=_LABELS[self.against], ylabel="Relative duality gap")
        if self.tol is not None:
            style.mark_line(ax, self.tol, f"tol {self.tol:g}", horizontal=True)
        style.title(ax, "Convergence")
