"""Decision regions of two features: the score, the boundary with its tolerance, and the errors on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, column_or_1d

from taufpl._checks import check_count, check_tau
from taufpl._types import Vector
from taufpl.plotting import style
from taufpl.plotting._display import Display, check_pos_label, check_tolerance, display_name, find_attribute, respond
from taufpl.thresholding import top_threshold

# Lightness falls from what is surely negative to what is surely positive, and jumps at the boundary: the two sides are
# told apart in grey too. The hues are those of the classes.
_NEGATIVE_SHADES = ("#FAFCFE", "#F3F8FC", "#EBF4FA", "#E3EFF8")
_POSITIVE_SHADES = ("#FBE0CB", "#F9D0B1", "#F6C099", "#F2B083")
_POSITIVE_EDGE = "#7A2F00"
# A classifier that refuses everything has decisions as low as can be; differences of such numbers overflow.
_HUGE = 1e300
# Rows that are scored in one call: the memory that an estimator needs beside the grid does not grow with the grid.
_BLOCK = 4096
# Places on a contour that are tried for its label.
_MOST_CANDIDATES = 400
# Distances in points, 1/72 inch, beside a label of about 40 by 10.
_ROOM, _HALF_LABEL, _CROWD = 48.0, 20.0, 14.0


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionsDisplay(Display):
    """What an estimator of two features calls positive: regions, boundary, points and errors.

    The colour tells the score: blue where the decision is negative, paler the further from the boundary; orange where
    it is positive, darker the further. The strong line is the boundary, where the decision function is 0. With `taus`,
    dashed lines show where it would have to lie for these shares of the negatives to be above.

    Make it by :meth:`from_estimator`.

    Parameters
    ----------
    first, second : ndarray
        Coordinates of the grid, upward: of the first feature, drawn across, and of the second.
    scores : ndarray of shape (len(second), len(first))
        Scores on the grid.
    threshold : float, default=0.0
        A score strictly above it is called positive.
    tau : float, default=None
        Tolerance that the boundary was made for; it is written on it.
    negatives, positives : ClassPoints, default=None
        Points of the two classes with their scores, `points` and `scores`. None draws none.
    taus : sequence of float, default=None
        Shares of the negatives above further contours.
    feature_names : pair of str, default=None
        Names of the axes.
    name : str, default=None
        Title.
    max_points : int, default=800
        Of a class with more points than this, `max_points` are drawn, chosen at random. False positives are all drawn,
        unless they are more than half of `max_points`.
    random_state : int, RandomState instance or None, default=0
        Chooses which points are drawn.

    Attributes
    ----------
    levels : dict
        The score at each of `taus`: the lowest with at most this share of the negatives strictly above it.
    n_false_positive, n_true_positive : int or None
        Of all points, drawn or not.
    fpr, tpr : float or None
        The same as shares of their classes.
    regions_, contours_ : matplotlib contour sets
        After `plot`. `contours_` is None where no line crosses the frame; its `levels` are scores.
    negative_points_, positive_points_, false_positive_points_ : matplotlib collections or None
        After `plot`, as are `ax_` and `figure_`. False positives are drawn as negatives and marked.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.plotting import DecisionRegionsDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 2)) + 2.0 * y[:, np.newaxis]
    >>> screen = TauFPLClassifier(tau=0.01, random_state=0).fit(X, y)
    >>> display = DecisionRegionsDisplay.from_estimator(screen, X, y, taus=[0.05])
    >>> display.n_false_positive == int((screen.predict(X[y == 0]) == 1).sum())
    True
    """

    _purpose = "to draw decision regions"
    _layout: ClassVar = {"size": (7.0, 6.0)}

    first: Vector
    second: Vector
    scores: Vector
    threshold: float = 0.0
    tau: float | None = None
    negatives: ClassPoints | None = None
    positives: ClassPoints | None = None
    taus: Sequence[float] | None = None
    feature_names: Any = None
    name: str | None = None
    max_points: int = 800
    random_state: Any = 0

    def __post_init__(self) -> None:
        self.tau = check_tolerance(self.tau)
        self.feature_names = ("Feature 0", "Feature 1") if self.feature_names is None else tuple(self.feature_names)
        check_count("max_points", self.max_points, least=1)
        self.levels = _tau_levels(self.taus, self.negatives)
        self.n_false_positive, self.fpr = self._above(self.negatives)
        self.n_true_positive, self.tpr = self._above(self.positives)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        taus: Sequence[float] | None = None,
        pos_label: Any = None,
        name: str | None = None,
        grid_resolution: int = 200,
        padding: float = 0.05,
        max_points: int = 800,
        random_state: Any = 0,
        legend: bool = True,
        ax: Any = None,
    ) -> Self:
        """Draw what a fitted estimator decides around some points.

        Parameters
        ----------
        estimator : estimator
            Fitted on two features; with `decision_function`, or `predict_proba` and `classes_`. Where it has an
            attribute `tau` (or a pipeline's last step or a search's best estimator has), the boundary is labelled
            with it; of several tolerances, with the strictest, for which the decision function speaks.
        X : array-like or data frame of shape (n_samples, 2)
            The frame holds all of these points. The names of the axes are its columns, else the estimator's
            `feature_names_in_`.
        y : array-like of shape (n_samples,), default=None
            Labels of two classes. None draws no points.
        taus : sequence of float, default=None
            Draw where these shares of the negatives in X would be above; needs `y`.
        pos_label : label, default=None
            The positive class; None for the estimator's second one.
        name : str, default=None
            Title; None for the estimator's class.
        grid_resolution : int, default=200
            Points of the grid along each axis.
        padding : float, default=0.05
            Room around the points, as a share of their range.
        max_points, random_state
            As for the class.
        legend : bool, default=True
            Whether to draw one under the axes. Small panels beside each other have no room for it.
        ax : matplotlib axes, default=None

        Returns
        -------
        display : DecisionRegionsDisplay
        """
        check_is_fitted(estimator)
        check_count("grid_resolution", grid_resolution, least=2)
        points = _check_points(estimator, X)
        first, second = (_coordinates(column, grid_resolution, padding) for column in points.T)
        classes: dict[str, ClassPoints] = {}
        if y is not None:
            own_scores, _, positive = respond(estimator, X, pos_label)
            classes = _split_points(points, y, own_scores, positive)
        scores, threshold = _score_grid(estimator, X, first, second, pos_label)
        tau = find_attribute(estimator, "tau")
        names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
        display = cls(
            first=first,
            second=second,
            scores=scores,
            threshold=threshold,
            tau=None if tau is None else float(np.min(tau)),
            **classes,
            taus=taus,
            feature_names=None if names is None else (str(names[0]), str(names[1])),
            name=display_name(estimator, name),
            max_points=max_points,
            random_state=random_state,
        )
        return display.plot(ax=ax, legend=legend)

    def _above(self, sample: ClassPoints | None) -> tuple[int | None, float | None]:
        if sample is None:
            return None, None
        count = len(sample.above(self.threshold))
        return count, count / len(sample)

    def plot(self, ax: Any = None, *, legend: bool = True) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        legend : bool, default=True
            Whether to draw one under the axes.

        Returns
        -------
        display : DecisionRegionsDisplay
        """
        self._open(ax)
        finite = self.scores[np.abs(self.scores) < _HUGE]
        reach = float(np.abs(finite - self.threshold).max(initial=0.0)) or 1.0
        surface = np.clip(self.scores, self.threshold - reach, self.threshold + reach)
        # A score at the threshold is not above it; where much of the plane shares it, contours need to be told.
        surface[surface == self.threshold] -= 1e-12 * reach
        self._fill(surface, reach)
        drawn = self._draw_points()
        self._frame()
        self._draw_contours(surface, drawn)
        if legend:
            style.legend_below(self.ax_)
        return self

    def _fill(self, surface: Vector, reach: float) -> None:
        """Bands of equal width on either side of the boundary, up to what most of that side reaches."""
        distance = surface - self.threshold
        sides = (side[side > 0] for side in (-distance, distance))
        below, above = (float(np.quantile(side, 0.9)) if side.size else reach for side in sides)
        steps = np.linspace(0.0, 1.0, len(_NEGATIVE_SHADES), endpoint=False)
        levels = self.threshold + np.concatenate([-below * steps[:0:-1], above * steps])
        look = {"colors": (*_NEGATIVE_SHADES, *_POSITIVE_SHADES), "extend": "both", "zorder": 0.5}
        self.regions_ = self.ax_.contourf(self.first, self.second, surface, levels=levels, **look)

    def _draw_points(self) -> Vector:
        """Both classes, thinned; returns the points that were drawn."""
        self.negative_points_ = self.positive_points_ = self.false_positive_points_ = None
        rng = check_random_state(self.random_state)
        drawn = [np.empty((0, 2))]
        # Circles and triangles, with and without an edge: the classes differ without colour as well.
        if self.negatives is not None:
            shown = self.negatives.thinned_below(self.threshold, self.max_points, rng)
            above, marked = self.negatives.above(self.threshold), shown.above(self.threshold)
            small = {"s": 11, "color": style.NEGATIVE, "alpha": 0.65, "linewidths": 0, "zorder": 2}
            ringed = {"s": 46, "facecolors": style.SKY, "edgecolors": style.BLACK, "linewidths": 1.5, "zorder": 2.4}
            label = f"{len(above):,} false positives (FPR {style.percent(self.fpr or 0.0)})"
            self.negative_points_ = self._scatter(shown, self.negatives, f"{len(self.negatives):,} negatives", small)
            self.false_positive_points_ = self._scatter(marked, above, label, ringed)
            drawn.append(shown.points)
        if self.positives is not None:
            shown = self.positives.thinned(self.max_points, rng)
            edged = {"s": 20, "marker": "^", "color": style.POSITIVE, "edgecolors": _POSITIVE_EDGE, "linewidths": 0.6}
            found = f"{self.n_true_positive:,} found (TPR {style.percent(self.tpr or 0.0)})"
            label = f"{len(self.positives):,} positives, {found}"
            self.positive_points_ = self._scatter(shown, self.positives, label, {**edged, "zorder": 2.2})
            drawn.append(shown.points)
        return np.concatenate(drawn)

    def _scatter(self, shown: ClassPoints, of: ClassPoints, label: str, look: dict[str, Any]) -> Any:
        """Draw some points of a class, and say how many where they are not all of them."""
        drawn = "" if len(shown) == len(of) else f", {len(shown):,} drawn"
        return self.ax_.scatter(*shown.points.T, label=f"{label}{drawn}", **look)

    def _draw_contours(self, surface: Vector, drawn: Vector) -> None:
        """The boundary and the contours of `taus`, each labelled once, and their explanation."""
        names = self._contour_names(1e-9 * float(np.ptp(surface)))
        crossing = sorted(level for level in names if surface.min() < level < surface.max())
        self.contours_ = None
        if crossing:
            lines = [(2.4, "-") if level == self.threshold else (1.2, "--") for level in crossing]
            widths, dashes = zip(*lines, strict=True)
            look = {"colors": style.BLACK, "linewidths": widths, "linestyles": dashes, "zorder": 3}
            self.contours_ = self.ax_.contour(self.first, self.second, surface, levels=crossing, **look)
            _place_labels(self.ax_, self.contours_, [names[level] for level in crossing], drawn)
        self._explain_contours(self.threshold in crossing, bool(set(crossing) - {self.threshold}))

    def _contour_names(self, same: float) -> dict[float, str]:
        """What is written on each line, by its score; scores that differ by rounding make one line."""
        names = {self.threshold: [] if self.tau is None else [f"τ = {style.percent(self.tau)}"]}
        for tau, level in self.levels.items():
            line = next((other for other in names if abs(level - other) <= same), level)
            if line != self.threshold or tau != self.tau:
                names.setdefault(line, []).append(style.percent(tau))
        return {level: ", ".join(texts) for level, texts in names.items()}

    def _explain_contours(self, has_boundary: bool, has_shares: bool) -> None:
        line = {"color": style.BLACK, "gid": f"{style.MARK} contour"}
        if has_boundary:
            tau = "" if self.tau is None else f" for τ = {style.percent(self.tau)}"
            self.ax_.plot([], [], linewidth=2.4, label=f"decision boundary{tau}", **line)
        else:
            side = "positive" if self.scores.max() > self.threshold else "negative"
            self.ax_.plot([], [], linewidth=0, label=f"no boundary in the frame: all of it is {side}", **line)
        if has_shares:
            self.ax_.plot([], [], linewidth=1.2, linestyle="--", label="share of these negatives above", **line)

    def _frame(self) -> None:
        ax = self.ax_
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        ax.spines[["top", "right"]].set_visible(False)
        style.title(ax, "Decision regions" if self.name is None else self.name)


def _tau_levels(taus: Sequence[float] | None, negatives: ClassPoints | None) -> dict[float, float]:
    if taus is None:
        return {}
    if negatives is None:
        raise ValueError("taus are shares of negatives, and there are none without y. Pass y, or leave taus out.")
    checked = sorted({check_tau(tau, "every one of taus") for tau in np.atleast_1d(taus).tolist()})
    return {tau: top_threshold(negatives.scores, tau) for tau in checked}


@dataclass(frozen=True, slots=True)
class ClassPoints:
    """Points of one class, of shape (n, 2), and their scores."""

    points: Vector
    scores: Vector

    def __len__(self) -> int:
        return len(self.points)

    def above(self, threshold: float) -> ClassPoints:
        """Points that score strictly more than the threshold."""
        return self.take(self.scores > threshold)

    def take(self, chosen: Any) -> ClassPoints:
        """Points at some indices, or where a mask is true."""
        return ClassPoints(self.points[chosen], self.scores[chosen])

    def thinned(self, limit: int, rng: Any) -> ClassPoints:
        """At most `limit` points, chosen at random."""
        return self if len(self) <= limit else self.take(np.sort(rng.permutation(len(self))[:limit]))

    def thinned_below(self, threshold: float, limit: int, rng: Any) -> ClassPoints:
        """At most `limit` points; those above the threshold are kept as long as they are not more than half."""
        if len(self) <= limit:
            return self
        above = self.above(threshold).thinned(limit // 2, rng)
        below = self.take(~(self.scores > threshold)).thinned(limit - len(above), rng)
        return ClassPoints(np.concatenate([below.points, above.points]), np.concatenate([below.scores, above.scores]))


def _check_points(estimator: Any, X: Any) -> Vector:
    """X as numbers, two columns of them."""
    n_features = getattr(estimator, "n_features_in_", 2)
    if n_features != 2:
        raise ValueError(
            f"estimator must have been fitted on two features, the axes of the picture; got {n_features}. "
            "Fit it on the two columns that you want to see, or draw its scores with ScoreDisplay."
        )
    points = check_array(X, dtype=np.float64, input_name="X")
    if points.shape[1] != 2:
        raise ValueError(
            f"X must have two features, the axes of the picture; got {points.shape[1]}. "
            "Pass the two columns that the estimator was fitted on."
        )
    return np.asarray(points, dtype=np.float64)


def _coordinates(values: Vector, resolution: int, padding: float) -> Vector:
    """Evenly from the least value to the greatest, with some room outside."""
    if not (np.isfinite(padding) and padding >= 0):
        raise ValueError(f"padding must be a share of the range, at least 0; got {padding!r}.")
    low, high = float(values.min()), float(values.max())
    room = padding * (high - low)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        room = 0.5 * max(abs(low), 1.0)  # one value has no range
    return np.linspace(low - room, high + room, resolution)


def _score_grid(estimator: Any, X: Any, first: Vector, second: Vector, pos_label: Any) -> tuple[Vector, float]:
    """Scores on the grid, block by block, and the score above which a point is positive."""
    scores = np.empty(second.size * first.size)
    for block in gen_batches(scores.size, _BLOCK):
        row, column = np.divmod(np.arange(block.start, block.stop), first.size)
        scores[block], threshold, _ = respond(estimator, _like(X, first[column], second[row]), pos_label)
    return scores.reshape(second.size, first.size), threshold


def _like(X: Any, first: Vector, second: Vector) -> Any:
    """Points in the form of X, so that an estimator that picks columns by name finds them."""
    if hasattr(X, "columns"):
        return type(X)(dict(zip(X.columns, (first, second), strict=True)))
    return np.column_stack([first, second])


def _split_points(points: Vector, y: ArrayLike, scores: Vector, pos_label: Any) -> dict[str, ClassPoints]:
    """Negatives and positives, under the names of the display's parameters."""
    labels = column_or_1d(y)
    if labels.size != len(points):
        raise ValueError(f"y must have one label a row of X, {len(points)}; got {labels.size}.")
    is_positive = labels == check_pos_label(labels, pos_label)
    kinds = {"negatives": ~is_positive, "positives": is_positive}
    return {name: ClassPoints(points[chosen], scores[chosen]) for name, chosen in kinds.items()}


def _place_labels(ax: Any, contours: Any, texts: list[str], points: Vector) -> None:
    """Write the text of each level, which may be empty, on its contour, once, and where it covers few of the points.

    The axes must have their limits.
    """
    scale = 72.0 / ax.figure.dpi
    frame = scale * ax.transAxes.transform([(0, 0), (1, 1)])
    points, taken = scale * ax.transData.transform(points), np.empty((0, 2))
    chosen = []
    for text, path in zip(texts, contours.get_paths(), strict=True):
        if not text or not len(path.vertices):
            continue
        where, bend = _candidates(path, lambda vertices: scale * ax.transData.transform(vertices))
        best = int(np.argmin(_cost(where, bend, frame, points, taken)))
        taken = np.vstack([taken, where[best]])
        chosen.append(tuple(ax.transData.inverted().transform(where[best] / scale)))
    if not chosen:
        return
    effects = style.matplotlib("patheffects")
    named = dict(zip(contours.levels, texts, strict=True))
    levels = [level for level, text in named.items() if text]
    for label in contours.clabel(levels, fmt=named, manual=chosen, fontsize="small", zorder=4):
        label.set_path_effects([effects.withStroke(linewidth=3.5, foreground="white")])
        label.set_fontweight("bold")


def _candidates(path: Any, to_points: Any) -> tuple[Vector, Vector]:
    """Vertices of a contour on the page, and how far the line leaves a straight one within a label's length."""
    places, bends = [], []
    starts = np.flatnonzero(path.codes == path.MOVETO)[1:]
    for segment in np.split(path.vertices, starts):
        line = to_points(segment)
        length = np.append(0.0, np.hypot(*np.diff(line, axis=0).T).cumsum())
        ahead = np.clip(np.searchsorted(length, length + _HALF_LABEL), 0, len(line) - 1)
        behind = np.clip(np.searchsorted(length, length - _HALF_LABEL), 0, len(line) - 1)
        chord = np.hypot(*(line[ahead] - line[behind]).T)
        places.append(line)
        bends.append(2.0 * _HALF_LABEL - np.minimum(chord, 2.0 * _HALF_LABEL))
    where, bend = np.concatenate(places), np.concatenate(bends)
    every = max(1, len(where) // _MOST_CANDIDATES)
    return where[::every], bend[::every]


def _cost(where: Vector, bend: Vector, frame: Vector, points: Vector, taken: Vector) -> Vector:
    """Lower is better: straight, inside the frame, few points underneath, no other label near."""
    inside = np.minimum(where - frame[0], frame[1] - where).min(axis=1)
    nearest = cdist(where, taken).min(axis=1, initial=np.inf)
    cost: Vector = bend / _HALF_LABEL + 4.0 * np.maximum(0.0, 1.0 - inside / _ROOM)
    cost += 0.15 * (cdist(where, points) < _CROWD).sum(axis=1)
    cost += 20.0 * np.maximum(0.0, 1.0 - nearest / _ROOM)
    return cost
