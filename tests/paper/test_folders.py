"""LIBSVM's data sets from folders: what is accepted, what is refused, what is kept for the next time."""

import bz2
import hashlib
import lzma
import re

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from taufpl.datasets import LIBSVM_DATASETS, DatasetInfo, fetch_libsvm
from taufpl.exceptions import DatasetError
from taufpl.paper._libsvm import TextFile

TRAIN = b"+1 1:0.5 3:2\n-1 2:1e-3\n-1 1:-1 2:4 4:7\n"
TEST = b"-1 4:1\n+1 3:0.25\n"
ROWS = np.array([[0.5, 0, 2, 0], [0, 1e-3, 0, 0], [-1, 4, 0, 7], [0, 0, 0, 1], [0, 0, 0.25, 0]])
LABELS = np.array([1, 0, 0, 0, 1])


def sha256(text):
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


INFO = DatasetInfo(
    "tiny",
    "a set for tests",
    2,
    3,
    4,
    (TextFile("tiny", 3, text_checksum=sha256(TRAIN)), TextFile("tiny.t", 2, sha256(TEST), packing=".bz2")),
)


@pytest.fixture(autouse=True)
def cache(offer, monkeypatch, tmp_path):
    """A cache of our own, and a data set small enough to be written by hand."""
    offer(INFO)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "xdg"))
    monkeypatch.delenv("TAUFPL_DATA", raising=False)
    return tmp_path / "xdg" / "taufpl"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def fetch(name="tiny", **options):
    return fetch_libsvm(name, download_if_missing=False, **options)


def write_text(folder, train=TRAIN, test=TEST):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny").write_bytes(train)
    (folder / "tiny.t").write_bytes(test)


def write_npz(path, rows=ROWS, labels=2 * LABELS - 1, **extra):
    """What SciPy writes, with one more member."""
    save_npz(path, csr_matrix(rows))
    with np.load(path) as archive:
        members = dict(archive)
    np.savez(path, **(members | {"y": np.asarray(labels, dtype=np.int8)} | extra))


def check(bunch):
    assert bunch.data.format == "csr"
    assert bunch.data.dtype == np.float64
    assert (bunch.data.toarray() == ROWS).all()
    assert bunch.target.tolist() == LABELS.tolist()
    assert (bunch.n_train, bunch.name) == (3, "tiny")
    assert "2 positives, 3 negatives, 4 features" in bunch.DESCR


class TestWhatIsAccepted:
    def test_plain_text(self, folder):
        write_text(folder)
        check(fetch(data_home=folder))

    @pytest.mark.parametrize(("ending", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
    def test_packed_text(self, folder, ending, pack):
        (folder / f"tiny{ending}").write_bytes(pack(TRAIN))
        (folder / f"tiny.t{ending}").write_bytes(pack(TEST))
        check(fetch(data_home=str(folder)))

    def test_the_parsed_form(self, folder):
        write_npz(folder / "tiny.npz")
        check(fetch(data_home=folder))
        X, y = fetch(data_home=folder, return_X_y=True)
        assert (X.shape, y.tolist()) == ((5, 4), LABELS.tolist())

    @pytest.mark.parametrize("labels", [LABELS, 1 + LABELS, 2 - LABELS])
    def test_classes_are_told_by_their_counts(self, folder, labels):
        # Some of LIBSVM's files call the classes 0 and 1, some 1 and 2, with the positive one first or last.
        write_npz(folder / "tiny.npz", labels=labels)
        check(fetch(data_home=folder))

    def test_indices_may_be_out_of_order(self, folder):
        parts = csr_matrix(ROWS)
        parts.indices[:2], parts.data[:2] = parts.indices[1::-1].copy(), parts.data[1::-1].copy()
        write_npz(folder / "tiny.npz", indices=parts.indices, data=parts.data)
        bunch = fetch(data_home=folder)
        check(bunch)
        assert bunch.data.has_canonical_format


class TestWhereItIsLookedFor:
    def test_the_environment_names_a_folder_that_is_only_read(self, folder, cache, monkeypatch):
        write_text(folder)
        monkeypatch.setenv("TAUFPL_DATA", str(folder))
        check(fetch())
        assert sorted(path.name for path in folder.iterdir()) == ["tiny", "tiny.t"]
        assert (cache / "tiny.npz").is_file()

    def test_data_home_goes_before_the_environment(self, folder, tmp_path, monkeypatch):
        write_npz(folder / "tiny.npz")
        write_npz(tmp_path / "tiny.npz", labels=[1, 1, 1, 1, 1])
        monkeypatch.setenv("TAUFPL_DATA", str(tmp_path))
        check(fetch(data_home=folder))
        with pytest.raises(DatasetError, match="classes of 5 rows"):
            fetch()

    def test_the_cache_comes_last(self, folder, cache):
        write_text(cache)
        check(fetch(data_home=folder))

    def test_home_is_expanded(self, folder, monkeypatch):
        write_text(folder)
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.setenv("USERPROFILE", str(folder.parent))
        check(fetch(data_home="~/data"))

    def test_text_is_parsed_once(self, folder):
        write_text(folder)
        check(fetch(data_home=folder))
        assert sorted(path.name for path in folder.iterdir()) == ["tiny", "tiny.npz", "tiny.t"]
        (folder / "tiny").write_bytes(b"no longer read")
        check(fetch(data_home=folder))

    def test_what_is_kept_opens_with_scipy_too(self, folder):
        from scipy.sparse import load_npz

        write_text(folder)
        fetch(data_home=folder)
        assert (load_npz(folder / "tiny.npz").toarray() == ROWS).all()
        with np.load(folder / "tiny.npz") as archive:
            assert archive["y"].tolist() == (2 * LABELS - 1).tolist()
            assert archive["n_train"] == 3

    def test_a_write_that_fails_leaves_nothing(self, folder, monkeypatch):
        def full_disk(*names):
            raise OSError(28, "No space left on device")

        write_text(folder)
        monkeypatch.setattr("os.replace", full_disk)
        check(fetch(data_home=folder))
        assert sorted(path.name for path in folder.iterdir()) == ["tiny", "tiny.t"]

    def test_a_cache_that_cannot_be_written_is_no_error(self, folder, cache, monkeypatch):
        write_text(folder)
        monkeypatch.setenv("TAUFPL_DATA", str(folder))
        cache.parent.mkdir()
        cache.write_text("in the way")
        check(fetch())
        assert cache.read_text() == "in the way"


class TestWhatIsRefused:
    def test_nothing_there(self, folder, cache):
        with pytest.raises(DatasetError) as caught:
            fetch(data_home=folder)
        message = str(caught.value)
        assert "tiny is not at hand, and downloading is switched off" in message
        assert (
            "put tiny and tiny.t from https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/ (plain" in message
        )
        assert f"or tiny.npz, into {folder} or {cache}" in message
        assert "TAUFPL_DATA" in message
        assert isinstance(caught.value, OSError)

    def test_one_file_of_two(self, folder):
        (folder / "tiny").write_bytes(TRAIN)
        with pytest.raises(DatasetError, match="not at hand"):
            fetch(data_home=folder)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (TRAIN.replace(b"0.5", b"0.6"), r"not the file that LIBSVM publishes: sha256:\w+, not sha256:\w+"),
            (TRAIN[:-20], r"not the file|no complete file"),
            (b"<html>Sign in</html>", "no complete file in LIBSVM's format"),
            (TRAIN.replace(b"4:7", b"5:7"), "no complete file in LIBSVM's format"),
            (TRAIN.replace(b"1:-1", b"0:-1"), "no complete file in LIBSVM's format"),
        ],
    )
    def test_another_text(self, folder, content, message):
        write_text(folder, train=content)
        with pytest.raises(DatasetError, match=f"{re.escape(str(folder / 'tiny'))} is .*(?:{message})"):
            fetch(data_home=folder)
        assert not (folder / "tiny.npz").exists()

    @pytest.mark.parametrize(("ending", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
    def test_half_a_packed_text(self, folder, ending, pack):
        (folder / f"tiny{ending}").write_bytes(pack(TRAIN)[:-9])
        (folder / "tiny.t").write_bytes(TEST)
        with pytest.raises(DatasetError, match="no complete file"):
            fetch(data_home=folder)

    def test_rows_are_counted_where_there_is_no_checksum(self, folder, offer):
        files = (TextFile("tiny", 3), TextFile("tiny.t", 2))
        offer(DatasetInfo("tiny", "", 2, 3, 4, files))
        write_text(folder, train=TRAIN + b"+1 1:1\n")
        with pytest.raises(DatasetError, match=r"tiny has 4 rows, not 3"):
            fetch(data_home=folder)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rows": ROWS[:, :3]}, r"shape \(5, 3\) with 5 labels, but tiny has shape \(5, 4\)"),
            ({"rows": ROWS[:4], "labels": [1, -1, -1, -1]}, r"shape \(4, 4\)"),
            ({"labels": [1, -1, -1, -1]}, "with 4 labels"),
            ({"labels": [1, -1, -1, -1, -1]}, "classes of 4 and 1 rows, but tiny has 2 positives and 3 negatives"),
            ({"labels": [1, 0, -1, -1, -1]}, "classes of 3 and 1 and 1 rows"),
            ({"rows": np.where(ROWS == 7, np.nan, ROWS)}, "not finite"),
            ({"indices": np.array([0, 2, 1, 0, 1, 9, 3, 2])}, "damaged or has another layout"),
            ({"indptr": np.array([0, 2])}, "damaged or has another layout"),
            ({"y": np.array([{}], dtype=object)}, "damaged or has another layout"),
        ],
    )
    def test_another_parsed_form(self, folder, change, message):
        write_npz(folder / "tiny.npz", **change)
        with pytest.raises(DatasetError, match=message):
            fetch(data_home=folder)

    @pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
    def test_half_a_parsed_form(self, folder, keep):
        write_npz(folder / "tiny.npz")
        whole = (folder / "tiny.npz").read_bytes()
        (folder / "tiny.npz").write_bytes(whole[: int(keep if keep > 1 else keep * len(whole))])
        with pytest.raises(DatasetError, match=r"tiny\.npz is damaged or has another layout .* Remove it\."):
            fetch(data_home=folder)

    def test_labels_are_missing(self, folder):
        save_npz(folder / "tiny.npz", csr_matrix(ROWS))
        with pytest.raises(DatasetError, match=r"damaged or has another layout \(KeyError: .*y"):
            fetch(data_home=folder)

    def test_a_damaged_cache_is_made_again_from_the_text(self, folder):
        write_text(folder)
        (folder / "tiny.npz").write_bytes(b"half")
        check(fetch(data_home=folder))
        (folder / "tiny").unlink()
        check(fetch(data_home=folder))


class TestRegistry:
    def test_unknown_names(self):
        with pytest.raises(ValueError, match=r"one of a9a, .*w8a, got 'W9A'\. Did you mean 'w8a'\?"):
            fetch_libsvm("W9A")
        with pytest.raises(ValueError, match=r"got 'zzzzzz'\.$"):
            fetch_libsvm("zzzzzz")

    def test_entries_agree_with_themselves(self):
        assert set(LIBSVM_DATASETS) >= {"heart", "breast-cancer", "spambase", "w8a", "real-sim", "a9a", "ijcnn1"}
        for name, info in LIBSVM_DATASETS.items():
            assert info.name == name
            # The positive class is told by its count.
            assert info.n_positive != info.n_negative
            if info.files:
                assert sum(file.n_rows for file in info.files) == info.shape[0]
            for file in info.files:
                for checksum in filter(None, (file.text_checksum, file.packed_checksum)):
                    kind, _, value = checksum.partition(":")
                    assert re.fullmatch(r"[0-9a-f]+", value)
                    assert len(value) == {"sha256": 64, "md5": 32}[kind]

    def test_the_table_in_the_docstring(self):
        lines = [line.split() for line in fetch_libsvm.__doc__.splitlines()]
        rows = {line[0]: line[1:] for line in lines if line and line[0] in LIBSVM_DATASETS}
        assert set(rows) == set(LIBSVM_DATASETS) - {"tiny"}
        for name, (positives, negatives, features, *held_to) in rows.items():
            info = LIBSVM_DATASETS[name]
            expected = [f"{count:,}" for count in (info.n_positive, info.n_negative, info.n_features)]
            assert [positives, negatives, features] == expected
            if info.files:
                assert (held_to[0] == "shape") == info.checked_by.startswith("shape")
