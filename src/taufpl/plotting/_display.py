"""What all displays share: base classes, and checks of the labels, scores and tolerances that they accept."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from taufpl._checks import check_scores, check_tau
from taufpl._types import Array, Vector
from taufpl.estimators import scores_of
from taufpl.plotting import style


class Display:
    """A display: it keeps what it shows, and draws it on axes that are given or new."""

    # What matplotlib is needed for, as the end of a sentence, and the form of new axes.
    _purpose: str
    _layout: ClassVar[dict[str, Any]] = {}

    figure_: Any
    ax_: Any

    def _open(self, ax: Any) -> Any:
        """Axes to draw on, which are kept with their figure."""
        self.figure_, self.ax_ = style.new_axes(ax, self._purpose, **self._layout)
        return self.ax_


class PanelDisplay(Display):
    """A display of two panels."""

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : sequence of two matplotlib axes, default=None
            New ones if None.

        Returns
        -------
        display : object
            Itself.
        """
        self._draw(*self._open(ax))
        for panel in self.ax_:
            style.tidy(panel)
        return self

    def _draw(self, first: Any, second: Any) -> None:
        raise NotImplementedError


class CurveDisplay(Display):
    """A display of one curve, which may share its axes with others."""

    name: str | None
    line_: Any

    def plot(self, ax: Any = None, *, name: str | None = None, **line_options: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        name : str, default=None
            Name in the legend, in place of the display's own.
        **line_options
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : object
            Itself.
        """
        ax = self._open(ax)
        x, y, options = self._curve()
        options = {"label": self._label(self.name if name is None else name), **options, **line_options}
        (self.line_,) = ax.plot(x, y, **style.curve_style(ax, options))
        self._frame(ax)
        style.tidy(ax)
        style.legend_below(ax)
        return self

    def _curve(self) -> tuple[Any, Any, dict[str, Any]]:
        """Both coordinates of the curve, and how its line looks."""
        raise NotImplementedError

    def _label(self, name: str | None) -> str | None:
        return name

    def _frame(self, ax: Any) -> None:
        """Draw what belongs to the curve, scales, labels and title."""
        raise NotImplementedError


def display_name(estimator: Any, name: str | None) -> str:
    """The name given, or that of the estimator's class."""
    return type(estimator).__name__ if name is None else name


def split_scores(y_true: ArrayLike, y_score: ArrayLike, pos_label: Any = None) -> tuple[Vector, Vector, Any]:
    """Check labels and scores; return the scores of negatives and of positives, sorted upward, and the positive label.

    Infinite scores are kept: a classifier that refuses everything has them. Missing ones are an error.
    """
    labels = column_or_1d(y_true)
    scores = check_scores("y_score", y_score)
    if labels.size != scores.size:
        raise ValueError(
            f"y_score must have one score for each entry of y_true, {labels.size}; got {scores.size}. "
            "Pass labels and scores of the same samples."
        )
    pos_label = check_pos_label(labels, pos_label)
    is_positive = labels == pos_label
    return np.sort(scores[~is_positive]), np.sort(scores[is_positive]), pos_label


def check_pos_label(labels: Array, pos_label: Any) -> Any:
    """Return the positive label: the one given, or the second in sorted order."""
    return _positive_of(np.unique(labels), pos_label, "y_true must hold", "classes of y_true")


def _positive_of(classes: Any, pos_label: Any, needed: str, whose: str) -> Any:
    """The positive one of two classes: the one given, or the second."""
    known = np.asarray(classes).tolist()
    if len(known) != 2:
        got = f"{len(known)} {'class' if len(known) == 1 else 'classes'}: {known[:5]}"
        raise ValueError(f"{needed} two classes, got {got}. Rates need negatives and positives, and nothing else.")
    if pos_label is None:
        return classes[1]
    if not np.any(np.asarray(classes) == pos_label):
        raise ValueError(f"pos_label must be one of the {whose}, {known}; got {pos_label!r}.")
    return pos_label


def respond(estimator: Any, X: Any, pos_label: Any = None) -> tuple[Vector, float, Any]:
    """Scores of an estimator, the score above which it says positive, and the positive label (None: unknown).

    Scores come from `decision_function`, with threshold 0, or else from the positive class's column of `predict_proba`,
    with threshold 1/2. `decision_function` speaks for `classes_[1]`; where the other class is asked for, its sign is
    turned. An estimator without `classes_` scores as it does.
    """
    check_is_fitted(estimator)
    classes, has_decisions = getattr(estimator, "classes_", None), hasattr(estimator, "decision_function")
    if not has_decisions and (classes is None or not hasattr(estimator, "predict_proba")):
        raise TypeError(
            f"estimator must have decision_function, or predict_proba and classes_; {type(estimator).__name__} does "
            "not. Pass scores to from_predictions instead."
        )
    if classes is None:
        return np.asarray(estimator.decision_function(X), dtype=np.float64), 0.0, pos_label
    pos_label = _positive_of(classes, pos_label, "estimator must know", "estimator's classes")
    return scores_of(estimator, X, pos_label), 0.0 if has_decisions else 0.5, pos_label


def find_attribute(estimator: Any, name: str) -> Any:
    """Attribute of an estimator, of a pipeline's last step or of a search's best estimator; None if nowhere."""
    found = getattr(estimator, name, None)
    if found is None and hasattr(estimator, "steps"):
        return find_attribute(estimator.steps[-1][1], name)
    if found is None and hasattr(estimator, "best_estimator_"):
        return find_attribute(estimator.best_estimator_, name)
    return found


def check_tolerance(tau: Any) -> float | None:
    """Return a tolerance as a float in (0, 1), or None."""
    if tau is None:
        return None
    if np.ndim(tau) != 0:
        raise ValueError(
            f"tau must be one number here, got {np.size(tau)}. Draw a display for each of them, on the same axes."
        )
    return check_tau(tau)


def check_threshold(threshold: Any) -> float | None:
    """Return a threshold as a float, or None."""
    if threshold is None:
        return None
    if math.isnan(float(threshold)):
        raise ValueError("threshold must be a number, got nan. Pass None to draw none.")
    return float(threshold)
