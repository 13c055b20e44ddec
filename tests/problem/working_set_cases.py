"""What a working set must say of the rows, written out row by row."""

import numpy as np
import pytest


def direction_of(found):
    """X+' alpha - X-' beta, of the rows that are followed and of those that are held."""
    total = (
        found.rows.rmatvec(np.r_[found.alpha, -found.beta]) - found.thresholds.cap * found.n_capped * found.capped_mean
    )
    return total + found.active.dual_direction - found.free.dual_direction


def assert_describes(found, X, y, classes, targets, followed, delta):
    """The followed rows as they are, all others by the class that they have: active, free, capped.

    `targets` are alpha0 and beta0 of all rows, `followed` the positives and negatives that are followed; delta is some
    way from here.
    """
    X = X[y > 0], X[y < 0]
    positive, negative = followed
    now, u = found.thresholds, found.thresholds.lam / (found.sigma * found.curvature)
    rows = np.r_[X[0][positive], X[1][negative]]
    np.testing.assert_allclose(found.rows.matvec(delta), rows @ delta, atol=1e-12)
    np.testing.assert_allclose(found.alpha, np.maximum(targets[0][positive] - u, 0.0), atol=1e-12)
    np.testing.assert_allclose(found.beta, np.clip(targets[1][negative] - now.mu, 0.0, now.cap), atol=1e-12)
    own = (0, 1, 1)
    held = [np.setdiff1d(np.flatnonzero(x), followed[i]) for x, i in zip(classes, own, strict=True)]
    assert (found.active.moments.count, found.free.moments.count, found.n_capped) == tuple(map(len, held))
    rows = [X[i][chosen] for i, chosen in zip(own, held, strict=True)]
    targets = [targets[i][chosen] for i, chosen in zip(own, held, strict=True)]
    if len(held[2]):
        np.testing.assert_allclose(found.capped_mean, rows[2].mean(axis=0), atol=1e-12)
        assert found.capped_target == pytest.approx(targets[2].mean(), rel=1e-11)
    step = np.cos(np.arange(len(delta)))
    for part, own, target, threshold, rate in zip(
        (found.active, found.free), rows, targets, (u, now.mu), (-1.0 / found.curvature, found.sigma), strict=False
    ):
        if len(own):
            np.testing.assert_allclose(part.moments.mean, own.mean(axis=0), atol=1e-12)
            assert part.target_at(delta) == pytest.approx((target + rate * (own @ delta)).mean(), rel=1e-10)

        # Entries follow the scores and the threshold, and so does their sum.
        def total(delta, shift, own=own, target=target, threshold=threshold, rate=rate):
            return own.T @ (target - threshold + rate * (own @ delta) - shift)

        size = np.abs(own).sum() * np.abs(target).max(initial=1.0)
        np.testing.assert_allclose(part.direction_at(delta, 0.1) + 0 * delta, total(delta, 0.1), atol=1e-12 * size)
        constant, slope, by_shift = part.along(step, delta)
        expected = step @ total(delta + 0.3 * step, 0.1)
        assert constant + 0.3 * slope + 0.1 * by_shift == pytest.approx(expected, rel=1e-9, abs=1e-11 * size)
