"""Displays of a fit: convergence of its solver, collapse to w = 0, rounds of thresholds, and a leaderboard."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted, check_X_y

from taufpl._checks import check_scores, check_tau
from taufpl._types import Vector
from taufpl.estimators import TauFPLRanker, ranked
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import as_operator
from taufpl.plotting import style
from taufpl.plotting._display import (
    CurveDisplay,
    PanelDisplay,
    check_pos_label,
    check_threshold,
    check_tolerance,
    display_name,
    find_attribute,
)
from taufpl.plotting.statistics import finite_rounds, rounds_over
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Record
from taufpl.thresholding import share_above

_LABELS = {"passes": "Passes over the data", "seconds": "Time (s)"}
# Relative gaps under this are rounding, and a logarithmic axis has no 0.
_FLOOR = 1e-16
# Sizes of the weights at which a collapse is drawn.
_N_SIZES = 161
# Columns that a leaderboard shows, those that matter most.
_MOST_COLUMNS = 12


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


@dataclass(kw_only=True, eq=False, repr=False)
class CollapseDisplay(PanelDisplay):
    """Loss P(t u) against t along one direction u, and recall at tau, for several training shares.

    P(0) = 1, and the slope of P at 0 along u is -2 (mean(X+) . u - T_k(X- u)). Where that is positive for all u, the
    best ranking is w = 0 for every reg and nothing is caught. The left panel shows it along one direction: curves
    that rise from 1 at once have their minimum at 0. A larger training share, tau_scale tau, lowers T_k, until the
    minimum leaves 0. The right panel shows what fits at those shares catch; the threshold stays at tau.

    Make it by :meth:`from_data`.

    Parameters
    ----------
    sizes : ndarray of shape (n_sizes,)
        ``t = |w|``, from 0.
    losses : ndarray of shape (n_shares, n_sizes)
        P(t u).
    shares : ndarray of shape (n_shares,)
        Training shares of the negatives, tau_scale tau.
    recalls : ndarray of shape (n_shares,)
        Share of positives above the tau quantile of negatives, by the fit at each share.
    collapsed : ndarray of bool of shape (n_shares,)
        Where the fit is w = 0.
    tau : float

    Attributes
    ----------
    ax_ : ndarray of two matplotlib axes
        After `plot`, as is `figure_`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.plotting import CollapseDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 200])
    >>> X = rng.normal(size=(1200, 3))
    >>> X[y == 1, 0] += 1.0
    >>> display = CollapseDisplay.from_data(X, y, tau=0.05, tau_scales=[1, 20])
    >>> display.collapsed
    array([ True, False])
    """

    _purpose = "to draw a collapse"
    _layout: ClassVar = {"columns": 2, "size": (9.0, 5.2)}

    sizes: Vector
    losses: Vector
    shares: Vector
    recalls: Vector
    collapsed: Any
    tau: float

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: ArrayLike,
        *,
        tau: float,
        reg: float = 0.01,
        tau_scales: Sequence[float] | None = None,
        direction: ArrayLike | None = None,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Fit rankers at several training shares and draw.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        tau : float
            Tolerance on the false-positive rate.
        reg : float, default=0.01
            Weight of the penalty.
        tau_scales : sequence of float, default=None
            Training shares as multiples of tau; None for powers of 2 (of 4 where tau is under 2 %) up to all
            negatives.
        direction : array-like of shape (n_features,), default=None
            u, of any length; None for the fit at the largest share, or the difference of the class means where
            that is 0.
        X_test, y_test : default=None
            Samples to take recall from; None for those of the fit, which flatter it.
        pos_label : label, default=None
            The positive class; None for the second in sorted order.
        ax : sequence of two matplotlib axes, default=None

        Returns
        -------
        display : CollapseDisplay
        """
        tau = check_tau(tau)
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test must be given together, got one of them. Pass both, or neither.")
        X, labels = check_X_y(X, y, accept_sparse="csr")
        pos_label = check_pos_label(labels, pos_label)
        scales = _default_scales(tau) if tau_scales is None else np.sort(np.asarray(tau_scales, dtype=np.float64))
        fits = [_fit(X, labels, tau, reg, scale, pos_label) for scale in scales]
        seen: Any = (X, labels) if X_test is None else check_X_y(X_test, y_test, accept_sparse="csr")
        shares = np.minimum(scales * tau, 1.0)
        operator, is_positive = as_operator(X), labels == pos_label
        positive, negative = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        problems = [
            RankingProblem(operator, positive, negative, top_count(share, negative.size), reg) for share in shares
        ]
        sizes, losses = _losses(problems, _direction(direction, fits[-1], problems[-1]))
        display = cls(
            sizes=sizes,
            losses=losses,
            shares=shares,
            recalls=np.array([_recall(fit, seen, tau, pos_label) for fit in fits]),
            collapsed=np.array([fit.collapsed_ for fit in fits]),
            tau=tau,
        )
        return display.plot(ax=ax)

    def _draw(self, first: Any, second: Any) -> None:
        # Ordered shares get ordered colours, from dark to light; the palest end would not show on white.
        colours = style.matplotlib("cm").viridis(np.linspace(0.0, 0.85, self.shares.size))
        self._draw_losses(first, colours)
        self._draw_recalls(second, colours)
        style.legend_below(first, columns=2)
        style.legend_below(second)

    def _draw_losses(self, ax: Any, colours: Any) -> None:
        for share, loss, colour in zip(self.shares, self.losses, colours, strict=True):
            best = int(loss.argmin())
            ax.plot(self.sizes, loss, color=colour, linewidth=1.8, label=f"training share {style.percent(share)}")
            ax.plot(self.sizes[best], loss[best], "o", color=colour, markersize=6, zorder=4, clip_on=False)
        ax.axhline(1.0, color=style.GREY, linewidth=0.9, linestyle=":")
        # Curves that rise from 1 are told by their start; their heights would flatten the others.
        low = float(self.losses.min())
        ax.set(xlim=(0.0, self.sizes[-1]), ylim=(low - 0.08 * (1.4 - low), 1.4))
        ax.set(xlabel="Size t of the weights along u", ylabel="Objective P(t u)")
        style.title(ax, "Objective, minimum marked")

    def _draw_recalls(self, ax: Any, colours: Any) -> None:
        ax.plot(self.shares, self.recalls, color=style.GREY, linewidth=1.0, zorder=1.8)
        kinds = ((~self.collapsed, "full", "a fit"), (self.collapsed, "none", "collapsed: w = 0"))
        for chosen, fill, label in kinds:
            for number, i in enumerate(np.flatnonzero(chosen)):
                marker = {"color": colours[i], "markersize": 8, "fillstyle": fill, "markeredgewidth": 1.6}
                kept = label if number == 0 else None
                ax.plot(self.shares[i], self.recalls[i], "o", label=kept, zorder=3, clip_on=False, **marker)
        ax.set_xscale("log")
        highest = float(self.recalls.max())
        ax.set(xlim=(self.shares[0] / 1.3, 1.15 * self.shares[-1]), ylim=(0.0, min(1.25 * highest, 1.02) or 1.0))
        ax.set(xlabel="Training share of the negatives", ylabel=f"True-positive rate at FPR {style.percent(self.tau)}")
        if self.shares[-1] < 30.0 * self.shares[0]:
            # Powers of ten alone would leave a short axis with a single number.
            ax.xaxis.set_major_locator(style.matplotlib("ticker").LogLocator(subs=(1.0, 2.0, 5.0)))
        style.percent_axis(ax.xaxis)
        style.percent_axis(ax.yaxis)
        style.mark_tolerance(ax, self.tau)
        style.title(ax, "Recall")


def _default_scales(tau: float) -> Vector:
    base = 2.0 if tau >= 0.02 else 4.0
    powers = base ** np.arange(np.ceil(np.log(1.0 / tau) / np.log(base)))
    return np.append(powers, 1.0 / tau)


def _fit(X: Any, y: Any, tau: float, reg: float, scale: float, pos_label: Any) -> TauFPLRanker:
    with warnings.catch_warnings():
        # The collapse is what the picture is about.
        warnings.simplefilter("ignore", RankingCollapseWarning)
        return TauFPLRanker(tau, reg, tau_scale=float(scale), pos_label=pos_label).fit(X, y)


def _recall(fit: TauFPLRanker, seen: tuple[Any, Any], tau: float, pos_label: Any) -> float:
    if fit.collapsed_:
        return 0.0
    scores, is_positive = fit.decision_function(seen[0]), seen[1] == pos_label
    return share_above(scores[is_positive], scores[~is_positive], tau)


def _direction(given: ArrayLike | None, fit: TauFPLRanker, problem: RankingProblem) -> Vector:
    """A unit vector: the one given, the fit's, or from the negatives' mean to the positives'."""
    if given is None:
        m, n = problem.n_positive, problem.n_negative
        given = fit.coef_[0] if fit.coef_.any() else problem.combine(np.full(m, 1.0 / m), np.full(n, 1.0 / n))
    direction = np.asarray(given, dtype=np.float64)
    if direction.shape != (problem.n_features,) or not direction.any():
        raise ValueError(
            f"direction must have {problem.n_features} entries, one a feature, not all of them 0; "
            f"got an array of shape {direction.shape}."
        )
    return direction / np.linalg.norm(direction)


def _losses(problems: list[RankingProblem], direction: Vector) -> tuple[Vector, Vector]:
    """Sizes t that show every minimum, and P(t u) at each; scores are linear in t, so that one pass does for all."""
    positive, negative = problems[0].scores(direction)
    tops = [problem.top_mean(negative) for problem in problems]

    def losses(t: float) -> Vector:
        pairs = zip(problems, tops, strict=True)
        return np.array([problem.primal(t * positive, t * top, t * t) for problem, top in pairs])

    # P is convex along u: where doubling t lowers none of the curves, all minima lie before 2 t.
    end = 1.0 / max(float(np.abs(np.append(positive, tops)).max()), 1e-300)
    while np.any(losses(2.0 * end) < losses(end)):
        end *= 2.0
    sizes = np.linspace(0.0, 2.0 * end, _N_SIZES)
    return sizes, np.array([losses(t) for t in sizes]).T


class RoundsDisplay(PanelDisplay):
    """Thresholds of the rounds with their mean and spread; beside them, out-of-bag FPR against TPR.

    Make it by :meth:`from_estimator`, or from arrays with the constructor and `plot`.

    Parameters
    ----------
    thresholds, fpr, tpr : array-like of shape (n_rounds,)
        One a round: the threshold chosen, and the rates it has on the samples that the round left out.
    tau : float, default=None
        Tolerance on the false-positive rate.
    threshold : float, default=None
        The threshold in use at the end; None for the mean of the rounds.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib axes
        After `plot`, as is `figure_`.

    Examples
    --------
    >>> from taufpl.plotting import RoundsDisplay
    >>> display = RoundsDisplay([2.1, 2.4, 2.2], fpr=[0.012, 0.007, 0.01], tpr=[0.66, 0.58, 0.61], tau=0.01)
    >>> display.n_over
    1
    >>> display = display.plot()
    """

    _purpose = "to draw rounds"
    _layout: ClassVar = {"columns": 2, "size": (9.0, 4.6)}

    def __init__(
        self,
        thresholds: ArrayLike,
        fpr: ArrayLike,
        tpr: ArrayLike,
        *,
        tau: float | None = None,
        threshold: float | None = None,
        name: str | None = None,
    ) -> None:
        self.thresholds = check_scores("thresholds", thresholds)
        self.fpr, self.tpr = check_scores("fpr", fpr), check_scores("tpr", tpr)
        check_consistent_length(self.thresholds, self.fpr, self.tpr)
        self.tau = check_tolerance(tau)
        self.threshold = check_threshold(threshold)
        self.name = name

    @property
    def n_over(self) -> int | None:
        """Rounds whose out-of-bag FPR is above the tolerance."""
        return None if self.tau is None else rounds_over(self.fpr, self.tau)

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the rounds of a classifier fitted with out-of-bootstrap thresholds.

        Parameters
        ----------
        estimator : estimator
            Fitted; its `evidence_` is a :class:`taufpl.thresholding.Evidence` with rounds.
        name : str, default=None
            Title; None for the estimator's class.
        ax : sequence of two matplotlib axes, default=None

        Returns
        -------
        display : RoundsDisplay
        """
        check_is_fitted(estimator)
        evidence = find_attribute(estimator, "evidence_")
        rounds = getattr(evidence, "rounds", None)
        if rounds is None:
            raise ValueError(
                f"estimator must have been fitted with out-of-bootstrap rounds, and this {type(estimator).__name__} "
                "has none. Fit it with threshold='oob'."
            )
        display = cls(
            rounds.thresholds,
            rounds.fpr,
            rounds.tpr,
            tau=evidence.tau,
            threshold=evidence.threshold,
            name=display_name(estimator, name),
        )
        return display.plot(ax=ax)

    def _draw(self, first: Any, second: Any) -> None:
        self._draw_thresholds(first)
        self._draw_rates(second)
        for panel in (first, second):
            style.legend_below(panel)

    def _draw_thresholds(self, ax: Any) -> None:
        numbers, found, mean, spread = finite_rounds(self.thresholds)
        n_infinite = self.thresholds.size - numbers.size
        refused = f" ({n_infinite} infinite, not shown)" if n_infinite else ""
        ax.plot(numbers, found, "o", color=style.BLUE, markersize=5, label=f"threshold of a round{refused}")
        if found.size:
            ax.axhspan(mean - spread, mean + spread, color=style.BLUE, alpha=0.13, linewidth=0)
            label = f"mean {mean:.4g}, standard deviation {spread:.2g}"
            ax.axhline(mean, color=style.BLUE, linewidth=1.4, label=label)
        if self.threshold is not None and np.isfinite(self.threshold):
            label = f"in use: {self.threshold:.4g}"
            ax.axhline(self.threshold, color=style.BLACK, linewidth=1.2, linestyle="--", label=label)
        ax.xaxis.set_major_locator(style.matplotlib("ticker").MaxNLocator(integer=True))
        ax.set(xlabel="Round", ylabel="Threshold (score)")
        style.title(ax, "Thresholds" if self.name is None else f"{self.name}: thresholds")

    def _draw_rates(self, ax: Any) -> None:
        label = "a round" if self.n_over is None else f"a round ({self.n_over} of {self.fpr.size} above τ)"
        ax.plot(self.fpr, self.tpr, "o", color=style.BLUE, markersize=5, label=label)
        fpr, tpr = float(self.fpr.mean()), float(self.tpr.mean())
        label = f"mean: FPR {style.percent(fpr)}, TPR {style.percent(tpr)}"
        ax.plot(fpr, tpr, "D", color=style.VERMILLION, markersize=8, markeredgecolor="white", label=label)
        right = 1.08 * max(float(self.fpr.max()), 0.0 if self.tau is None else 1.25 * self.tau)
        ax.set_xlim(0.0, right if right > 0 else 1.0)
        if self.tau is not None:
            style.mark_tolerance(ax, self.tau, shade=True)
        ax.set(xlabel="Out-of-bag false-positive rate", ylabel="Out-of-bag true-positive rate")
        style.percent_axis(ax.xaxis)
        style.percent_axis(ax.yaxis)
        style.title(ax, "Out-of-bag rates")


class LeaderboardDisplay(PanelDisplay):
    """Recall of the stack and of its candidates with intervals, beside the most important columns.

    Parameters
    ----------
    standings : list of Standing
        As in `estimator_.standings_` of a fitted :class:`taufpl.ScreeningClassifier`.
    tau : float
        The tolerance at which the recall is told.
    importances : ndarray of shape (n_features,) or None
        Recall lost without each column.
    names : sequence of str
        Of the columns.

    Attributes
    ----------
    figure_ : matplotlib figure
    ax_ : array of two matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from taufpl import ScreeningClassifier
    >>> from taufpl.plotting import LeaderboardDisplay
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> y = (np.hypot(X[:, 0], X[:, 1]) > 2).astype(int)
    >>> screen = ScreeningClassifier(0.1, candidates=[LogisticRegression(), GaussianNB()], random_state=0).fit(X, y)
    >>> display = LeaderboardDisplay.from_estimator(screen)
    >>> display.ax_.shape
    (2,)
    """

    _purpose = "to draw a leaderboard"
    _layout: ClassVar[dict[str, Any]] = {"columns": 2, "size": (11.0, 4.5)}

    def __init__(self, standings: Any, tau: float, importances: Any, names: Any) -> None:
        self.standings = standings
        self.tau = tau
        self.importances = importances
        self.names = names

    @classmethod
    def from_estimator(cls, screen: Any, *, ax: Any = None) -> LeaderboardDisplay:
        """Draw a fitted screen.

        Parameters
        ----------
        screen : ScreeningClassifier
            Fitted.
        ax : sequence of two matplotlib axes, default=None
            New ones if None.

        Returns
        -------
        LeaderboardDisplay
        """
        check_is_fitted(screen)
        names = getattr(screen, "feature_names_in_", [f"x{place}" for place in range(screen.n_features_in_)])
        importances = getattr(screen, "feature_importances_", None)
        return cls(screen.estimator_.standings_, screen.estimator_.tau, importances, names).plot(ax)

    def _draw(self, first: Any, second: Any) -> None:
        self._draw_recalls(first)
        self._draw_importances(second)

    def _draw_recalls(self, ax: Any) -> None:
        shown = ranked(self.standings)[::-1]
        for place, each in enumerate(shown):
            colour = style.VERMILLION if each.is_stack else style.BLUE
            interval = [[each.recall - each.recall_low], [each.recall_high - each.recall]]
            ax.errorbar(each.recall, place, xerr=interval, fmt="o", color=colour, capsize=3, markersize=7)
        labels = [each.candidate if each.is_stack else f"{each.candidate} ({each.weight:.2f})" for each in shown]
        ax.set_yticks(range(len(shown)), labels)
        ax.set_ylim(-0.5, len(shown) - 0.5)
        ax.locator_params(axis="x", nbins=6)
        style.percent_axis(ax.xaxis)
        ax.set_xlabel(f"recall where {style.percent(self.tau, 4)} of unseen negatives are above")
        ax.set_title("Candidates (weight in the stack)")

    def _draw_importances(self, ax: Any) -> None:
        ax.set_title("Recall lost where a column says nothing")
        if self.importances is None:
            ax.text(0.5, 0.5, "not measured", ha="center", transform=ax.transAxes)
            ax.set_axis_off()
            return
        most = np.argsort(self.importances, kind="stable")[-_MOST_COLUMNS:]
        ax.barh(np.arange(most.size), np.maximum(self.importances[most], 0.0), color=style.BLUE)
        ax.set_yticks(range(most.size), [str(self.names[place]) for place in most])
        style.percent_axis(ax.xaxis)
        ax.set_xlabel("share of the positives")
