"""Parts of a file that compiled code would follow anywhere: one that points outside itself is not loaded."""

import copy
import json
import re
import warnings
import zipfile
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LassoLars, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from persistence_cases import X, Y, rewrite
from taufpl import KernelTauFPLRanker, TauFPLRanker
from taufpl.exceptions import ModelFileError
from taufpl.persistence import load_model, save_model

ROWS, LABELS = X[:200], Y[:200]
THREE = np.arange(200) % 3
CITIES = np.array([["a", "x"], ["b", "x"], ["c", "y"], ["d", "y"], ["d", "x"], ["d", "y"]], dtype=object)
LEVELS = np.column_stack([np.arange(200) % 5, ROWS[:, 1:]])
RANKER = TauFPLRanker(0.05).fit(ROWS, LABELS)


def with_probabilities(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of newer versions of scikit-learn
        return model.set_params(probability=True).fit(ROWS, LABELS)


PARTS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3).fit(ROWS, LABELS),
    "forest": lambda: RandomForestClassifier(3, max_depth=2, random_state=0).fit(ROWS, LABELS),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=3).fit(ROWS, LABELS),
    "boosted sums": lambda: GradientBoostingRegressor(n_estimators=2).fit(ROWS, ROWS[:, 0]),
    "adaptive boosting": lambda: AdaBoostClassifier(n_estimators=2).fit(ROWS, LABELS),
    "bagging": lambda: BaggingClassifier(n_estimators=2, max_features=3, random_state=0).fit(ROWS, LABELS),
    "isolation": lambda: IsolationForest(n_estimators=2, random_state=0).fit(ROWS),
    "isolation by columns": lambda: IsolationForest(n_estimators=2, max_features=2, random_state=0).fit(ROWS),
    "boosting": lambda: HistGradientBoostingClassifier(
        max_iter=2, max_leaf_nodes=4, min_samples_leaf=5, categorical_features=[0]
    ).fit(LEVELS, LEVELS[:, 0] % 2 == 1),
    "boosted regression": lambda: HistGradientBoostingRegressor(max_iter=2, max_leaf_nodes=4).fit(ROWS, ROWS[:, 0]),
    "support": lambda: SVC().fit(ROWS, LABELS),
    "support of three": lambda: SVC().fit(ROWS, THREE),
    "support of one": lambda: OneClassSVM().fit(ROWS),
    "support of a regression": lambda: SVR().fit(ROWS, LABELS),
    "support of sparse rows": lambda: SVC().fit(sparse.csr_matrix(ROWS), LABELS),
    "neighbours": lambda: KNeighborsClassifier(algorithm="brute", metric="manhattan").fit(ROWS, LABELS),
    "neighbours of two labels": lambda: KNeighborsClassifier(algorithm="brute").fit(ROWS, np.c_[LABELS, THREE]),
    "neighbours of a regression": lambda: KNeighborsRegressor(algorithm="brute").fit(ROWS, LABELS),
    "neighbours by a matrix": lambda: KNeighborsClassifier(
        algorithm="brute", metric="mahalanobis", metric_params={"VI": np.eye(4)}
    ).fit(ROWS, LABELS),
    "support with probabilities": lambda: with_probabilities(SVC()),
    "covariance": lambda: EllipticEnvelope(random_state=0).fit(ROWS),
    "covariance alone": lambda: EllipticEnvelope(random_state=0, store_precision=False).fit(ROWS),
    "hashed words": lambda: HashingVectorizer(n_features=1),
    "hashed names": lambda: FeatureHasher(n_features=2**31 - 1),
    "linear": lambda: LogisticRegression(n_jobs=None).fit(ROWS, LABELS),
    # A parameter has the name of a constant here.
    "least angles": lambda: LassoLars(0.01, positive=True).fit(ROWS, LABELS),
    "boosting from nothing": lambda: GradientBoostingClassifier(n_estimators=2, init="zero").fit(ROWS, LABELS),
    "boosting from scores": lambda: GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(
        ROWS, LABELS
    ),
    "levels": lambda: OneHotEncoder().fit(CITIES),
    "numbers as levels": lambda: OneHotEncoder().fit(np.array([[2.0], [np.nan], [1.0]])),
    "levels without the first": lambda: OneHotEncoder(drop="first").fit(CITIES),
    "rare levels": lambda: OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist").fit(CITIES),
    "words": lambda: CountVectorizer().fit(["to be or", "not to be"]),
    "weighted words": lambda: TfidfVectorizer().fit(["to be or", "not to be"]),
    "names": lambda: DictVectorizer().fit([{"a": 1, "b": 2}, {"c": 1}]),
    "not fitted": lambda: [
        OneHotEncoder(),
        CountVectorizer(),
        KNeighborsClassifier(),
        SVC(),
        HistGradientBoostingClassifier(),
        GradientBoostingClassifier(),
        KernelTauFPLRanker(),
    ],
    "kernel": lambda: KernelTauFPLRanker(0.05, n_components=20, random_state=0).fit(ROWS, LABELS),
    "kernel by place": lambda: KernelTauFPLRanker(0.05, kernel="precomputed").fit(ROWS @ ROWS.T, LABELS),
    "sparse": lambda: sparse.csr_array(np.eye(3)),
    "old generator": lambda: np.random.RandomState(0),
    "philox": lambda: np.random.Generator(np.random.Philox(0)),
    "pcg": lambda: np.random.Generator(np.random.PCG64(0)),
}
made = cache(lambda name: PARTS[name]())


def travelled(part, path):
    """What becomes of an object that hangs on a model, where nothing but the walk through all of it comes."""
    save_model(copy.copy(RANKER).set_params(callback=part), path)
    return load_model(path).model.callback


@pytest.mark.parametrize("name", PARTS)
def test_sound_parts_are_loaded(name, tmp_path):
    part = made(name)
    again = travelled(part, tmp_path / "model.skops")
    assert type(again) is type(part)
    if hasattr(part, "predict") and hasattr(part, "classes_"):
        rows = ROWS @ ROWS.T if name == "kernel by place" else LEVELS if name == "boosting" else ROWS
        rows = sparse.csr_matrix(rows) if "sparse" in name else rows
        np.testing.assert_array_equal(again.predict(rows), part.predict(rows))


def nodes(place=None, tree=lambda part: part, **changes):
    """A change of the nodes of a tree of scikit-learn; functions get the number of the node that is changed."""

    def change(part):
        holder = tree(part)
        state = holder.tree_.__getstate__()
        split = np.flatnonzero(state["nodes"]["left_child"] != -1)
        node = split[-1] if place is None else place
        state["nodes"] = state["nodes"].copy()
        for field, value in changes.items():
            state["nodes"][field][node] = value(node, len(state["nodes"])) if callable(value) else value
        holder.tree_.__setstate__(state)

    return change


def boosted(field, value, *, is_categorical=None):
    """A change of a field of the last node of a boosted tree that is no leaf, or of the last that asks for a set."""

    def change(part):
        predictor = part._predictors[-1][0]
        chosen = predictor.nodes["is_leaf"] == 0
        if is_categorical is not None:
            chosen &= predictor.nodes["is_categorical"] == is_categorical
        node = np.flatnonzero(chosen)[-1]
        predictor.nodes[field][node] = value(node, len(predictor.nodes)) if callable(value) else value

    return change


def without_nodes_at_all(tree):
    state = tree.tree_.__getstate__()
    tree.tree_.__setstate__({**state, "nodes": state["nodes"][:0], "values": state["values"][:0], "node_count": 0})


def attributes(**changes):
    """A change of attributes: functions of what stands there."""

    def change(part):
        for name, value in changes.items():
            setattr(part, name, value(getattr(part, name)))

    return change


def state_of(generator, **changes):
    state = generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state(legacy=False)
    for name, value in changes.items():
        (state if name in state else state["state"])[name] = value
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def first(array, value):
    array = array.copy()
    array[0] = value
    return array


def wider(estimators):
    return np.hstack([estimators, estimators])


def bitsets(change):
    def apply(part):
        part._predictors[-1][0].raw_left_cat_bitsets = change(part._predictors[-1][0].raw_left_cat_bitsets)

    return apply


def without_nodes(part):
    part._predictors[-1][0].nodes = part._predictors[-1][0].nodes[:0]


def categorical_number(part):
    """A split of a number that asks for a set: what is known of categories holds nothing for its feature."""
    predictor = part._predictors[-1][0]
    node = np.flatnonzero((predictor.nodes["is_leaf"] == 0) & (predictor.nodes["is_categorical"] == 0))[-1]
    predictor.nodes["is_categorical"][node] = 1
    predictor.nodes["bitset_idx"][node] = 0


def shallower(part):
    state = part.tree_.__getstate__()
    part.tree_.__setstate__({**state, "max_depth": state["max_depth"] - 1})


def emptied(dummy):
    """Sums of no column: what boosting adds to them would be written behind them."""
    dummy.constant_, dummy.n_outputs_ = dummy.constant_[:, :0], 0
    return dummy


NEIGHBOUR_MODELS = ("neighbours", "neighbours of a regression")
COLUMNS = "columns of a tree in it are no indices"
BACK, FEATURE = "points outside itself, or back", "asks for a feature that is not there"
CHILD, SETS, SET = "single child, or no node", "no node, or sets of categories", "asks for a set of categories"
SUPPORT, KERNEL, PLACE = (
    "support vectors in it do not fit",
    "rows of a kernel model in it do not fit",
    "outside its state",
)
LEVEL, WORDS = "levels in it do not fit their", "words in it do not fit"
NEIGHBOURS, COUNTS = "labels of neighbours in it do not fit", "neighbours in it are fewer or more"
MATRIX, COVARIANCE = "matrix of a distance in it does not fit", "covariance in it does not fit"
PARENTS, DEPTH, START = "two parents, or with none", "deeper than it says", "does not begin with one number a row"
FEATURES = r"wants \d features where it would get \d"

# Each is one step from what is sound, so that every border of every check is held.
UNSOUND = [
    ("tree", nodes(left_child=lambda node, count: node), BACK),
    ("tree", nodes(right_child=lambda node, count: node), BACK),
    ("tree", nodes(left_child=lambda node, count: count), BACK),
    ("tree", nodes(right_child=lambda node, count: count), BACK),
    ("tree", nodes(left_child=-2), BACK),
    ("tree", nodes(feature=4), FEATURE),
    ("tree", nodes(feature=-1), FEATURE),
    ("tree", nodes(left_child=-1), CHILD),
    ("tree", nodes(right_child=-1), CHILD),
    ("tree", without_nodes_at_all, CHILD),
    ("tree", attributes(n_features_in_=lambda count: count - 1), FEATURES),
    (
        "forest",
        lambda part: [setattr(tree, "n_outputs_", 2) for tree in part.estimators_],
        "as many outputs as it says",
    ),
    ("forest", nodes(tree=lambda part: part.estimators_[-1], right_child=lambda node, count: count), BACK),
    ("gradient boosting", nodes(tree=lambda part: part.estimators_[-1, 0], left_child=lambda node, count: node), BACK),
    ("bagging", nodes(tree=lambda part: part.estimators_[-1], feature=3), FEATURE),
    *((name, attributes(n_features_in_=lambda count: count + 1), FEATURES) for name in ("forest", "gradient boosting")),
    ("isolation", attributes(n_features_in_=lambda count: count - 1, _max_features=lambda count: count - 1), FEATURES),
    ("isolation by columns", attributes(estimators_features_=lambda each: [[0, 1], [0, 1, 2]]), FEATURES),
    ("isolation by columns", attributes(_max_features=lambda count: 4), FEATURES),
    ("bagging", attributes(estimators_features_=lambda each: [each[0], each[1][:2]]), FEATURES),
    ("gradient boosting", attributes(estimators_=wider), "trees side by side"),
    ("gradient boosting", attributes(n_trees_per_iteration_=lambda count: 0), "trees side by side"),
    ("gradient boosting", attributes(estimators_=wider, n_trees_per_iteration_=lambda count: 2), "trees side by side"),
    ("gradient boosting", attributes(estimators_=np.ravel), "trees side by side"),
    ("boosted sums", attributes(estimators_=wider), "trees side by side"),
    ("boosting", boosted("left", lambda node, count: node), BACK),
    ("boosting", boosted("right", lambda node, count: node), BACK),
    ("boosting", boosted("left", lambda node, count: count), BACK),
    ("boosting", boosted("right", lambda node, count: count), BACK),
    ("boosting", boosted("right", 2**32 - 1), BACK),
    ("boosting", boosted("feature_idx", 4), FEATURE),
    ("boosting", boosted("feature_idx", -1), FEATURE),
    ("boosting", boosted("bitset_idx", 1, is_categorical=1), SET),
    ("boosting", lambda part: [boosted(*each)(part) for each in (("is_categorical", 2), ("bitset_idx", 7))], SET),
    ("boosting", categorical_number, SET),
    ("boosting", without_nodes, SETS),
    ("boosting", bitsets(lambda sets: sets[:, :7].copy()), SETS),
    ("boosting", bitsets(lambda sets: np.hstack([sets, sets])), SETS),
    ("boosting", bitsets(lambda sets: sets.ravel()), SETS),
    ("boosting", bitsets(lambda sets: sets[:0]), SET),
    ("boosting", attributes(n_features_in_=lambda count: 3), FEATURES),
    ("boosted regression", boosted("feature_idx", 4), FEATURE),
    ("boosted regression", boosted("is_categorical", 1), SET),
    *(
        ("support", attributes(**{name: change}), SUPPORT)
        for name, change in (
            ("_n_support", lambda counts: counts[:1]),
            ("_n_support", lambda counts: np.append(counts, np.int32(0))),
            ("_n_support", lambda counts: np.array([-1, counts.sum() + 1], np.int32)),
            ("_n_support", lambda counts: counts + np.int32([1, 0])),
            ("support_vectors_", lambda vectors: vectors[:-1]),
            ("support_vectors_", lambda vectors: vectors[:, :3].copy()),
            ("_dual_coef_", lambda duals: duals[:, :-1].copy()),
            ("_dual_coef_", lambda duals: np.vstack([duals, duals])),
            ("_intercept_", lambda intercept: intercept[:0]),
            ("support_", lambda places: places[:-1]),
            ("n_features_in_", lambda count: count + 1),
            ("_probA", lambda none: np.zeros(2)),
            ("_probB", lambda none: np.zeros(2)),
        )
    ),
    ("support of three", attributes(_intercept_=lambda intercept: intercept[:2]), SUPPORT),
    ("support of three", attributes(_intercept_=lambda intercept: intercept[:0]), SUPPORT),
    ("support of three", attributes(_dual_coef_=lambda duals: duals[:1]), SUPPORT),
    ("support of three", attributes(_probA=lambda none: np.zeros(1)), SUPPORT),
    ("support of one", attributes(_n_support=lambda counts: counts - np.int32([1, 0])), SUPPORT),
    ("support of a regression", attributes(_n_support=lambda counts: counts[::-1] + np.int32(1)), SUPPORT),
    ("support of sparse rows", attributes(_dual_coef_=lambda duals: sparse.csr_matrix(duals.shape)), SUPPORT),
    ("support", attributes(kernel=lambda kernel: "precomputed", support_=lambda each: first(each, 10**9)), SUPPORT),
    ("support", attributes(kernel=lambda kernel: np.minimum, support_=lambda each: first(each, 10**9)), SUPPORT),
    *(
        ("neighbours", attributes(_y=change), NEIGHBOURS)
        for change in (
            lambda labels: first(labels, 2),
            lambda labels: first(labels, -1),
            lambda labels: labels[:-1],
        )
    ),
    ("neighbours", attributes(_fit_X=lambda rows: rows[:, :3].copy()), FEATURES),
    ("neighbours of a regression", attributes(_fit_X=lambda rows: rows[:, :3].copy()), FEATURES),
    ("support", lambda part: delattr(part, "_dual_coef_"), r"does not make a model \(AttributeError"),
    ("support", lambda part: [delattr(part, name) for name in ("_dual_coef_", "_n_support")], "AttributeError"),
    ("support", lambda part: [delattr(part, name) for name in ("support_vectors_", "_n_support")], "AttributeError"),
    ("support", lambda part: [delattr(part, name) for name in ("support_vectors_", "_dual_coef_")], "AttributeError"),
    *(
        ("kernel", attributes(**{name: change}), KERNEL)
        for name, change in (
            ("support_vectors_", lambda rows: rows[:-1]),
            ("support_vectors_", lambda rows: rows[:, :3].copy()),
            ("dual_coef_", lambda weights: weights[0]),
            ("dual_coef_", lambda weights: np.vstack([weights, weights])),
        )
    ),
    *(
        ("kernel by place", attributes(support_vectors_=change), KERNEL)
        for change in (
            lambda places: first(places, -1),
            lambda places: first(places, len(ROWS)),
            lambda places: places[:-1],
            lambda places: places.astype(float),
        )
    ),
    ("kernel", lambda part: delattr(part, "dual_coef_"), "AttributeError"),
    ("kernel", lambda part: delattr(part, "support_vectors_"), "AttributeError"),
    *(
        ("boosting", lambda part, change=change: change(part._preprocessor), "does not give each feature")
        for change in (
            lambda encoder: encoder._transformer_to_input_indices.update(numerical=[1]),
            lambda encoder: encoder._transformer_to_input_indices.update(encoder=[1], numerical=[0, 2, 3]),
            attributes(transformers_=lambda parts: [parts[0], (*parts[1][:2], ~parts[1][2]), *parts[2:]]),
            attributes(transformers_=lambda parts: [(*parts[0][:2], parts[1][2]), *parts[1:]]),
            attributes(transformers_=lambda parts: parts[1:]),
            attributes(transformers_=lambda parts: [("encoder", StandardScaler(), parts[0][2]), *parts[1:]]),
            lambda encoder: setattr(encoder.transformers_[1][1], "func", None),
        )
    ),
    *(
        ("levels", attributes(**{name: change}), LEVEL)
        for name, change in (
            ("categories_", lambda levels: [np.append(levels[0], "z"), levels[1]]),
            ("categories_", lambda levels: levels[:1]),
            ("_n_features_outs", lambda counts: [counts[0] - 1, counts[1]]),
            ("_n_features_outs", lambda counts: counts[:1]),
            ("n_features_in_", lambda count: 3),
        )
    ),
    ("levels without the first", attributes(_drop_idx_after_grouping=lambda drops: first(drops, -1)), LEVEL),
    ("levels without the first", attributes(_drop_idx_after_grouping=lambda drops: first(drops, 4)), LEVEL),
    ("levels without the first", attributes(_n_features_outs=lambda counts: [2, *counts[1:]]), LEVEL),
    *(
        ("rare levels", attributes(_default_to_infrequent_mappings=change), LEVEL)
        for change in (
            lambda groups: [first(groups[0], 10**9), *groups[1:]],
            lambda groups: [first(groups[0], -1), *groups[1:]],
            lambda groups: [groups[0].astype(float), *groups[1:]],
            lambda groups: [groups[0][:-1], *groups[1:]],
            lambda groups: groups[:1],
        )
    ),
    *(
        (name, attributes(vocabulary_=change), WORDS)
        for name in ("words", "weighted words", "names")
        for change in (
            lambda words: dict.fromkeys(words, 2_000_000_000),
            lambda words: {word: place + 1 for word, place in words.items()},
            lambda words: {word: float(place) for word, place in words.items()},
        )
    ),
    ("tree", nodes(left_child=lambda node, count: count - 1, right_child=lambda node, count: count - 1), PARENTS),
    ("tree", shallower, DEPTH),
    ("boosting", boosted("left", lambda node, count: node + 2), PARENTS),
    ("isolation by columns", attributes(estimators_features_=lambda each: [each[0], np.array([True, False])]), COLUMNS),
    ("isolation by columns", attributes(estimators_features_=lambda each: [each[0], [[0], [1]]]), COLUMNS),
    ("boosted sums", attributes(init_=emptied), START),
    ("gradient boosting", attributes(init_=lambda init: made("boosted sums")), "begins with another"),
    ("support", lambda part: [delattr(part, "classes_"), attributes(_n_support=lambda counts: [20, 10**6])], "Error"),
    ("support", lambda part: setattr(part, "_effective_probability", True), SUPPORT),
    ("support with probabilities", attributes(_probA=lambda each: each[:0]), SUPPORT),
    ("support with probabilities", attributes(_probB=lambda each: each[:0]), SUPPORT),
    ("boosting", lambda part: setattr(part._bin_mapper, "make_known_categories_bitsets", np.exp), "is not that of the"),
    ("isolation", attributes(estimators_=set), "estimators of an ensemble in it are no list"),
    ("numbers as levels", attributes(categories_=lambda levels: [levels[0][::-1]]), "are not sorted"),
    ("numbers as levels", attributes(categories_=lambda levels: [np.array([np.nan, 1.0, 2.0])]), "are not sorted"),
    ("support", lambda part: setattr(part, "_impl", "one_class"), r"SVC\._impl in it is not that of the library"),
    ("linear", lambda part: setattr(part, "predict", np.exp), r"LogisticRegression\.predict in it is not that"),
    ("linear", attributes(n_features_in_=lambda count: float(count)), "no whole number"),
    ("linear", attributes(n_features_in_=lambda count: True), "no whole number"),
    *(("linear", attributes(n_jobs=lambda _, jobs=jobs: jobs), "n_jobs of") for jobs in (1025, -1025, 2.0, "two")),
    *((name, attributes(n_samples_fit_=lambda count: count + 1), COUNTS) for name in NEIGHBOUR_MODELS),
    ("neighbours of a regression", attributes(_fit_X=lambda rows: rows[:0], n_samples_fit_=lambda count: 0), COUNTS),
    ("neighbours by a matrix", attributes(metric_params=lambda each: {"VI": np.eye(3)}), MATRIX),
    ("neighbours by a matrix", attributes(effective_metric_params_=lambda each: {"VI": np.ones(4)}), MATRIX),
    ("covariance", attributes(location_=lambda middle: middle[:3]), COVARIANCE),
    ("covariance", attributes(precision_=lambda matrix: matrix[:3]), COVARIANCE),
    ("covariance alone", attributes(covariance_=lambda matrix: matrix[:, :3]), COVARIANCE),
    *(
        (name, attributes(ngram_range=lambda _, ends=ends: ends), "less than one at a time")
        for name in ("words", "weighted words", "hashed words")
        for ends in ((0, 1), (2, 1), (-(10**9), 1), (1, 1.5))
    ),
    *(
        (name, attributes(n_features=lambda _, count=count: count), "are hashed into")
        for name in ("hashed words", "hashed names")
        for count in (0, -1, 2**31, 8.0)
    ),
    ("old generator", lambda part: state_of(part, pos=625), PLACE),
    ("old generator", lambda part: state_of(part, pos=-1), PLACE),
    ("philox", lambda part: state_of(part, buffer_pos=5), PLACE),
    ("philox", lambda part: state_of(part, buffer_pos=-1), PLACE),
]


@pytest.mark.parametrize(("name", "change", "words"), UNSOUND)
def test_unsound_parts_are_refused(name, change, words, tmp_path):
    part = copy.deepcopy(made(name))
    change(part)
    with pytest.raises(ModelFileError, match=words):
        travelled(part, tmp_path / "model.skops")


@pytest.mark.parametrize("hide", [lambda part: (part,), lambda part: {"a": [part]}, lambda part: np.array([0, part])])
def test_unsound_parts_are_found_wherever_they_are(hide, tmp_path):
    part = copy.deepcopy(made("tree"))
    nodes(feature=4)(part)
    sound, path = made("support"), tmp_path / "model.skops"
    with pytest.raises(ModelFileError, match=FEATURE):
        # What comes twice is looked at once, and what comes after it, too.
        travelled([hide(part), sound, sound], path)
    with pytest.raises(ModelFileError, match=FEATURE):
        travelled([sound, sound, hide(part)], path)


def test_places_at_the_border_are_sound(tmp_path):
    """A generator that has used up its numbers makes new ones; a search may have found each place."""
    for name, place in (("pos", 0), ("pos", 624)):
        state_of(generator := np.random.RandomState(0), **{name: place})
        again = travelled(generator, tmp_path / "model.skops")
        assert again.randint(10**6) == generator.randint(10**6)
    model = copy.deepcopy(made("kernel by place"))
    for place in (0, len(ROWS) - 1):
        model.support_vectors_ = first(model.support_vectors_, place)
        travelled(model, tmp_path / "model.skops")
    model.support_vectors_, model.dual_coef_ = model.support_vectors_[:0], model.dual_coef_[:, :0]
    travelled(model, tmp_path / "model.skops")


def test_a_tree_with_fewer_nodes_than_it_says(tmp_path):
    """scikit-learn believes the array: nothing beyond it is read."""
    path = tmp_path / "model.skops"
    travelled(made("tree"), path)
    count = made("tree").tree_.node_count

    def edit(schema):
        told = json.dumps(schema)
        more = re.sub(rf'("node_count": {{[^}}]*"content": )"{count}"', rf'\1"{count + 1}"', told)
        assert more != told
        return json.loads(more)

    rewrite(path, edit)
    again = load_model(path).model.callback
    assert again.tree_.node_count == count
    np.testing.assert_array_equal(again.predict(ROWS), made("tree").predict(ROWS))


@pytest.mark.parametrize("n_trees", [2, 3, 8])
def test_trees_of_a_list_stand_in_arrays_that_they_have_in_common(n_trees, tmp_path):
    """Of few trees too, and in an array of objects that are all exchanged."""

    def n_arrays(part):
        travelled(part, tmp_path / "model.skops")
        with zipfile.ZipFile(tmp_path / "model.skops") as file:
            return len([name for name in file.namelist() if name.endswith(".npy")])

    forest, five = (RandomForestClassifier(n, max_depth=2, random_state=0).fit(ROWS, LABELS) for n in (n_trees, 5))
    boxed = np.empty(1, dtype=object)
    boxed[0] = forest
    assert n_arrays(forest) == n_arrays(five) == n_arrays(boxed)


def test_trees_of_which_some_have_no_sets_of_categories(tmp_path):
    y = LEVELS[:, 1] + 3 * (LEVELS[:, 0] == 2) > 0.5
    model = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=2, learning_rate=0.5, categorical_features=[0])
    model.fit(LEVELS, y)
    assert {len(each[0].raw_left_cat_bitsets) for each in model._predictors} >= {0, 1}
    again = travelled(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(LEVELS), model.decision_function(LEVELS))


def test_other_lists_stay_as_they_are(tmp_path):
    tree, other = made("tree"), ExtraTreeClassifier(max_depth=2).fit(ROWS, LABELS)
    grown = made("boosting")._predictors[0][0]
    for items in (
        [tree],
        [tree, other],
        [tree, DecisionTreeClassifier()],
        [DecisionTreeClassifier(), DecisionTreeClassifier()],
        [[tree]],
        [[tree], [tree, other]],
        [[grown], [grown, grown]],
        [[tree], tree],
        [[tree], [tree]],
        [tree, tree, tree],
        [[], []],
        [1, 2],
    ):
        again = travelled(items, tmp_path / "model.skops")
        assert described(again) == described(items)


def described(item):
    """Lists as they are nested, trees by what they say of the rows, and numbers."""
    if isinstance(item, list):
        return [described(each) for each in item]
    if hasattr(item, "nodes"):
        return item.nodes.tolist()
    return (type(item), item.predict(ROWS).tolist()) if hasattr(item, "tree_") else type(item)


def test_trees_are_found_and_put_back_wherever_they_are(tmp_path):
    """What holds them is copied: the model that is saved stays what it was."""
    forest = made("forest")
    trees = list(forest.estimators_)
    holder = {"one": forest, "two": [(1, forest), np.array([None, forest], dtype=object)], "three": ROWS}
    again = travelled(holder, tmp_path / "model.skops")
    assert all(one is other for one, other in zip(forest.estimators_, trees, strict=True))
    found = [again["one"], again["two"][0][1], again["two"][1][1]]
    assert found[0] is found[1] is found[2]
    for each in found:
        assert isinstance(each.estimators_, list)
        np.testing.assert_array_equal(each.predict_proba(ROWS), forest.predict_proba(ROWS))
    assert (again["two"][0][0], again["two"][1][0]) == (1, None)
    np.testing.assert_array_equal(again["three"], ROWS)


def test_a_kernel_model_of_one_row_is_sound(tmp_path):
    model = PARTS["kernel by place"]()
    model.support_vectors_, model.dual_coef_ = model.support_vectors_[:1], model.dual_coef_[:, :1]
    save_model(model, tmp_path / "one.skops")
    found = load_model(tmp_path / "one.skops").model
    expected = model.decision_function(ROWS @ ROWS.T)
    np.testing.assert_array_equal(found.decision_function(ROWS @ ROWS.T), expected)
