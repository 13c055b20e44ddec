"""Changes model files at random, loads them and asks the models, in a child process: no file may end it.

`make fuzz N=20000 SEED=0` runs it, `test_fuzz.py` does for few files. File i of a seed is always the same one.
"""

import argparse
import collections
import copy
import faulthandler
import io
import json
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np

# A file blocks a process that it keeps busy for longer, or asleep for six times as long.
SECONDS = 20
MEMORY = 6 * 2**30
WHOLE = (0, 1, -1, 2, 3, 7, 255, 256, -(2**31), 2**31 - 1, 2**31, 2**32, -(2**63), 2**63 - 1, 10**6, 10**9)
REAL = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e-320, 1e18, 0.5)
TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", ">f8", ">i8", "c16", "U5", "S3", "M8[s]"]
WORDS = (
    *("precomputed", "linear", "poly", "sigmoid", "rbf", "chi2", "laplacian", "cosine", "euclidean", "manhattan"),
    *("mahalanobis", "seuclidean", "minkowski", "hamming", "haversine", "canberra", "wminkowski", "nan_euclidean"),
    *("auto", "brute", "kd_tree", "ball_tree", "uniform", "distance", "onehot", "onehot-dense", "ordinal", "drop"),
    *("passthrough", "error", "ignore", "infrequent_if_exist", "use_encoded_value", "most_frequent", "constant"),
    *("zero", "hard", "soft", "ovr", "ovo", "isotonic", "sigmoid", "logistic", "softmax", "multilabel-indicator"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="models with this in their names")
    parser.add_argument("--unchecked", action="store_true", help="with the checks of loaded objects switched off")
    parser.add_argument("--child", nargs=2, metavar=("CASES", "FIRST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    start = time.perf_counter()
    found = run(options.files, options.seed, only=options.only, unchecked=options.unchecked)
    print(f"{sum(found.outcomes.values()):,} files in {time.perf_counter() - start:.0f} s: {dict(found.outcomes)}")
    return 1 if found.failures else 0


Found = collections.namedtuple("Found", "outcomes failures")


def run(n_files, seed=0, only="", *, unchecked=False):
    """Outcomes of the files of a seed, counted, and a line for each that has ended or blocked the process."""
    outcomes, failures, first = collections.Counter(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases"
        cases.write_bytes(pickle.dumps(written(only)))
        while first < n_files:
            first = _run_child(cases, first, n_files, seed, unchecked, outcomes, failures)
    return Found(outcomes, failures)


def _run_child(cases, first, n_files, seed, unchecked, outcomes, failures):
    """Run files until the child ends or blocks; the file to go on with."""
    options = ["--child", cases, first, "--files", n_files, "--seed", seed] + ["--unchecked"] * unchecked
    with tempfile.TemporaryFile("w+") as stack:
        command = [sys.executable, __file__, *map(str, options)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stack, text=True, bufsize=1)
        place, name, change = first, "", ""
        try:
            for line in worker.stdout:
                kind, _, rest = line.rstrip("\n").partition("\t")
                if kind == "begin":
                    place, name, change = rest.split("\t", 2)
                else:
                    outcomes[kind] += 1
                    if outcomes.total() % 2000 == 0:
                        print(f"{outcomes.total():,} files: {dict(outcomes)}", file=sys.stderr, flush=True)
        finally:
            worker.stdout.close()
            worker.wait()
        if worker.returncode:
            stack.seek(0)
            reason = "hang" if worker.returncode in (-signal.SIGALRM, -signal.SIGPROF) else f"crash {worker.returncode}"
            outcomes[reason] += 1
            told = stack.read()
            if worker.returncode > 0:  # the fuzzer itself has failed
                raise RuntimeError(told)
            where = [line.strip() for line in told.splitlines() if line.strip().startswith("File ")][:4]
            failures.append(f"{reason}: file {place} of seed {seed}, {name}: {change}\n    " + "\n    ".join(where))
            print(failures[-1], file=sys.stderr, flush=True)
            return int(place) + 1
    return n_files


def written(only=""):
    """The members of the file of every model, and its rows."""
    from fuzz_cases import models
    from taufpl.persistence import save_model

    cases = {}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for name, (model, rows) in models().items():
            if only in name:
                save_model(model, path := Path(folder) / "model.skops")
                with zipfile.ZipFile(path) as archive:
                    cases[name] = {info.filename: archive.read(info) for info in archive.infolist()}, rows
    return cases


def child(options):
    """Change, load and ask files from the first one on; tell the parent of each before and after."""
    import resource  # which Windows does not have

    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    path, first = options.child
    cases = list(pickle.loads(Path(path).read_bytes()).items())
    if options.unchecked:
        import taufpl.persistence._model_file as module

        module.check_state = lambda model: None
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    out, sys.stdout = sys.stdout, io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.skops"
        _write(file, cases[0][1][0])
        ask(file, cases[0][1][1])  # what is imported by the first takes seconds
        for place in range(int(first), options.files):
            name, (members, rows) = cases[place % len(cases)]
            changed, told = changed_members(random.Random(f"{options.seed} {place}"), members)
            print("begin", place, name, told.replace("\n", " ")[:400], sep="\t", file=out, flush=True)
            _write(file, changed)
            signal.alarm(6 * SECONDS)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            outcome = ask(file, rows)
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(outcome, file=out, flush=True)
    return 0


def ask(file, rows):
    """Load a file and use its model in every way that predicts."""
    from taufpl.exceptions import ModelFileError
    from taufpl.persistence import load_model

    try:
        model = load_model(file).model
    except ModelFileError:
        return "refused"
    except MemoryError:
        return "no memory at load"
    except Exception as error:
        return f"another error at load: {type(error).__name__}"
    outcome = "answers"
    # What hangs on a ranker is asked in its place.
    for each in (model, getattr(model, "callback", None)):
        for method in ("decision_function", "predict", "predict_proba", "score_samples", "transform", "kneighbors"):
            try:
                if callable(ask_for := getattr(each, method, None)):
                    ask_for(rows)
            except Exception:
                outcome = "an error of Python"
    return outcome


def _write(file, members):
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def changed_members(source, members):
    """The content of a file with one to three changes, and what they were."""
    members, told = dict(members), []
    schema = json.loads(members["schema.json"])
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        arrays = [name for name in members if name.endswith((".npy", ".npz"))]
        way = source.random()
        if arrays and way < 0.5:
            name = source.choice(arrays)
            change = _change_archive if members[name].startswith(b"PK") else _change_member
            members[name], what = change(source, members[name])
            told.append(f"{_owner(schema, name)}: {what}")
        elif len(arrays) > 1 and way < 0.55:
            one, other = source.sample(arrays, 2)
            members[one], members[other] = members[other], members[one]
            told.append(f"{_owner(schema, one)} and {_owner(schema, other)} exchanged")
        else:
            told.append(_change_schema(source, schema["content"]["model"]))
    members["schema.json"] = json.dumps(schema).encode()
    return members, "; ".join(told)


def _change_member(source, content):
    array = np.load(io.BytesIO(content))
    changed, what = _changed_array(source, array)
    stream = io.BytesIO()
    np.save(stream, changed)
    return stream.getvalue(), what


def _change_archive(source, content):
    """A change of one array of a sparse matrix."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = source.choice(sorted(arrays))
    if name == "format":
        arrays[name], what = np.array(kind := source.choice(("csc", "bsr", "coo", "dia", "csr"))), kind
    else:
        arrays[name], what = _changed_array(source, arrays[name])
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue(), f"{name} {what}"


def _changed_array(source, array):
    """Another array, and how it differs."""
    way = source.random()
    if way < 0.5 and array.size:
        return _changed_values(source, array.copy())
    if way < 0.65:
        try:
            name = source.choice(TYPES)
            return array.astype(name), f"astype {name}"
        except (TypeError, ValueError):
            return array[:0], "emptied"
    if array.ndim == 0:
        return np.array([array[()]] * source.choice((0, 1, 2, 9))), "no scalar"
    axis = source.randrange(array.ndim)
    ways = {
        "one less": lambda: np.delete(array, -1, axis) if array.shape[axis] else array,
        "first taken out": lambda: np.delete(array, 0, axis) if array.shape[axis] else array,
        "emptied": lambda: np.take(array, [], axis),
        "one more": lambda: np.concatenate([array, np.take(array, [-1], axis)], axis) if array.size else array,
        "doubled": lambda: np.concatenate([array, array], axis),
        "transposed": lambda: array.T,
        "flat": lambda: array.ravel(),
        "an axis more": lambda: array[..., np.newaxis],
        "an axis before": lambda: array[np.newaxis],
        "columns as rows": lambda: array.reshape(-1, 1),
        "in the order of Fortran": lambda: np.asfortranarray(array),
        "turned round": lambda: np.flip(array, axis),
        "a scalar": lambda: array.ravel()[0] if array.size else array,
        "long": lambda: np.repeat(array, 50, axis),
    }
    what = source.choice(list(ways))
    return ways[what](), f"{what} along {axis} of {array.shape}"


def _changed_values(source, array):
    whole = array
    field = ""
    if array.dtype.names:
        field = source.choice(array.dtype.names)
        array = array[field]
    flat = array.reshape(-1)
    places = range(flat.size) if source.random() < 0.1 else [source.randrange(flat.size)]
    place = places[0]
    if array.dtype.kind in "iu":
        bounds = np.iinfo(array.dtype)
        near = int(flat[place])
        value = source.choice((*WHOLE, bounds.min, bounds.max, near + 1, near - 1, flat.size, whole.size + 1))
        value = min(max(value, bounds.min), bounds.max)
    elif array.dtype.kind in "fc":
        value = source.choice((*REAL, float(np.real(flat[place])) * 1e9))
    elif array.dtype.kind == "b":
        value = not flat[place]
    else:
        value = np.zeros(1, array.dtype)[0] if source.random() < 0.5 else flat[source.randrange(flat.size)]
    for each in places:
        flat[each] = value
    if not np.shares_memory(flat, whole):
        array[...] = flat.reshape(array.shape)
    name = field or whole.dtype
    return whole, f"{name}{whole.shape}[{'all' if len(places) > 1 else place}] = {value!r}"


def _nodes(item, path=()):
    """Every description of an object below this one, with its path."""
    if isinstance(item, dict):
        if "__loader__" in item:
            yield path, item
        for name, each in item.items():
            yield from _nodes(each, (*path, name))
    elif isinstance(item, list):
        for place, each in enumerate(item):
            yield from _nodes(each, (*path, place))


def _owner(schema, member):
    for path, node in _nodes(schema):
        if node.get("file") == member:
            return _short(path)
    return member


def _short(path):
    return ".".join(str(each) for each in path if each != "content")


def _change_schema(source, model):
    """Change one number, text, entry, object or class in the text of a file, in place."""
    nodes = list(_nodes(model))
    way = source.random()
    scalars = [(path, node) for path, node in nodes if node["__loader__"] == "JsonNode"]
    if way < 0.6 and scalars:
        path, node = source.choice(scalars)
        old = node["content"]
        node["content"] = json.dumps(_other_scalar(source, json.loads(old)))
        if source.random() < 0.5:
            node.pop("__id__", None)  # else the first of equal values stands for all
        return f"{_short(path)}: {old} -> {node['content']}"
    holders = [
        (path, node["content"])
        for path, node in nodes
        if isinstance(node.get("content"), dict | list) and node["content"] and node["__loader__"] != "JsonNode"
    ]
    if not holders:
        return "nothing"
    path, holder = source.choice(holders)
    keys = [key for key in holder if key != "key_types"] if isinstance(holder, dict) else range(len(holder))
    key = source.choice(list(keys) or [None])
    if key is None:
        return "nothing"
    if way < 0.7:
        del holder[key]
        return f"{_short(path)}: without {key}"
    other_path, other = source.choice(nodes)
    if way < 0.8:
        holder[key] = copy.deepcopy(other)
        return f"{_short((*path, key))}: {_short(other_path)} in its place"
    if way < 0.88:
        if isinstance(holder, list):
            holder.append(copy.deepcopy(other))
            return f"{_short(path)}: one more"
        name = source.choice(
            ("_impl", "_validate_data", "n_jobs", "_n_threads", "kernel", "classes_", "tree_", "predict")
        )
        holder[name] = copy.deepcopy(other)
        return f"{_short((*path, name))}: {_short(other_path)} added"
    objects = [(path, node) for path, node in nodes if node["__loader__"] == "ObjectNode"]
    if way < 0.94 and len(objects) > 1:
        (path, one), (_, other) = source.sample(objects, 2)
        one["__class__"], one["__module__"] = other["__class__"], other["__module__"]
        return f"{_short(path)}: of class {other['__class__']}"
    one, other = source.choice(nodes)[1], copy.deepcopy(source.choice(nodes)[1])
    one.clear()
    one.update(other)
    return "an object in the place of another"


def _other_scalar(source, value):
    if source.random() < 0.15:
        return source.choice((None, True, False, 0, -1, 2**40, 1e300, "", "x", [], [1, 2]))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return source.choice((*WHOLE, value + 1, value - 1, 2 * value, -value))
    if isinstance(value, float):
        return source.choice((-1.0, 0.0, 1e300, -1e300, 1e-300, float("nan"), float("inf"), 2 * value))
    return source.choice((*WORDS, *WHOLE[:6])) if isinstance(value, str) or value is None else None


if __name__ == "__main__":
    sys.exit(main())
