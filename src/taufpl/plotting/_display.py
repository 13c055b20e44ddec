"""Base classes of the displays: the axes that they draw on, the frame around, and `plot`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

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
