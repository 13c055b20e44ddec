"""Collapse of a ranking to w = 0: the objective along a direction, and recall by training share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_X_y

from taufpl._checks import check_tau
from taufpl._types import Vector
from taufpl.estimators import TauFPLRanker
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import as_operator
from taufpl.plotting import style
from taufpl.plotting._display import PanelDisplay
from taufpl.plotting._scores import check_pos_label
from taufpl.problem import RankingProblem, top_count
from taufpl.thresholding import share_above

_N_SIZES = 161


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
        problems = _problems(X, labels == pos_label, shares, reg)
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


def _problems(X: Any, is_positive: Any, shares: Vector, reg: float) -> list[RankingProblem]:
    operator, positive, negative = as_operator(X), np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    return [RankingProblem(operator, positive, negative, top_count(share, negative.size), reg) for share in shares]


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
