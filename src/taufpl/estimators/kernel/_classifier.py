"""The kernel classifier: a search for gamma, reg and tau_scale, and a threshold with its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, StrOptions, fit_context
from taufpl._types import Array, RowIndices, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._linear import TAU_SCALE_CONSTRAINT, SolverChoice
from taufpl.estimators._progress import step
from taufpl.estimators._reading import read_units
from taufpl.estimators._search import RankingSearch, RegSearch, Setting, make_grid
from taufpl.estimators._table import Scores, score_rounding
from taufpl.estimators._thresholded import THRESHOLD_CONSTRAINTS, ThresholdedMixin, forget
from taufpl.estimators.kernel._ranker import KernelScorer
from taufpl.estimators.kernel._solve import KernelReport, make_rows, rank_rows
from taufpl.estimators.strategies import Fitter, Outcome, Strategy, takes_earlier_parameters
from taufpl.kernels import Kernel, score_sizes

# Multiples of the gamma of "median" that are tried, and the factor by which the search goes on beyond them.
_GAMMA_FACTORS = (0.25, 1.0, 4.0, 16.0)
_GAMMA_STEP = 4.0
_MOST_GAMMA_EXTENSIONS = 3
# Largest and smallest reg of a grid that is given by its size.
_REG_RANGE = (1.0, 1e-5)
_MOST_REG_EXTENSIONS = 1
# Larger shares of the negatives than tau, in multiples of it, that tau_scale="cv" tries.
_TAU_SCALES = (1.0, 2.0, 4.0)
# Gaps at which settings are judged: the first for all of them, the second for whichever leads.
_ROUGH_TOL, _LEADER_TOL = 5e-2, 1e-2
# The search may take fewer landmarks than the fit: which gamma and reg are good shows with few.
_MOST_COMPONENTS = 300
# It may take fewer rows, but as many as give this count of negatives above the threshold.
_MOST_ROWS = 20_000
_LEAST_ABOVE = 50


@dataclass(frozen=True, slots=True)
class KernelSearch:
    """Parameters of the search, and the rows that it may look at."""

    model: KernelTauFPLClassifier
    table: ArrayTable
    seed: int

    def run(self, gamma: float, *, has_gamma: bool) -> tuple[float, RegSearch, dict[str, Array]]:
        """The best gamma, the search of reg there, and the table of all; from this gamma on where it is searched for.

        Beyond the ends of the grids of gamma and reg the search goes on while the best lies there.
        """
        extend = has_gamma and self.model.gamma == "cv"
        gammas = [factor * gamma for factor in _GAMMA_FACTORS] if extend else [gamma]
        searches = {each: self._at(each, place, len(gammas)) for place, each in enumerate(gammas)}
        n_most = len(gammas) + (_MOST_GAMMA_EXTENSIONS if extend else 0)
        while True:
            tried, best = sorted(searches), _best_gamma(searches)
            leader = searches[best].best()
            if not leader.has_judged_best():
                with step(len(tried), len(tried) + 1, "judging the best again"):
                    leader.judge_best(self._choice(_LEADER_TOL))
            elif best in (tried[0], tried[-1]) and len(tried) < n_most:
                following = best / _GAMMA_STEP if best == tried[0] else best * _GAMMA_STEP
                searches[following] = self._at(following, len(tried), len(tried) + 1)
            else:
                return best, leader, _joined_table(searches)

    def _choice(self, tol: float) -> SolverChoice:
        return replace(self.model._choice(), tol=max(self.model.tol, tol))

    def _at(self, gamma: float, n_before: int, n_gammas: int) -> RankingSearch:
        """Search reg and tau_scale at one gamma of several."""
        model, table = self.model, self._some_rows()
        rows = table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, rows.size))
        kernel, rng = model._make_kernel(gamma), np.random.default_rng(self.seed)
        n_components = min(model.n_components or _MOST_COMPONENTS, _MOST_COMPONENTS)
        how = replace(model._approximation(), mode="low-rank", n_components=n_components)
        part = kernel.restrict(table.X, rows)
        features = make_rows(kernel, part, how, rng, how.candidates(classes, rng))
        folds = ArrayTable(None, *classes, table.units.take(rows), features.operator, table.n_jobs).split(model.cv)
        search = RankingSearch(folds, model.tau, self._choice(_ROUGH_TOL))
        scales = _TAU_SCALES if model.tau_scale == "cv" else (float(model.tau_scale),)
        regs = make_grid(model.regs if model.reg == "cv" else [float(model.reg)], *_REG_RANGE)
        with step(n_before, n_gammas, f"gamma {gamma:.3g}"):
            return search.run([Setting(scale) for scale in scales], regs, _MOST_REG_EXTENSIONS)

    def _some_rows(self) -> ArrayTable:
        """All rows, or a part of each class."""
        table = self.table
        n_rows = table.n_positive + table.n_negative
        wanted = max(_MOST_ROWS, round(_LEAST_ABOVE / self.model.tau))
        if n_rows <= wanted:
            return table
        rng = np.random.default_rng(self.seed)

        def some(rows: RowIndices) -> RowIndices:
            count = max(self.model.cv, round(rows.size * wanted / n_rows))
            return np.sort(rng.permutation(rows)[:count])

        return replace(table, positive_rows=some(table.positive_rows), negative_rows=some(table.negative_rows))


def _best_gamma(searches: dict[float, RankingSearch]) -> float:
    """The gamma with the best score; of equals the smallest: the smoothest functions."""
    return max(sorted(searches), key=lambda each: searches[each].best().best_score())


def _joined_table(searches: dict[float, RankingSearch]) -> dict[str, Array]:
    """All searches in the form of scikit-learn's `cv_results_`, by gamma."""
    tables = [(gamma, searches[gamma].table()) for gamma in sorted(searches)]
    joined = {name: np.concatenate([table[name] for _, table in tables]) for name in tables[0][1]}
    del joined["param_positive_share"]
    gammas = np.repeat([gamma for gamma, _ in tables], [len(table["param_reg"]) for _, table in tables])
    joined["rank_test_score"] = rankdata(-joined["mean_test_score"], method="min").astype(np.int32)
    return {"param_gamma": gammas, **joined}


class KernelFit(NamedTuple):
    """The weights that all rows of X have in a ranking, and its report, unless that of a neighbour is kept."""

    weights: Vector
    report: KernelReport | None


class KernelFitter(Fitter):
    """Fits the rankings of a kernel classifier, with gamma, reg and tau_scale given or, where "cv", searched for.

    The seed draws landmarks.
    """

    def __init__(self, model: KernelTauFPLClassifier, X: Any, seed: int) -> None:
        self.model, self.X, self.seed = model, X, seed
        self._usual_gamma = "median" if model.gamma == "cv" else model.gamma
        # A parameter that does not suit the rows is refused before anything is divided.
        self.kernel: Kernel = model._make_kernel(self._usual_gamma, X)
        self.reg, self.tau_scale = math.nan, math.nan
        self.cv_results: dict[str, Array] | None = None

    def prepare(self, table: ArrayTable) -> None:
        """Choose gamma, reg and tau_scale by these rows alone, where they are not given."""
        model = self.model
        self.kernel = model._make_kernel(self._usual_gamma, self.kernel.restrict(self.X, table.rows))
        if "cv" not in (model.gamma, model.reg, model.tau_scale):
            self.reg, self.tau_scale = float(model.reg), float(model.tau_scale)
            return
        search = KernelSearch(model, table, self.seed)
        gamma, best, self.cv_results = search.run(self.kernel.gamma, has_gamma=self.kernel.has_gamma)
        self.kernel = model._make_kernel(gamma)
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, table: ArrayTable, near: KernelFit | None = None) -> KernelFit:
        """Choose landmarks among these rows, and solve."""
        model, own = self.model, table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, own.size))
        settings = (self.tau_scale * model.tau, self.reg, model._approximation(), model._choice())
        part, rng = self.kernel.restrict(self.X, own), np.random.default_rng(self.seed)
        found = rank_rows(self.kernel, part, classes, *settings, rng)
        weights = np.zeros(self.X.shape[0])
        weights[own] = found.weights
        return KernelFit(weights, found.report() if near is None else None)

    def scores(self, model: KernelFit, table: ArrayTable) -> Scores:
        """Sums of the weights times the kernel, for each of the rows."""
        support = np.flatnonzero(model.weights)
        points, weights = self.kernel.points(self.X, support), model.weights[support]
        # Of all but the longest rows: one huge row must not decide the rounding of the others.
        size = np.quantile(score_sizes(self.kernel, self.X, support, weights), 1.0 - 0.1 * self.model.tau)
        scores = table.with_scores(self.kernel.expansion(self.X[table.by_class], points, weights))
        return scores.with_rounding(score_rounding(float(size)))


class KernelTauFPLClassifier(ThresholdedMixin, KernelScorer):
    """A classifier in the space of a kernel whose false-positive rate stays at or under tau.

    It learns a ranking as :class:`KernelTauFPLRanker` does, and then chooses the threshold on negatives that the
    ranking had not seen. It takes no segments: put a :class:`KernelTauFPLRanker` into a
    :class:`NeymanPearsonClassifier` for limits by segment.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    kernel, degree, coef0, kernel_params
        As in :class:`KernelTauFPLRanker`.
    gamma : "cv", float or {"median", "scale", "auto"}, default="cv"
        "cv" tries 1/4, 1, 4 and 16 times the gamma of "median", and goes on where the best lies at an end. Compared is,
        as for reg and tau_scale, the share of held-out positives above the (floor(tau n) + 1)-th largest score of a
        held-out negative.
    reg : "cv" or float, default="cv"
        Weight of the penalty, or "cv" to choose it along `regs`.
    tau_scale : "cv" or float, default=2.0
        The ranking trains at tau_scale tau: 2 is the 2tau variant of the paper, which ranked better than 1 on most of
        what was measured; "cv" tries 1, 2 and 4.
    threshold : {"auto", "np", "cross", "oob", "train"} or strategy, default="auto"
        As in :class:`TauFPLClassifier`. With "np" neither gamma and reg nor the landmarks have seen the negatives that
        choose the threshold: P(FPR > tau) <= delta is proven, whatever the distribution.
    delta, insufficient, looks
        As in :class:`TauFPLClassifier`.
    n_components, approximation, pivoting, n_candidates, landmark_tol, refine
        As in :class:`KernelTauFPLRanker`. The search takes 300 landmarks at most, and 20,000 rows or as many as it
        needs for 50 negatives above the threshold.
    regs : int or array-like of float, default=6
        The grid for ``reg="cv"``: its values, or their number between 1 and 1e-5. It grows where its end is best.
    cv : int, default=5
        Folds of the search, of "cross", and of the recall of "np".
    solver, tol, max_iter, pos_label
        As in :class:`TauFPLRanker`.
    n_jobs : int, default=None
        Folds of the search are fitted at the same time in threads, as in :class:`TauFPLClassifier`, with the features
        that stand for the kernel in the place of X; folds and rounds of the threshold in processes, where None is 1.
    random_state : int, RandomState or None, default=None
        Decides how rows are divided, and draws landmarks.
    verbose : int, default=0
        1 prints the steps of the fit (folds, rounds, settings) on stderr.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, gamma_, classes_
        As in :class:`KernelTauFPLRanker`; after "oob" of the mean of the rounds' scores.
    threshold_ : float
    strategy_ : str
    evidence_ : taufpl.thresholding.Evidence
    threshold_history_ : tuple of taufpl.thresholding.ThresholdRecord
    sequences_ : tuple of taufpl.thresholding.NegativeSequence
    fpr_estimate_, fpr_upper_bound_ : float
        As in :class:`TauFPLClassifier`.
    reg_, tau_scale_ : float
        What was given or found.
    cv_results_ : dict of ndarrays
        Of the search, if there was one.
    primal_objective_, dual_objective_, dual_gap_, kernel_dual_objective_, kernel_gap_, exact_, n_components_
        Of the ranking on all rows, or, for "np", on those that are not held out, or, for "oob" that takes the mean of
        rounds, of the first. As in :class:`KernelTauFPLRanker`, and so are `residual_trace_`, `relative_error_`,
        `n_iter_`, `n_passes_`, `converged_`, `collapsed_` and `history_`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import KernelTauFPLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(1500, 2))
    >>> y = (np.hypot(*X.T) < 0.5).astype(int)
    >>> classifier = KernelTauFPLClassifier(tau=0.05, cv=3, random_state=0).fit(X, y)
    >>> new = rng.uniform(-1, 1, size=(20_000, 2))
    >>> is_negative = np.hypot(*new.T) >= 0.5
    >>> bool(classifier.predict(new)[is_negative].mean() <= 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelScorer._parameter_constraints,
        **THRESHOLD_CONSTRAINTS,
        "gamma": [*KernelScorer._parameter_constraints["gamma"], StrOptions({"cv"})],
        "reg": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither")],
        "tau_scale": [*TAU_SCALE_CONSTRAINT, StrOptions({"cv"})],
        "regs": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    @takes_earlier_parameters()
    def __init__(
        self,
        tau: float = 0.01,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = "cv",
        degree: int = 3,
        coef0: float = 1,
        kernel_params: Mapping[str, Any] | None = None,
        reg: float | str = "cv",
        tau_scale: float | str = 2.0,
        threshold: str | Strategy = "auto",
        delta: float | None = 0.05,
        insufficient: str = "raise",
        looks: int | str = 1,
        n_components: int | None = None,
        approximation: str = "auto",
        pivoting: str = "random",
        n_candidates: int | None = 20_000,
        landmark_tol: float = 1e-8,
        refine: bool = True,
        regs: int | ArrayLike = 6,
        cv: int = 5,
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int | None = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.reg = reg
        self.tau_scale = tau_scale
        self.threshold = threshold
        self.delta = delta
        self.insufficient = insufficient
        self.looks = looks
        self.n_components = n_components
        self.approximation = approximation
        self.pivoting = pivoting
        self.n_candidates = n_candidates
        self.landmark_tol = landmark_tol
        self.refine = refine
        self.regs = regs
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None, order: Any = None) -> Self:
        """Learn the ranking and choose its threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            kernel="precomputed": the matrix of k(x_i, x_j), dense.
        y : array-like of shape (n_samples,)
            Two different labels.
        groups, order : array-like of shape (n_samples,), default=None
            As in :meth:`TauFPLClassifier.fit`.

        Returns
        -------
        self
        """
        forget(self, "cv_results_")
        X, labels = self._read(X, y)
        units, plan = read_units(groups, order, X.shape[0]), self._plan()
        table = ArrayTable(X, labels.positive_rows, labels.negative_rows, units, n_jobs=self.n_jobs)
        fitter = KernelFitter(self, X, plan.seed)
        outcome = self._run_strategy(fitter, table, plan)
        # That of all rows, of all that may be fitted on, or of the first round.
        report = outcome.models[0].report
        assert report is not None
        weights = sum(model.weights / len(outcome.models) for model in outcome.models)
        self._keep_expansion(X, weights, fitter.kernel)
        self.reg_, self.tau_scale_ = fitter.reg, fitter.tau_scale
        if fitter.cv_results is not None:
            self.cv_results_ = fitter.cv_results
        self._keep_report(report)
        self._keep_evidence(outcome, X)
        return self

    def recalibrate(
        self, X: Any, y: Any = None, groups: Any = None, *, restart: bool = False, source: str | None = None
    ) -> Self:
        """Choose the threshold anew from fresh negatives, without refitting, as :meth:`TauFPLClassifier.recalibrate`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Fresh negatives; with `y`, the negatives among the rows choose, and the positives tell the recall.
        y : array-like of shape (n_samples,), default=None
            Labels; None says that all rows are negatives.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together: each group gives the threshold one negative, drawn at random.
        restart : bool, default=False
            With ``looks="any"``: forget the negatives so far, and begin a new sequence, with half of the delta that is
            left. After a drift, say: thresholds of a sequence are about one source of negatives.
        source : str, default=None
            Where the rows came from, for `threshold_history_`.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `fpr_estimate_` and `fpr_upper_bound_` are new, and `threshold_history_` has
            one more entry.
        """
        return self._recalibrate(X, y, groups, restart, source)

    def training_rows(self, y: Any, groups: Any = None, order: Any = None) -> RowIndices | None:
        """The rows that `fit` would learn from, as :meth:`TauFPLClassifier.training_rows`.

        Parameters
        ----------
        y, groups, order : array-like of shape (n_samples,)
            As they will be given to `fit`.

        Returns
        -------
        ndarray of int, or None
            Row numbers, ascending; None where `fit` learns from all rows, because the threshold is not "np".
        """
        return self._training_rows(y, groups, order)

    def _keep_evidence(self, outcome: Outcome, X: Any) -> None:
        super()._keep_evidence(outcome, X)
        self.intercept_ = -self.thresholds_

    def decision_function(self, X: Any) -> Vector:
        """Score minus threshold, as :meth:`KernelTauFPLRanker.decision_function`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        self._check_precision(X)
        return KernelScorer.decision_function(self, X)

    _raw_scores = KernelScorer._raw_scores
