"""The excess over a threshold between two thresholds, from the entries in between, one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.projection.remote._piecewise_linear import Pieces


@dataclass(frozen=True, slots=True)
class Segment:
    """All that is known between two thresholds."""

    low: float
    high: float
    sums: Vector  # count, excess, moves and excess times moves of the entries at `high` or above
    entries: Vector  # in between, ascending
    moves: Vector  # of these

    @classmethod
    def of(cls, low: float, high: float, sums: Vector, parts: list[Matrix]) -> Segment:
        """Put together the entries of all blocks."""
        if len(parts) == 1:
            return cls(low, high, sums, parts[0][0], parts[0][1])
        entries, moves = np.concatenate(parts, axis=1)
        order = np.argsort(entries, kind="stable")
        return cls(low, high, sums, entries[order], moves[order])

    def corners(self) -> tuple[Vector, Vector, Vector]:
        """Where the function bends, its values, and the counts right of all corners but the last."""
        at = np.concatenate(([self.low], self.entries, [self.high]))
        count = self.sums[0] + np.arange(len(self.entries), -1.0, -1.0)
        value = np.zeros(len(at))
        np.cumsum((count * (at[1:] - at[:-1]))[::-1], out=value[-2::-1])
        value += self.sums[1]
        return at, value, count

    def moved(self, threshold: float) -> float:
        """Sum of excess times moves over a threshold in this segment, or past its ends by no more than rounding."""
        beyond = np.maximum(self.entries - threshold, 0.0)
        return float(self.sums[3] + (self.high - threshold) * self.sums[2] + beyond @ self.moves)


def moved_over(segments: list[Segment], threshold: float) -> float:
    nearest = min(segments, key=lambda s: max(s.low - threshold, threshold - s.high, 0.0))
    return nearest.moved(threshold)


def assembled(segments: list[Segment]) -> Pieces:
    """The function on all segments. In a gap between two of them, where no solution lies, their tangents go on."""
    first = segments[0].corners()
    at, value, count = [first[0]], [first[1]], [first[2][:1], first[2]]
    for segment in segments[1:]:
        ats, values, counts = segment.corners()
        width = ats[0] - at[-1][-1]
        if width > 0:
            left, right = count[-1][-1], counts[0]
            drop = value[-1][-1] - values[0]
            reach = min(max((drop - right * width) / max(left - right, 1e-300), 0.0), width)
            middle = at[-1][-1] + reach
            at.append(np.array([middle]))
            value.append(np.array([value[-1][-1] - left * reach]))
            count.append(np.array([left, right]))
        at.append(ats if width > 0 else ats[1:])
        value.append(values if width > 0 else values[1:])
        count.append(counts)
    count.append(count[-1][-1:])
    return Pieces(np.concatenate(at), np.concatenate(value), np.concatenate(count))
