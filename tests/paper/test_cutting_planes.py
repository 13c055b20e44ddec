"""The parts of the cutting-plane solver: planes, the minimum of the model that they make, and the line search."""

import cvxpy as cp
import numpy as np
import pytest

from taufpl.paper._partial_auc import Bundle, Tangent, minimise_model, search


class TestBundle:
    """Planes, and the minimum of the model that they make."""

    @pytest.mark.parametrize("seed", range(8))
    def test_the_minimum_of_the_model(self, seed):
        """Fewer and more planes than dimensions, dependent ones, scales apart."""
        rng = np.random.default_rng(seed)
        n_planes, r = [(4, 9), (30, 3), (25, 6), (40, 2)][seed % 4]
        planes, offsets = rng.normal(size=(n_planes, r)), rng.normal(size=n_planes)
        planes[1:3] = planes[0]
        planes[:, 0] *= [1.0, 1e3][seed // 4]
        reg = 10.0 ** rng.uniform(-3, 1)
        start = np.zeros(n_planes)
        start[rng.integers(n_planes)] = 1.0
        coef, weights = minimise_model(planes, offsets, start, reg, 1e-12)
        w = cp.Variable(r)
        problem = cp.Problem(cp.Minimize(cp.max(planes @ w + offsets) + 0.5 * reg * cp.sum_squares(w)))
        problem.solve(solver=cp.CLARABEL)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1.0)
        gradient = weights @ planes
        size = 1 + abs(problem.value)
        assert weights @ offsets - gradient @ gradient / (2 * reg) == pytest.approx(problem.value, abs=1e-6 * size)
        assert (planes @ coef + offsets).max() + 0.5 * reg * coef @ coef == pytest.approx(
            problem.value, abs=1e-6 * size
        )

    def test_a_higher_plane_with_the_same_slope_takes_over(self):
        planes, offsets = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [1.0, 0.0, 2.0]]), np.array([0.0, 1.0, 0.5])
        alone, weights = minimise_model(planes[[0, 2]], offsets[[0, 2]], np.array([1.0, 0.0]), 10.0, 1e-12)
        np.testing.assert_allclose(alone, [-0.1, 0.0, -0.2])
        np.testing.assert_allclose(weights, [0.0, 1.0])
        both, weights = minimise_model(planes, offsets, np.array([0.5, 0.5, 0.0]), 10.0, 1e-12)
        assert weights[0] == 0.0
        np.testing.assert_allclose(both, minimise_model(planes[1:], offsets[1:], np.array([0.0, 1.0]), 10.0, 1e-12)[0])

    def test_slopes_that_are_almost_parallel(self):
        rng = np.random.default_rng(0)
        bundle, common = Bundle(20), 1e6 * rng.normal(size=20)
        for _ in range(15):
            bundle.add(common + 1e-3 * rng.normal(size=20), 0.0)
        np.testing.assert_allclose(bundle._basis @ bundle._basis.T, np.eye(15), atol=1e-12)
        np.testing.assert_allclose(bundle._coordinates @ bundle._basis, bundle.slopes, rtol=1e-12)

    def test_planes_without_weight_are_dropped_and_the_basis_with_them(self):
        rng = np.random.default_rng(0)
        bundle = Bundle(40)
        for k in range(30):
            bundle.add(rng.normal(size=40), -10.0 if k else 10.0)
        assert len(bundle) == 30
        before = bundle.minimise(1e3, 1e-12)
        assert bundle.weights[0] == 1.0
        for _ in range(50):
            bundle.prune()
        assert len(bundle) == 30
        bundle.prune()
        assert len(bundle) == len(bundle._basis) == 1
        after = bundle.minimise(1e3, 1e-12)
        np.testing.assert_allclose(after[0], before[0], rtol=1e-10)
        assert after[1] == pytest.approx(before[1])
        bundle.add(rng.normal(size=40), 12.0)
        coef, bound = bundle.minimise(1.0, 1e-12)
        assert (bundle.slopes @ coef + bundle.offsets).max() + 0.5 * coef @ coef == pytest.approx(bound)


class TestSearch:
    """The line search, on functions with and without kinks."""

    @pytest.mark.parametrize("root", [1e-6, 0.3, 1.0, 50.0])
    @pytest.mark.parametrize("bend", [0.0, 3.0])
    def test_search_along_a_line(self, root, bend):
        """|t - root| with and without a parabola on top; both have their minimum at the root."""
        calls = []

        def along(t):
            calls.append(t)
            side = 1.0 if t >= root else -1.0
            return Tangent(t, abs(t - root) + bend * (t - root) ** 2, side + 2 * bend * (t - root))

        found = search(along)
        assert found.value <= 0.1 * (root + bend * root**2)
        assert len(calls) <= 13

    def test_search_on_a_smooth_function(self):
        found = search(lambda t: Tangent(t, (t - 0.37) ** 2, 2 * (t - 0.37)))
        assert found.at == pytest.approx(0.37)  # by the slopes; tangents alone would halve the bracket

    def test_search_stays_where_nothing_falls(self):
        assert search(lambda t: Tangent(t, t, 1.0)).at == 0.0
