"""What a screen is made of: the recall of its candidates, and what each column is worth."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taufpl.estimators import ranked
from taufpl.plotting import style
from taufpl.plotting._display import PanelDisplay

# Columns that are shown, those that matter most.
_MOST = 12


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
        ax.set_xlabel(f"recall where {100 * self.tau:.4g} % of unseen negatives are above")
        ax.set_title("Candidates (weight in the stack)")

    def _draw_importances(self, ax: Any) -> None:
        ax.set_title("Recall lost where a column says nothing")
        if self.importances is None:
            ax.text(0.5, 0.5, "not measured", ha="center", transform=ax.transAxes)
            ax.set_axis_off()
            return
        most = np.argsort(self.importances, kind="stable")[-_MOST:]
        ax.barh(np.arange(most.size), np.maximum(self.importances[most], 0.0), color=style.BLUE)
        ax.set_yticks(range(most.size), [str(self.names[place]) for place in most])
        style.percent_axis(ax.xaxis)
        ax.set_xlabel("share of the positives")
