"""Displays of the scores of both classes: ROC curve with its band, and histogram with the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._types import Vector
from taufpl.planning import NPRoc, np_roc
from taufpl.plotting import style
from taufpl.plotting._display import (
    CurveDisplay,
    Display,
    check_threshold,
    check_tolerance,
    display_name,
    find_attribute,
    respond,
    split_scores,
)
from taufpl.plotting.statistics import (
    Band,
    bin_counts,
    bin_edges,
    check_confidence,
    curve_counts,
    np_roc_steps,
    rates_above,
    roc_band,
    smallest_rate,
)

# The last is that of screens with a guarantee (NP-ROC), which `taufpl.planning` computes.
_BANDS = ("pointwise", "simultaneous", "guarantee")


@dataclass(kw_only=True, eq=False, repr=False)
class ROCDisplay(CurveDisplay):
    """ROC curve with a logarithmic FPR axis, the tolerance marked, and a confidence band.

    The curve is a staircase: at an FPR of f it shows the highest TPR that a threshold reaches without more false
    positives than f. Straight lines between the points, as usual elsewhere, would promise what only a coin toss
    between two thresholds gives, and a logarithmic axis would bend them.

    Make it by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        Rates at every threshold, from (0, 0) to (1, 1).
    band : Band, default=None
        Rectangles of the confidence band; None for none.
    band_kind : str, default=None
        ``"pointwise"`` or ``"simultaneous"``, for the legend.
    guaranteed : NPRoc, default=None
        Recall of screens with a guarantee, drawn with its band; None for none.
    confidence : float, default=0.95
    n_negative : int, default=None
        Sets the left end of the axis: half a false positive.
    tau : float, default=None
        Tolerance on the false-positive rate.
    operating_point : tuple of two floats, default=None
        FPR and TPR at the threshold that a classifier uses.
    name : str, default=None
        Name in the legend.
    pos_label : label, default=None

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib objects
        After `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.plotting import ROCDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> score = rng.normal(size=2200) + 2.5 * y
    >>> display = ROCDisplay.from_predictions(y, score, tau=0.01, name="shifted normals")
    >>> low, high = display.tpr_interval_at_tau
    >>> print(f"{display.tpr_at_tau:.3f} between {low:.3f} and {high:.3f}")
    0.570 between 0.395 and 0.692
    """

    _purpose = "to draw a ROC curve"

    fpr: Vector
    tpr: Vector
    band: Band | None = None
    band_kind: str | None = None
    guaranteed: NPRoc | None = None
    confidence: float = 0.95
    n_negative: int | None = None
    tau: float | None = None
    operating_point: tuple[float, float] | None = None
    name: str | None = None
    pos_label: Any = None

    def __post_init__(self) -> None:
        self.tau = check_tolerance(self.tau)

    @property
    def tpr_at_tau(self) -> float | None:
        """Highest TPR of the points with FPR of at most tau; None without a tolerance."""
        if self.tau is None:
            return None
        # A share such as 7/100 may lie a rounding above the tolerance that was meant to equal it.
        return float(self.tpr[np.searchsorted(self.fpr, self.tau * (1.0 + 4e-16), side="right") - 1])

    @property
    def tpr_interval_at_tau(self) -> tuple[float, float] | None:
        """Lowest and highest TPR of the band at tau; None without a tolerance or a band, or without a proof there."""
        if self.tau is not None and self.guaranteed is not None:
            found = self.guaranteed.at(self.tau)
            return None if found is None else found[1:]
        if self.tau is None or self.band is None:
            return None
        low, high = self.band.at(self.tau)
        return float(low), float(high)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        tau: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        band: str | None = "pointwise",
        confidence: float = 0.95,
        ax: Any = None,
        **line_options: Any,
    ) -> Self:
        """Draw the curve of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            With `decision_function`, or `predict_proba` and `classes_`. Where it has an attribute `tau` (or a
            pipeline's last step or a search's best estimator has), its operating point is marked.
        X : array-like of shape (n_samples, n_features)
            Samples that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
        tau : float, default=None
            Tolerance to mark; None for the estimator's own, if it has one.
        name : str, default=None
            Name in the legend; None for the estimator's class.
        pos_label, band, confidence, ax, **line_options
            As for :meth:`from_predictions`; the positive class is the estimator's second one where it is not given.

        Returns
        -------
        display : ROCDisplay
        """
        scores, threshold, pos_label = respond(estimator, X, pos_label)
        own_tau = find_attribute(estimator, "tau")
        settings = {"band": band, "confidence": confidence, "ax": ax, **line_options}
        return cls.from_predictions(
            y,
            scores,
            tau=own_tau if tau is None else tau,
            threshold=None if own_tau is None else threshold,
            pos_label=pos_label,
            name=display_name(estimator, name),
            **settings,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        tau: float | None = None,
        threshold: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        band: str | None = "pointwise",
        confidence: float = 0.95,
        ax: Any = None,
        **line_options: Any,
    ) -> Self:
        """Draw the curve of scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels of two classes.
        y_score : array-like of shape (n_samples,)
            Higher for samples that look more positive.
        tau : float, default=None
            Tolerance to mark, with the TPR there.
        threshold : float, default=None
            Score strictly above which a sample is called positive: its FPR and TPR are marked.
        pos_label : label, default=None
            The positive class; None for the second in sorted order.
        name : str, default=None
        band : {"pointwise", "simultaneous", "guarantee"} or None, default="pointwise"
            ``"pointwise"``: at each FPR alone, the true TPR lies in the band with the confidence given, by
            Clopper-Pearson intervals. ``"simultaneous"``: the whole true curve does, by the
            Dvoretzky-Kiefer-Wolfowitz inequality, which is too wide to speak of FPRs under about
            1/sqrt(number of negatives). ``"guarantee"``: a second curve, NP-ROC, shows for every tolerance the TPR of
            the screen for which these negatives, new to the scorer, prove it with the confidence given, and the band
            is the interval of that TPR; for each tolerance alone (:func:`taufpl.planning.np_roc`).
        confidence : float, default=0.95
        ax : matplotlib axes, default=None
            Where to draw; several displays may share them.
        **line_options
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : ROCDisplay
        """
        negative, positive, pos_label = split_scores(y_true, y_score, pos_label)
        threshold = check_threshold(threshold)
        false, true = curve_counts(negative, positive)
        sizes = negative.size, positive.size
        if band not in (None, *_BANDS):
            raise ValueError(f"band must be one of {_BANDS} or None, got {band!r}.")
        check_confidence(confidence)
        is_proof = band == "guarantee"
        display = cls(
            fpr=false / negative.size,
            tpr=true / positive.size,
            band=None if band is None or is_proof else roc_band(false, true, *sizes, band, confidence),
            band_kind=band,
            guaranteed=np_roc(negative, positive, 1.0 - confidence) if is_proof else None,
            confidence=confidence,
            n_negative=negative.size,
            tau=tau,
            operating_point=None if threshold is None else rates_above(negative, positive, threshold),
            name=name,
            pos_label=pos_label,
        )
        return display.plot(ax=ax, **line_options)

    def _curve(self) -> tuple[Vector, Vector, dict[str, Any]]:
        return np.maximum(self.fpr, style.TINY), self.tpr, {"drawstyle": "steps-post"}

    def _label(self, name: str | None) -> str | None:
        """Name of the curve with what it reaches at the tolerance."""
        if self.tpr_at_tau is None:
            return name
        reached = f"TPR {style.percent(self.tpr_at_tau)} at τ"
        if self.guaranteed is not None and self.tau is not None:
            found = self.guaranteed.at(self.tau)
            reached += ", no proof there" if found is None else f", with the guarantee {style.percent(found[0])}"
        if self.tpr_interval_at_tau is not None:
            low, high = (100.0 * end for end in self.tpr_interval_at_tau)
            reached += f" ({low:.1f} to {high:.1f} %)"
        return reached if name is None else f"{name}: {reached}"

    def _frame(self, ax: Any) -> None:
        colour, left = self.line_.get_color(), smallest_rate(self.n_negative, self.tau)
        if self.band is not None:
            self._draw_band(ax, self.band, colour)
        if self.guaranteed is not None:
            self._draw_guaranteed(ax, self.guaranteed, colour)
        if self.tau is not None:
            style.mark_tolerance(ax, self.tau, shade=True)
            ax.plot(self.tau, self.tpr_at_tau, "o", color=colour, markersize=6, zorder=4)
        if self.operating_point is not None:
            fpr, tpr = self.operating_point
            label = f"operating point: FPR {style.percent(fpr)}, TPR {style.percent(tpr)}"
            marker = {"color": colour, "markerfacecolor": "white", "markeredgewidth": 1.6, "markersize": 7}
            ax.plot(max(fpr, left), tpr, "D", zorder=5, clip_on=False, label=label, **marker)
        if ax.get_xscale() == "log":
            left = min(left, ax.get_xlim()[0])
        ax.set_xscale("log")
        ax.set(xlim=(left, 1.0), ylim=(0.0, 1.02))
        what = "False-positive rate" if self.guaranteed is None else "False-positive rate, dashed: tolerance"
        ax.set(xlabel=f"{what} (logarithmic)", ylabel="True-positive rate")
        style.percent_axis(ax.xaxis)
        style.percent_axis(ax.yaxis)
        style.title(ax, "ROC at small false-positive rates")

    def _draw_guaranteed(self, ax: Any, curve: NPRoc, colour: Any) -> None:
        ends, low, high, middle = np_roc_steps(curve)
        ax.fill_between(ends, low, high, step="post", color=colour, alpha=0.16, linewidth=0)
        label = f"with the guarantee at {style.percent(self.confidence)}, and its interval, for each tolerance alone"
        options = {"label": label, "gid": f"{style.MARK} {label}"} if style.once(ax, label) else {}
        ax.plot(ends, middle, color=colour, linestyle="--", linewidth=1.4, drawstyle="steps-post", **options)

    def _draw_band(self, ax: Any, band: Band, colour: Any) -> None:
        fpr, low, high = band.steps(style.TINY)
        ax.fill_between(fpr, low, high, step="post", color=colour, alpha=0.16, linewidth=0)
        label = f"{style.percent(self.confidence)} confidence, {self.band_kind}"
        if style.once(ax, label):
            # One grey patch in the legend explains the bands of all curves.
            patch = ax.fill_between([], [], color=style.GREY, alpha=0.3, linewidth=0, label=label)
            patch.set_gid(f"{style.MARK} {label}")


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreDisplay(Display):
    """Histogram of the scores of both classes, each as shares of its class, with the threshold and its errors.

    A bin ends at the threshold, so that no bar straddles it; bars of errors are dark, those of right decisions light.
    The range leaves out the .2 % most extreme scores of either class at either end, and those more than five times the
    distance of the quartiles beyond them; they are counted in the outermost bins. The threshold is always in it.

    Make it by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    negative_scores, positive_scores : ndarray
        Sorted upward.
    threshold : float, default=None
        A score strictly above it is called positive. None draws no threshold.
    name : str, default=None
        Title.
    bins : int, default=None
        About how many; None lets the scores decide, between 20 and 60.

    Attributes
    ----------
    fpr, tpr : float or None
        Shares of the two classes above the threshold.
    edges_ : ndarray of shape (n_bins + 1,)
    negative_share_, positive_share_ : ndarray of shape (n_bins,)
        Heights of the bars; each sums to 1. All three after `plot`.
    ax_, figure_ : matplotlib objects
        After `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.plotting import ScoreDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> score = rng.normal(size=2200) + 2.5 * y
    >>> display = ScoreDisplay.from_predictions(y, score, threshold=2.3)
    >>> print(f"{display.fpr:.4f} {display.tpr:.3f}")
    0.0095 0.545
    """

    _purpose = "to draw a histogram of scores"

    negative_scores: Vector
    positive_scores: Vector
    threshold: float | None = None
    name: str | None = None
    bins: int | None = None
    pos_label: Any = None

    def __post_init__(self) -> None:
        if self.bins is not None and self.bins < 2:
            raise ValueError(f"bins must be at least 2, or None to let the scores decide; got {self.bins!r}.")
        self.threshold = check_threshold(self.threshold)
        self.fpr: float | None = None
        self.tpr: float | None = None
        if self.threshold is not None:
            self.fpr, self.tpr = rates_above(self.negative_scores, self.positive_scores, self.threshold)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        threshold: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        bins: int | None = None,
        ax: Any = None,
        log: bool = False,
    ) -> Self:
        """Draw the scores that a fitted estimator gives.

        Parameters
        ----------
        estimator : estimator
            With `decision_function`, or `predict_proba` and `classes_`.
        X : array-like of shape (n_samples, n_features)
            Samples that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
        threshold : float, default=None
            None is 0 for a decision function and 1/2 for probabilities.
        name : str, default=None
            Title; None for the estimator's class.
        pos_label, bins, ax, log
            As for :meth:`from_predictions`; the positive class is the estimator's second one where it is not given.

        Returns
        -------
        display : ScoreDisplay
        """
        scores, own, pos_label = respond(estimator, X, pos_label)
        threshold, name = own if threshold is None else threshold, display_name(estimator, name)
        return cls.from_predictions(
            y, scores, threshold=threshold, pos_label=pos_label, name=name, bins=bins, ax=ax, log=log
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        threshold: float | None = None,
        pos_label: Any = None,
        name: str | None = None,
        bins: int | None = None,
        ax: Any = None,
        log: bool = False,
    ) -> Self:
        """Draw scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels of two classes.
        y_score : array-like of shape (n_samples,)
            Higher for samples that look more positive.
        threshold, name, bins
            As for the class.
        pos_label : label, default=None
            The positive class; None for the second in sorted order.
        ax : matplotlib axes, default=None
        log : bool, default=False
            Logarithmic shares: shows the few false positives of a small tolerance.

        Returns
        -------
        display : ScoreDisplay
        """
        negative, positive, pos_label = split_scores(y_true, y_score, pos_label)
        display = cls(
            negative_scores=negative,
            positive_scores=positive,
            threshold=threshold,
            name=name,
            bins=bins,
            pos_label=pos_label,
        )
        return display.plot(ax=ax, log=log)

    def plot(self, ax: Any = None, *, log: bool = False) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        log : bool, default=False
            Logarithmic shares.

        Returns
        -------
        display : ScoreDisplay
        """
        ax, threshold = self._open(ax), self.threshold
        self.edges_ = bin_edges(self.negative_scores, self.positive_scores, threshold, self.bins)
        n, m = self.negative_scores.size, self.positive_scores.size
        self.negative_share_ = bin_counts(self.negative_scores, self.edges_) / n
        self.positive_share_ = bin_counts(self.positive_scores, self.edges_) / m
        negatives, positives = f"{n:,} negatives", f"{m:,} positives"
        # Without a threshold nothing is an error.
        is_above = is_missed = np.zeros(self.negative_share_.size, dtype=np.bool_)
        if threshold is not None and self.fpr is not None and self.tpr is not None:
            is_above = self.edges_[:-1] >= threshold
            is_missed = ~is_above
            negatives += f": {round(self.fpr * n):,} above (dark), FPR {style.percent(self.fpr)}"
            positives += f": {m - round(self.tpr * m):,} missed (dark), TPR {style.percent(self.tpr)}"
        self._draw_class(self.negative_share_, is_above, style.NEGATIVE, negatives)
        self._draw_class(self.positive_share_, is_missed, style.POSITIVE, positives)
        if log:
            ax.set_yscale("log")
            ax.set_ylim(bottom=0.5 / max(n, m))
        if threshold is not None and self.edges_[0] <= threshold <= self.edges_[-1]:
            ax.axvline(threshold, color=style.TOLERANCE, linestyle="--", linewidth=1.1)
            style.name_line(ax, threshold, f"threshold {threshold:.3g}")
        ax.set(xlim=(self.edges_[0], self.edges_[-1]), xlabel="Score", ylabel="Share of the class, per bin")
        style.percent_axis(ax.yaxis)
        style.tidy(ax)
        style.title(ax, "Scores of both classes" if self.name is None else self.name)
        style.legend_below(ax)
        return self

    def _draw_class(self, share: Vector, is_error: Any, colour: str, label: str) -> None:
        fill: dict[str, Any] = {"fill": True, "color": colour, "linewidth": 0}
        self.ax_.stairs(share, self.edges_, alpha=0.3, label=label, **fill)
        self.ax_.stairs(np.where(is_error, share, 0.0), self.edges_, alpha=0.55, **fill)
        # The outline keeps the class behind readable where the two overlap.
        self.ax_.stairs(share, self.edges_, color=colour, linewidth=1.3)
