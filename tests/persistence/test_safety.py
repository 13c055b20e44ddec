"""Files from strangers: they end in one sentence, and nothing of them runs."""

import io
import json
import pickle
import struct
import sys
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from persistence_cases import FRESH, MODELS, X, Y, edit_arrays, edit_header, guarded, rewrite
from taufpl import TauFPLRanker
from taufpl.exceptions import ModelFileError
from taufpl.persistence import load_model, save_model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.skops"
    save_model(TauFPLRanker(0.05).fit(X, Y), path)
    return path


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def several(*nodes):
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": list(nodes)}


def function(module, name):
    return {"__class__": name, "__module__": module, "__loader__": "FunctionNode"}


def instead(node):
    """An edit that puts another object in the place of the model."""

    def edit(schema):
        schema["content"]["model"] = node

    return edit


def attacks(marker):
    """Objects whose making, by one way or another, would run a command that leaves a marker."""
    command = f"touch {marker}"
    run = function("os", "system")
    mapping = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {}}
    mapping["key_types"] = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": []}
    return {
        "a function": (run, "os.system"),
        "a type that is called": (
            {
                "__class__": "Popen",
                "__module__": "subprocess",
                "__loader__": "ConstructorFromReduceNode",
                "content": several(text(["touch", str(marker)])),
            },
            "subprocess.Popen",
        ),
        "an operator": (
            {
                "__class__": "call",
                "__module__": "operator",
                "__loader__": "OperatorFuncNode",
                "attrs": several(run, text(command)),
            },
            r"operator\.call, os\.system",
        ),
        "a partial": (
            {
                "__class__": "partial",
                "__module__": "functools",
                "__loader__": "PartialNode",
                "content": {"func": run, "args": several(text(command)), "kwds": mapping, "namespace": text(None)},
            },
            "os.system",
        ),
        "a method": (
            {
                "__class__": "TauFPLRanker",
                "__module__": "taufpl.estimators._ranker",
                "__loader__": "MethodNode",
                "content": {"func": "fit", "obj": text(1)},
            },
            r"taufpl\.estimators\._ranker\.TauFPLRanker\.fit",
        ),
        "an object": (
            {"__class__": "Evil", "__module__": "evil_module", "__loader__": "ObjectNode", "content": mapping},
            "evil_module.Evil",
        ),
        "keys of a dict": (
            {
                **mapping,
                "content": {command: text(1)},
                "key_types": {
                    "__class__": "list",
                    "__module__": "builtins",
                    "__loader__": "ListNode",
                    "content": [{"__class__": "system", "__module__": "os", "__loader__": "TypeNode"}],
                },
            },
            "os.system",
        ),
        "an array of another class": (
            {"__class__": "system", "__module__": "os", "__loader__": "NdArrayNode", "type": "numpy", "file": "x.npy"},
            "os.system",
        ),
        "bytes of any length": (
            {
                "__class__": "bytes_",
                "__module__": "numpy",
                "__loader__": "NdArrayNode",
                "type": "numpy",
                "file": "x.npy",
            },
            r"numpy\.bytes_",
        ),
        "a generator": (
            {
                "__class__": "Generator",
                "__module__": "numpy.random._generator",
                "__loader__": "RandomGeneratorNode",
                "content": {
                    "bit_generator": {**mapping, "content": {"bit_generator": text("seed")}},
                    "seed_seq": mapping,
                },
            },
            "numpy.random.seed",
        ),
        "a method of what is no object": (
            {"__class__": "TauFPLRanker", "__module__": "x", "__loader__": "MethodNode", "content": []},
            "x.TauFPLRanker",
        ),
        "a generator of no kind": (
            {"__class__": "Generator", "__module__": "numpy.random._generator", "__loader__": "RandomGeneratorNode"},
            "numpy.random.None",
        ),
        "a name that is no text": ({**function("os", "system"), "__module__": 3, "__class__": ["system"]}, "3.*"),
        "a class of no name": (
            {**function("taufpl.estimators", ["TauFPLRanker"])},
            "taufpl.estimators.*TauFPLRanker.*",
        ),
        "a class of no such name": (function("taufpl.estimators", "Evil"), "taufpl.estimators.Evil"),
        "a loss": ({**function("evil_module", "Evil"), "__loader__": "LossNode"}, "evil_module.Evil"),
        "a loss of another loader": (
            {**function("sklearn._loss._loss", "CyHalfBinomialLoss"), "__loader__": "EvilNode"},
            "sklearn._loss._loss.CyHalfBinomialLoss",
        ),
        **{
            f"{module}.{name} by {loader}": (
                {"__class__": name, "__module__": module, "__loader__": loader, "type": "numpy", "file": "x.npy"},
                rf"{module}\.{name}",
            )
            for module, name, loader in (
                ("evil_module", "exp", "FunctionNode"),
                ("numpy", "load", "FunctionNode"),
                ("numpy._core.multiarray", "fromfile", "FunctionNode"),
                ("scipy.special", "roots_legendre", "FunctionNode"),
                ("evil_module", "float64", "TypeNode"),
                ("numpy", "memmap", "TypeNode"),
                ("numpy", "object_", "TypeNode"),
                ("builtins", "eval", "TypeNode"),
                ("numpy", "memmap", "NdArrayNode"),
                ("evil_module", "ndarray", "NdArrayNode"),
            )
        },
        "a loader that is not known": (
            {"__class__": "str", "__module__": "builtins", "__loader__": "EvilNode", "content": ""},
            "builtins.str",
        ),
        "a strange loader": (
            {"__class__": "str", "__module__": "builtins", "__loader__": ["JsonNode"], "content": ""},
            "builtins.str",
        ),
    }


@pytest.mark.parametrize("name", attacks(""))
@pytest.mark.parametrize("nested", [False, True])
def test_nothing_of_a_strangers_file_runs(name, nested, saved, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    (tmp_path / "evil_module.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Evil: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    node, type_name = attacks(marker)[name]
    if nested:
        # Deep in the model, where only the walk through all of it comes.
        rewrite(saved, lambda schema: schema["content"]["model"]["content"]["content"].update(tol=node))
    else:
        rewrite(saved, instead(node))
    with pytest.raises(ModelFileError, match=rf"types that are not known here: {type_name}\. Nothing of it was loaded"):
        load_model(saved)
    assert not marker.exists()
    assert "evil_module" not in sys.modules


def test_the_second_lock_holds_without_the_first(saved, tmp_path, monkeypatch):
    """What skops itself refuses stays refused, should a way past our own list be found."""
    marker = tmp_path / "marker"
    monkeypatch.setattr("taufpl.persistence._model_file.refused_types", lambda *_: [])
    for node, _ in attacks(marker).values():
        rewrite(saved, instead(node))
        with pytest.raises(ModelFileError, match="does not make a model"):
            load_model(saved)
    assert not marker.exists()


def archive(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "."), content)
    return stream.getvalue()


NOT_MODELS = {
    "empty": (b"", "not a zip archive"),
    "text": (b"hello", "not a zip archive"),
    "a pickle": (pickle.dumps({"a": 1}), "not a zip archive"),
    "an empty archive": (archive(), "without schema.json"),
    "another archive": (archive(a__txt="hello"), "holds 'a.txt'"),
    "no JSON": (archive(schema__json="{"), "cannot be read"),
    "no text": (archive(schema__json=b"\xff\xfe\x00"), "cannot be read"),
    "deep JSON": (archive(schema__json="[" * 100_000), "cannot be read"),
    "a list": (archive(schema__json="[]"), "does not describe an object"),
    "no protocol": (archive(schema__json="{}"), "does not describe an object"),
    "a text for a protocol": (archive(schema__json='{"protocol": "2"}'), "does not describe an object"),
    "an old protocol": (archive(schema__json='{"protocol": 1}'), "protocol 1"),
    "an array of no kind": (archive(schema__json='{"protocol": 2}', a__npy=b"not an array"), "cannot be read"),
    "a boolean protocol": (archive(schema__json='{"protocol": true}'), "protocol True"),
    "no header": (archive(schema__json='{"protocol": 2}'), "no header"),
    "a strange header": (archive(schema__json='{"protocol": 2, "content": {"header": {"content": "3"}}}'), "no header"),
}


@pytest.mark.parametrize("name", NOT_MODELS)
def test_what_is_no_model_file(name, tmp_path):
    content, message = NOT_MODELS[name]
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path} cannot be loaded: ")
    assert "\n" not in str(caught.value)


def test_a_file_of_skops_itself_is_named_as_such(tmp_path):
    skops = pytest.importorskip("skops.io")
    skops.dump({"model": 3}, tmp_path / "plain.skops")
    with pytest.raises(ModelFileError, match=r"skops\.io\.load reads it"):
        load_model(tmp_path / "plain.skops")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="not a zip archive, or a damaged one"):
        load_model(saved)


def test_a_flipped_bit_in_any_member_is_noticed(saved):
    content = saved.read_bytes()
    with zipfile.ZipFile(saved) as file:
        starts = [info.header_offset + 30 + len(info.filename) + info.compress_size // 2 for info in file.infolist()]
    assert len(starts) >= 3
    for start in starts:
        damaged = bytearray(content)
        damaged[start] ^= 0x10
        saved.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load_model(saved)


class TestSizes:
    """A small file cannot ask for much memory."""

    def test_content_beyond_the_bound(self, saved):
        with zipfile.ZipFile(saved, "a", zipfile.ZIP_DEFLATED) as file:
            file.writestr("zeros.npy", bytes(5_000_000))
        assert saved.stat().st_size < 50_000
        with pytest.raises(ModelFileError, match="more than max_bytes=4,000,000"):
            load_model(saved, max_bytes=4_000_000)

    def test_a_file_beyond_the_bound(self, saved):
        with pytest.raises(ModelFileError, match="longer than max_bytes=100"):
            load_model(saved, max_bytes=100)

    def test_the_bound_is_exact(self, tmp_path):
        """Text counts sixteen times, arrays as long as they are, and what is in archives of arrays once more."""
        path = tmp_path / "model.skops"
        save_model(MODELS["sparse support vectors"](), path)
        content, total = path.read_bytes(), 0
        with zipfile.ZipFile(path) as file:
            for info in file.infolist():
                total += info.file_size * (16 if info.filename == "schema.json" else 1)
                if info.filename.endswith(".npz"):
                    with zipfile.ZipFile(io.BytesIO(file.read(info))) as inner:
                        total += sum(each.file_size for each in inner.infolist())
        load_model(path, max_bytes=total)
        with pytest.raises(ModelFileError, match=f"would take {total:,} bytes, more than max_bytes={total - 1:,}"):
            load_model(path, max_bytes=total - 1)
        # An archive may begin after something else.
        path.write_bytes(bytes(total - len(content)) + content)
        load_model(path, max_bytes=total)
        with pytest.raises(ModelFileError, match=f"longer than max_bytes={total - 1:,}"):
            load_model(path, max_bytes=total - 1)

    def test_a_size_that_is_only_declared(self, saved):
        content = bytearray(saved.read_bytes())
        entry = content.rindex(b"PK\x01\x02")
        content[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
        saved.write_bytes(content)
        with pytest.raises(ModelFileError, match="more than max_bytes=1,073,741,824"):
            load_model(saved)

    def test_text_counts_by_what_becomes_of_it(self, saved):
        with zipfile.ZipFile(saved) as file:
            size = sum(info.file_size for info in file.infolist())
        with pytest.raises(ModelFileError, match="declares content"):
            load_model(saved, max_bytes=2 * size)

    @pytest.mark.parametrize("change", [(b"(1, 4)", b"(1, 9)"), (b"'<f8'", b"'|O8'")])
    def test_an_array_that_is_longer_than_its_content(self, saved, change):
        rewrite(saved, edit_member=lambda name, content: content.replace(*change) if name.endswith("npy") else content)
        with pytest.raises(ModelFileError, match=r"not as long as it says|cannot be read"):
            load_model(saved)

    def test_an_archive_in_the_archive(self, tmp_path):
        path = tmp_path / "model.skops"
        save_model(MODELS["sparse support vectors"](), path)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("data.npy", bytes(30_000_000))
        rewrite(path, edit_member=lambda name, content: stream.getvalue() if name.endswith(".npz") else content)
        with pytest.raises(ModelFileError, match="declares content"):
            load_model(path, max_bytes=20_000_000)


def changed_fields(**changes):
    """An edit of every array that has these fields: each is set to a value in the first row."""

    def change(array):
        if not set(changes) <= set(array.dtype.names or ()):
            return None
        array = array.copy()
        for name, value in changes.items():
            array[name][0] = value
        return array

    return change


def cut_off(shape):
    """An edit of every array of this shape: its last entry is taken away."""
    return lambda array: array[:-1] if array.shape == shape else None


def where(condition, value):
    """An edit of every array for which a condition holds."""
    return lambda array: np.full_like(array, value) if condition(array) else None


def lengths(change):
    """An edit of the lengths of the trees of the forest: five whole numbers, one a tree, none as large as a seed."""
    return lambda array: (
        np.array(change(array)) if array.dtype == np.int64 and array.shape == (5,) and array.max() < 1000 else None
    )


UNSOUND = {
    "a child beyond": ("forest", changed_fields(left_child=10**9), "points outside"),
    "a child before": ("forest", changed_fields(right_child=0), "points outside itself, or back"),
    "a single child": ("forest", changed_fields(right_child=-1), "single child"),
    "a feature beyond": ("forest", changed_fields(feature=4), "feature that is not there"),
    "a negative feature": ("forest", changed_fields(feature=-5), "feature that is not there"),
    "a list cut off": ("forest", cut_off((5,)), "other lengths than it says"),
    "a list with a tree of less than nothing": (
        "forest",
        lengths(lambda each: [each.sum() + 1, -1, 0, 0, 0]),
        "other lengths",
    ),
    "a list with more trees than numbers": ("forest", lengths(lambda each: [*each, 0]), "other lengths"),
    "a list of boosted trees cut off": ("boosting", cut_off((5,)), "other lengths than it says"),
    "a boosted child beyond": ("boosting", changed_fields(left=2**31), "points outside"),
    "a boosted child before": ("boosting", changed_fields(right=0), "points outside itself, or back"),
    "a boosted feature beyond": ("boosting", changed_fields(feature_idx=4), "feature that is not there"),
    "categories beyond": ("boosting", changed_fields(is_categorical=1, bitset_idx=3), "set of categories"),
    "support vectors": (
        "support vectors",
        where(lambda array: array.dtype == np.int32 and array.shape == (2,), 10**6),
        "support vectors",
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_indices_that_point_outside_are_refused(name, tmp_path):
    model, change, message = UNSOUND[name]
    path = tmp_path / "model.skops"
    save_model(MODELS[model](), path)
    load_model(path)
    rewrite(path, edit_member=edit_arrays(change))
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    ("estimator", "owner"),
    [
        (GradientBoostingClassifier(n_estimators=2), "GradientBoostingClassifier"),
        (IsolationForest(n_estimators=2), "IsolationForest"),
        (None, "RandomForestClassifier"),
        (DecisionTreeClassifier(max_depth=3), "DecisionTreeClassifier"),
    ],
)
def test_trees_that_want_more_features_than_there_are(estimator, owner, tmp_path):
    path = tmp_path / "model.skops"
    model = MODELS["forest"]() if estimator is None else guarded(estimator).fit(X, Y)
    save_model(model, path)

    def edit(schema):
        found, stack = 0, [schema]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if item.get("__class__") == owner and "n_features_in_" in item["content"]["content"]:
                    # An isolation forest looks at all of its columns only if it says so.
                    item["content"]["content"].update(n_features_in_=text(2), _max_features=text(2))
                    found += 1
                stack.extend(item.values())
            elif isinstance(item, list):
                stack.extend(item)
        assert found

    load_model(path)
    rewrite(path, edit)
    with pytest.raises(ModelFileError, match="wants 4 features where it would get 2"):
        load_model(path)


def test_sparse_matrices_that_point_outside(tmp_path):
    path = tmp_path / "model.skops"
    save_model(MODELS["sparse support vectors"](), path)

    def outside(name, content):
        if not name.endswith(".npz"):
            return content
        matrix, stream = sparse.load_npz(io.BytesIO(content)), io.BytesIO()
        matrix.indices[0] = 10**6
        sparse.save_npz(stream, matrix)
        return stream.getvalue()

    load_model(path)
    rewrite(path, edit_member=outside)
    with pytest.raises(ModelFileError, match="points outside itself"):
        load_model(path)


GENERATORS = {
    "RandomState": (lambda: np.random.RandomState(0), "pos", 10**6),
    "MT19937": (lambda: np.random.Generator(np.random.MT19937(0)), "pos", -1),
    "Philox": (lambda: np.random.Generator(np.random.Philox(0)), "buffer_pos", 10**6),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_that_point_outside_their_state(name, tmp_path):
    """skops trusts them, and NumPy sets whatever place a state names: the next number would come from there."""
    make, key, place = GENERATORS[name]
    path = tmp_path / "model.skops"
    save_model(TauFPLRanker(0.05).fit(X, Y).set_params(callback=make()), path)
    load_model(path)

    def edit(schema):
        stack = [schema]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if key in item and item[key]["__loader__"] == "JsonNode":
                    item[key] = text(place)
                stack.extend(item.values())
            elif isinstance(item, list):
                stack.extend(item)

    rewrite(path, edit)
    with pytest.raises(ModelFileError, match="points outside its state"):
        load_model(path)


def test_content_that_makes_no_model(saved):
    rewrite(saved, instead(text([1, 2])))
    with pytest.raises(ModelFileError, match=r"does not make a model \(TypeError: model must be(?!.*written with)"):
        load_model(saved)
    rewrite(saved, edit_header(sklearn_version="1.2.3"))
    with pytest.raises(ModelFileError, match=r"model must be.*; it was written with scikit-learn 1\.2\.3, this is \d"):
        load_model(saved)


def test_search_trees_of_neighbours_are_named(tmp_path):
    model = guarded(KNeighborsClassifier(algorithm="kd_tree")).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"sklearn\.neighbors\._kd_tree\.KDTree"):
        save_model(model, tmp_path / "model.skops")
    brute = guarded(KNeighborsClassifier(algorithm="brute")).fit(X, Y)
    save_model(brute, tmp_path / "model.skops")
    assert np.array_equal(load_model(tmp_path / "model.skops").model.predict(FRESH), brute.predict(FRESH))


def whole(change):
    """An edit of the nodes of a tree, whatever their shape."""
    return lambda array: change(array) if "left_child" in (array.dtype.names or ()) else None


TREES = {
    "no array of nodes": whole(lambda nodes: nodes[0]),
    "nodes in columns": whole(lambda nodes: nodes[:, np.newaxis]),
    "fewer nodes": whole(lambda nodes: nodes[:-1]),
    "values of no tree": lambda array: array[0] if array.ndim == 3 else None,
    "more classes": lambda array: array + 1 if array.dtype.kind == "i" and array.shape == (1,) else None,
    "classes that are no numbers": lambda array: (
        array * 1.0 if array.dtype.kind == "i" and array.shape == (1,) else None
    ),
    "no class": lambda array: array * 0 if array.dtype.kind == "i" and array.shape == (1,) else None,
    "no output": lambda array: array[:0] if array.dtype.kind == "i" and array.shape == (1,) else None,
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_of_arrays_that_do_not_fit_each_other_is_not_made(name, tmp_path):
    """To make one of an array without a length ends the process, before anything can be checked."""
    path = tmp_path / "model.skops"
    save_model(TauFPLRanker(0.05).fit(X, Y).set_params(callback=DecisionTreeRegressor(max_depth=3).fit(X, Y)), path)
    assert load_model(path).model.callback.tree_.node_count > 1
    rewrite(path, edit_member=edit_arrays(TREES[name]))
    with pytest.raises(ModelFileError, match=r"as many outputs as it says|nodes and values that do not fit"):
        load_model(path)


def test_a_tree_without_parts(tmp_path):
    path = tmp_path / "model.skops"
    save_model(TauFPLRanker(0.05).fit(X, Y).set_params(callback=DecisionTreeRegressor(max_depth=3).fit(X, Y)), path)
    rewrite(path, lambda schema: [node.pop("__reduce__", None) for node in described(schema)] and None)
    with pytest.raises(ModelFileError, match="a tree in it has no parts"):
        load_model(path)


def described(item):
    """Every description of an object in a file."""
    if isinstance(item, dict):
        if "__loader__" in item:
            yield item
        for each in item.values():
            yield from described(each)
    elif isinstance(item, list):
        for each in item:
            yield from described(each)


def test_sparse_matrices_of_another_kind(tmp_path):
    path = tmp_path / "model.skops"
    save_model(MODELS["sparse support vectors"](), path)

    def blocks(name, content):
        if not name.endswith(".npz"):
            return content
        stream = io.BytesIO()
        sparse.save_npz(stream, sparse.load_npz(io.BytesIO(content)).tobsr())
        return stream.getvalue()

    rewrite(path, edit_member=blocks)
    with pytest.raises(ModelFileError, match="a sparse matrix in it is of the kind 'bsr'"):
        load_model(path)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_generator_from_a_pool_of_another_size(hidden, tmp_path):
    """NumPy mixes each number of the pool with each, so that a large one keeps the process busy for days."""
    path = tmp_path / "model.skops"
    save_model(TauFPLRanker(0.05).fit(X, Y).set_params(callback=[{}, np.random.default_rng(0)]), path)
    load_model(path)

    def edit(schema):
        for node in described(schema):
            if (
                node["__loader__"] == "ListNode"
                and node["content"]
                and node["content"][-1].get("__class__") == "Generator"
            ):
                other, generator = node["content"]
                seeds = generator["content"]["seed_seq"]
                if hidden:
                    # What stands earlier in the file under the same number is taken by skops in the place of this.
                    other.update(json.loads(json.dumps(seeds)))
                    seeds = other
                seeds["content"]["pool_size"] = text(10**7)
                return
        raise AssertionError

    rewrite(path, edit)
    if hidden:
        assert load_model(path).model.callback[1].bit_generator.seed_seq.pool_size == 4
        return
    with pytest.raises(ModelFileError, match=r"numpy\.random\.SeedSequence\(pool_size=10000000\)"):
        load_model(path)


def test_estimators_that_are_not_audited_are_named(tmp_path):
    path, name = tmp_path / "model.skops", "sklearn.cluster._kmeans.KMeans"
    model = TauFPLRanker(0.05).fit(X, Y).set_params(callback=KMeans(2, random_state=0).fit(X))
    with pytest.raises(ModelFileError, match=rf"it holds {name}, which load_model would refuse.*name it by trusted"):
        save_model(model, path)
    save_model(model, path, trusted=name)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path} cannot be loaded: it holds {name}, whose state is not checked, and nothing of it was loaded; "
        f"load_model(..., trusted=['{name}']) loads it, which is for files of somebody you know: an index in it that "
        "points outside may end the process."
    )
    found = load_model(path, trusted=[name]).model.callback
    np.testing.assert_array_equal(found.predict(FRESH), model.callback.predict(FRESH))
