"""Data with densities that are known, for kernels: moons, circles and a checkerboard, each with its Bayes recall."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from taufpl.metrics import tpr_at_fpr


class Curves:
    """Two mixtures of Gaussians whose centres lie along two curves."""

    def __init__(self, negative, positive, noise):
        self.centres = (np.asarray(negative), np.asarray(positive))
        self.noise = noise

    def sample(self, label, n_rows, rng):
        centres = self.centres[label]
        return centres[rng.integers(len(centres), size=n_rows)] + self.noise * rng.normal(size=(n_rows, 2))

    def log_density(self, label, X):
        """Up to a constant that both classes share."""
        centres = self.centres[label]
        squares = ((X[:, np.newaxis] - centres) ** 2).sum(axis=2)
        return logsumexp(-squares / (2 * self.noise**2), axis=1) - np.log(len(centres))


class Checkerboard:
    """Uniform on the cells of one colour of a board, moved by Gaussian noise."""

    def __init__(self, side=3, noise=0.04):
        self.side, self.noise = side, noise
        cells = np.array([(row, column) for row in range(side) for column in range(side)])
        self.cells = tuple(cells[cells.sum(axis=1) % 2 == colour] for colour in (0, 1))

    def sample(self, label, n_rows, rng):
        cells = self.cells[label]
        corners = cells[rng.integers(len(cells), size=n_rows)]
        return corners + rng.random((n_rows, 2)) + self.noise * rng.normal(size=(n_rows, 2))

    def log_density(self, label, X):
        edges = np.arange(self.side + 1)
        inside = np.diff(norm.cdf((edges - X[:, :, np.newaxis]) / self.noise), axis=2)
        cells = self.cells[label]
        density = (inside[:, 0, cells[:, 0]] * inside[:, 1, cells[:, 1]]).mean(axis=1)
        return np.log(np.maximum(density, 1e-300))


def moons(noise=0.17):
    angles = np.linspace(0, np.pi, 48)
    upper = np.column_stack((np.cos(angles), np.sin(angles)))
    return Curves(upper, np.array([1.0, 0.5]) - upper, noise)


def circles(noise=0.13):
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    outer = np.column_stack((np.cos(angles), np.sin(angles)))
    return Curves(outer, 0.45 * outer, noise)


CASES = {"moons": moons(), "circles": circles(), "checkerboard": Checkerboard()}


def draw(case, n_negative, n_positive, seed):
    """Rows in random order, and their labels."""
    rng = np.random.default_rng(seed)
    X = np.vstack((case.sample(0, n_negative, rng), case.sample(1, n_positive, rng)))
    y = np.repeat([0, 1], [n_negative, n_positive])
    order = rng.permutation(len(y))
    return X[order], y[order]


def bayes_recall(case, tau, X, y):
    """Recall of the likelihood ratio, which no score exceeds but by chance, at a false-positive rate of tau."""
    return tpr_at_fpr(y, case.log_density(1, X) - case.log_density(0, X), tau)


def one_in_the_quick_run(name):
    """All cases, of which those with other names are slow."""
    return [pytest.param(each, marks=[pytest.mark.slow] * (each != name)) for each in CASES]
