"""LIBSVM's data sets by name: from the package, from a folder, or from the network."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from taufpl._checks import did_you_mean
from taufpl._files import written_whole
from taufpl._types import Array
from taufpl.datasets import load_breast_cancer, load_heart, load_spambase
from taufpl.exceptions import DatasetError

LIBSVM_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True)
class TextFile:
    """One file as LIBSVM publishes it: its name once unpacked, and, in `packing`, what it ends with at the source.

    Checksums are of the form ``"sha256:..."`` or ``"md5:..."``, None if not known.
    """

    name: str
    n_rows: int
    text_checksum: str | None = None
    packed_checksum: str | None = None
    packing: str = ""

    @property
    def download_checksum(self) -> str | None:
        """Checksum of the bytes that the source sends."""
        return self.packed_checksum if self.packing else self.text_checksum


@dataclass(frozen=True)
class DatasetInfo:
    """A data set: its shape, its class counts, and the files that it is made of.

    Attributes
    ----------
    name : str
    about : str
        Description of rows and features, and of the positive class.
    n_positive, n_negative, n_features : int
        Counts that a loaded set must have. They also tell which class is positive where its label is the smaller one.
    files : tuple of TextFile
        Joined in this order. Empty for sets that the package contains.
    """

    name: str
    about: str
    n_positive: int
    n_negative: int
    n_features: int
    files: tuple[TextFile, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_positive + self.n_negative, self.n_features

    @property
    def n_train(self) -> int:
        """Rows of the first file; all rows if there is but one."""
        return self.files[0].n_rows if self.files else self.shape[0]

    @property
    def checked_by(self) -> str:
        """The checks that a download must pass."""
        known = all(file.text_checksum or file.packed_checksum for file in self.files)
        return "checksum, shape and class counts" if known else "shape and class counts alone"


def _info(name: str, counts: tuple[int, int, int], about: str, *files: TextFile) -> DatasetInfo:
    return DatasetInfo(name, about, *counts, files)


# The checksums of w8a, a9a and phishing were computed from the files themselves, those of the others were published by
# other projects that use them. Class counts of covtype, mushrooms and skin_nonskin are those of the originals at UCI.
_SETS = {
    info.name: info
    for info in (
        _info("heart", (120, 150, 13), "Statlog heart, 13 features scaled to [-1, 1]; positive: heart disease"),
        _info(
            "breast-cancer",
            (239, 444, 10),
            "Wisconsin breast cancer (original), sample number first, scaled to [-1, 1]; positive: malignant",
        ),
        _info("spambase", (1813, 2788, 57), "e-mails, raw frequencies of words and characters; positive: spam"),
        _info(
            "w8a",
            (1933, 62767, 300),
            "web pages, presence of 300 keywords; positive: label +1, pages of one category",
            TextFile("w8a", 49749, "sha256:6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
            TextFile("w8a.t", 14951, "sha256:618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde"),
        ),
        _info(
            "real-sim",
            (22238, 50071, 20958),
            "articles from discussion groups on real and simulated cars and aircraft, weighted words; "
            "positive: label +1",
            TextFile(
                "real-sim",
                72309,
                "sha256:0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270",
                "sha256:7cd52374f55ce62e803ef33ca1c44689427c23d481eff64026f8ba9f53b8cc27",
                ".bz2",
            ),
        ),
        _info(
            "a9a",
            (11687, 37155, 123),
            "census records (UCI Adult) in binary features; positive: income above 50,000 dollars",
            TextFile("a9a", 32561, "sha256:f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
            TextFile("a9a.t", 16281, "sha256:1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
        ),
        _info(
            "phishing",
            (6157, 4898, 68),
            "web sites, properties in binary features; positive: label 1",
            TextFile("phishing", 11055, "sha256:0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
        ),
        _info(
            "ijcnn1",
            (13565, 128126, 22),
            "the IJCNN 2001 challenge, with its winner's features; positive: label +1",
            TextFile(
                "ijcnn1",
                49990,
                "sha256:16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
                "md5:c3e9162f8e38e0b6c0e02d313a59de2b",
                ".bz2",
            ),
            TextFile("ijcnn1.t", 91701, None, "md5:66433ab8089acee9e56dc61ac89a2fe2", ".bz2"),
        ),
        _info(
            "rcv1",
            (10491, 9751, 47236),
            "Reuters news, weighted words, the training part; positive: corporate, industrial and economic topics",
            TextFile("rcv1_train.binary", 20242, None, "md5:1aeda848408e621468c0fe6944d9382f", ".bz2"),
        ),
        _info(
            "cod-rna",
            (110384, 220768, 8),
            "pairs of RNA sequences, 8 features; positive: label +1, non-coding RNA",
            TextFile("cod-rna", 59535, "md5:cd14eab76f391e288e6e8e592ae658dd"),
            TextFile("cod-rna.t", 271617, "md5:b876c22c86a33ef262342b12d2718655"),
        ),
        _info(
            "covtype",
            (283301, 297711, 54),
            "patches of forest, cartographic features scaled to [0, 1]; positive: lodgepole pine",
            TextFile("covtype.libsvm.binary.scale", 581012, None, "md5:d95f45e15c284005c2c7a4c82e4be102", ".bz2"),
        ),
        _info(
            "mushrooms",
            (3916, 4208, 112),
            "mushrooms, properties in binary features; positive: poisonous",
            TextFile("mushrooms", 8124, "sha256:f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
        ),
        _info(
            "skin_nonskin",
            (50859, 194198, 3),
            "pixels of faces and of other images, blue, green and red; positive: skin",
            TextFile("skin_nonskin", 245057),
        ),
    )
}

LIBSVM_DATASETS: Mapping[str, DatasetInfo] = MappingProxyType(_SETS)

# Loaders of the sets that the package contains.
SHIPPED: dict[str, Callable[..., Any]] = {
    "heart": load_heart,
    "breast-cancer": load_breast_cancer,
    "spambase": load_spambase,
}

_OPENERS: dict[str, Any] = {"": open, ".bz2": bz2.open, ".xz": lzma.open}
# Exceptions that reading a damaged file may raise; packed text and archives have their own.
_DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)

# Features in CSR, and labels 0 and 1.
LabelledRows = tuple[Any, Array]


def find_text(file: TextFile, folder: Path) -> Path | None:
    """Path of a file in a folder, under its own name or packed; None if it is not there."""
    candidates = (folder / f"{file.name}{ending}" for ending in _OPENERS)
    return next((path for path in candidates if path.is_file()), None)


def read_text(info: DatasetInfo, paths: list[Path]) -> LabelledRows:
    """Parse the files of a data set and join them."""
    parts = [_parse(info, file, path) for file, path in zip(info.files, paths, strict=True)]
    data = vstack([data for data, _ in parts], format="csr")
    where = " and ".join(str(path) for path in paths)
    return _check(info, csr_matrix(data), np.concatenate([labels for _, labels in parts]), where)


def read_parsed(info: DatasetInfo, path: Path) -> LabelledRows:
    """Read what SciPy's ``save_npz`` writes, with the labels beside it under the key ``y``."""
    try:
        # NumPy leaves a file open that turns out to be no archive, unless it was given an open one.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = (archive["data"].astype(np.float64, copy=False), archive["indices"], archive["indptr"])
            data = csr_matrix(arrays, shape=tuple(int(size) for size in archive["shape"]))
            labels = archive["y"]
        data.check_format(full_check=True)
    except _DAMAGE as error:
        raise DatasetError(f"{path} is damaged or has another layout ({_reason(error)}). Remove it.") from error
    return _check(info, data, labels, str(path))


def write_parsed(info: DatasetInfo, rows: LabelledRows, folder: Path) -> None:
    """Keep the parsed form for the next call, whole or not at all."""
    data, target = rows
    # Where it cannot be written, the next call parses the text again.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(folder / f"{info.name}.npz") as draft, draft.open("xb") as stream:
            np.savez_compressed(
                stream,
                data=data.data,
                indices=data.indices,
                indptr=data.indptr,
                shape=np.array(data.shape),
                format=np.array(b"csr"),
                y=(2 * target - 1).astype(np.int8),
                n_train=np.array(info.n_train),
            )


def new_digest(checksum: str) -> Any:
    """The hash that a checksum of the form ``"sha256:..."`` was made with."""
    return hashlib.new(checksum.partition(":")[0], usedforsecurity=False)


class _Lines:
    """Lines of a file, hashed while they are parsed, since unpacking the file twice would be slow."""

    def __init__(self, stream: BinaryIO, digest: Any) -> None:
        self._stream = stream
        self._digest = digest
        self.read = stream.read  # the parser only asks whether there is such a method

    def __iter__(self) -> Iterator[bytes]:
        for line in self._stream:
            self._digest.update(line)
            yield line


def _parse(info: DatasetInfo, file: TextFile, path: Path) -> tuple[Any, Array]:
    expected = file.text_checksum
    digest = new_digest(expected or "sha256:")
    try:
        with _OPENERS[path.suffix if path.suffix in _OPENERS else ""](path, "rb") as stream:
            data, labels = load_svmlight_file(_Lines(stream, digest), n_features=info.n_features, zero_based=False)
    except _DAMAGE as error:
        raise DatasetError(f"{path} is no complete file in LIBSVM's format ({_reason(error)}). Remove it.") from error
    found = f"{digest.name}:{digest.hexdigest()}"
    if expected is not None and found != expected:
        raise DatasetError(f"{path} is not the file that LIBSVM publishes: {found}, not {expected}. Remove it.")
    if data.shape[0] != file.n_rows:
        raise DatasetError(f"{path} has {data.shape[0]:,} rows, not {file.n_rows:,}. Remove it.")
    return data, labels


def _check(info: DatasetInfo, data: Any, labels: Array, where: str) -> LabelledRows:
    """Check shape and class counts against the known ones, and tell the positive class by its count."""
    if data.shape != info.shape or labels.shape != info.shape[:1]:
        raise DatasetError(
            f"{where}: shape {data.shape} with {labels.size:,} labels, but {info.name} has shape {info.shape}. "
            "Remove it."
        )
    if not np.isfinite(data.data).all():
        raise DatasetError(f"{where}: some values are not finite numbers. Remove it.")
    values, counts = np.unique(labels, return_counts=True)
    classes = dict(zip(counts.tolist(), values.tolist(), strict=True))
    if sorted(counts.tolist()) != sorted((info.n_positive, info.n_negative)):
        raise DatasetError(
            f"{where}: classes of {' and '.join(f'{count:,}' for count in counts)} rows, but {info.name} has "
            f"{info.n_positive:,} positives and {info.n_negative:,} negatives. Remove it."
        )
    data.sum_duplicates()
    return data, (labels == classes[info.n_positive]).astype(np.int64)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# Told the bytes that have arrived, and all there are, if the server says so.
Show = Callable[[int, int | None], None]

_BLOCK_BYTES = 1 << 17
_SECONDS_WITHOUT_A_BYTE = 30.0
# Tries in a row that bring nothing new; the pause before each is twice the one before.
_TRIES = 4
_PAUSE_SECONDS = 0.25
# Answers that may be different a moment later: request timeout, too early, too many requests; and all errors from 500.
_PASSING = {408, 425, 429}


class _PassingError(Exception):
    """The server or the connection failed; asking again may help."""


def download(url: str, path: Path, checksum: str | None, *, progress: bool = True) -> None:
    """Fetch a file: under the name ``path`` lies the whole of it, or nothing.

    What has arrived lies beside it, with the ending ``.part``, and a later call goes on from there. Processes that want
    files in the same folder, which is made if need be, wait for each other. The checksum is of the form
    ``"sha256:..."`` or ``"md5:..."``. Progress is a line on standard error, if that is a terminal and the download
    takes more than a second. A file that cannot be had or written, or is not the right one, is a DatasetError.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _folder_lock(path.parent):
            if path.exists():
                return
            # A part that was there may be the beginning of another version: then all is fetched again.
            for _ in range(2 if part.exists() else 1):
                _fetch_part(url, part, progress)
                found = _checksum(part, checksum)
                if found == checksum:
                    os.replace(part, path)
                    return
                part.unlink()
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(f"{path} could not be written ({error}).") from error
    raise DatasetError(f"{url} sent a file with the checksum {found}, but it should be {checksum}.")


def _fetch_part(url: str, part: Path, progress: bool) -> None:
    """Ask until everything is there, or until several tries in a row bring nothing new."""
    most, idle = _size(part), 0
    with _progress_line(part.name.removesuffix(".part"), progress) as show:
        while True:
            try:
                return _receive(url, part, show)
            except _PassingError as error:
                reason = str(error)
            size = _size(part)
            most, idle = max(most, size), 0 if size > most else idle + 1
            if idle == _TRIES:
                raise DatasetError(f"{url} could not be read: {reason}.")
            time.sleep(_PAUSE_SECONDS * 2**idle)


def _receive(url: str, part: Path, show: Show) -> None:
    """Send one request, from where the last answer ended; an answer that does not continue it starts again."""
    done = _size(part)
    with _ask(url, done) as response:
        is_continued = response.status == 206
        if response.status == 416 or (
            is_continued and not response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        ):
            part.unlink(missing_ok=True)
            raise _PassingError("the server answered with another part than the one that was asked for")
        done = done if is_continued else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else None
        with part.open("ab" if is_continued else "wb") as stream:
            for block in _blocks(response):
                stream.write(block)
                done += len(block)
                show(done, total)
    if total is not None and done != total:
        raise _PassingError(f"the connection ended after {done:,} of {total:,} bytes")


def _ask(url: str, start: int) -> Any:
    # A server that compressed the bytes on the way would change where the next part begins.
    headers = {"User-Agent": "taufpl", "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(Request(url, headers=headers), timeout=_SECONDS_WITHOUT_A_BYTE)
    except HTTPError as error:
        if error.code == 416:
            return error
        with error:
            if error.code in _PASSING or error.code >= 500:
                raise _PassingError(f"the server answered {error.code} {error.reason}") from error
            raise DatasetError(f"{url} could not be read: the server answered {error.code} {error.reason}.") from error
    except (OSError, HTTPException) as error:
        raise _PassingError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    except ValueError as error:
        raise DatasetError(f"{url} is no address: {error}.") from error


def _blocks(response: Any) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK_BYTES):
            yield block
    except (OSError, HTTPException) as error:
        raise _PassingError(str(error) or type(error).__name__) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _checksum(path: Path, like: str | None) -> str | None:
    """The checksum of a file by the hash of another one; None if there is none to compare with."""
    if like is None:
        return None
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: new_digest(like))
    return f"{digest.name}:{digest.hexdigest()}"


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system releases it when a process dies, so that it is never left behind."""
    with (folder / ".lock").open("ab") as handle:
        if sys.platform == "win32":
            import msvcrt

            is_locked = False
            while not is_locked:
                with suppress(OSError):  # each call gives up after ten seconds
                    handle.seek(0)
                    msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
                    is_locked = True
        else:
            import fcntl

            with suppress(OSError):  # some network folders have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _progress_line(name: str, wanted: bool) -> Iterator[Show]:
    """A line on the terminal, written once a download takes more than a second, and five times a second at most."""
    due = time.monotonic() + 1.0 if wanted and sys.stderr.isatty() else float("inf")
    end = ""

    def show(done: int, total: int | None) -> None:
        nonlocal due, end
        if time.monotonic() >= due:
            share = f" of {total / 1e6:.1f} MB ({done / total:.0%})" if total else " MB"
            print(f"\r{name}: {done / 1e6:.1f}{share}", end="", file=sys.stderr, flush=True)
            due, end = time.monotonic() + 0.2, "\n"

    try:
        yield show
    finally:
        print(end=end, file=sys.stderr)


def fetch_libsvm(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    progress: bool = True,
    base_url: str | None = None,
) -> Bunch | tuple[Any, Any]:
    """Load a data set of LIBSVM's collection by name; download it if it is not at hand.

    ==============  =========  =========  ========  ==================================================
    name            positives  negatives  features  checked by
    ==============  =========  =========  ========  ==================================================
    heart                 120        150        13  in the package (heart_scale)
    breast-cancer         239        444        10  in the package (breast-cancer_scale)
    spambase            1,813      2,788        57  in the package (not LIBSVM's, but UCI's)
    w8a                 1,933     62,767       300  checksum; w8a, then w8a.t
    real-sim           22,238     50,071    20,958  checksum
    a9a                11,687     37,155       123  checksum; a9a, then a9a.t
    phishing            6,157      4,898        68  checksum
    ijcnn1             13,565    128,126        22  checksum; ijcnn1, then ijcnn1.t
    rcv1               10,491      9,751    47,236  checksum; the training part
    cod-rna           110,384    220,768         8  checksum; cod-rna, then cod-rna.t
    covtype           283,301    297,711        54  checksum; covtype.libsvm.binary.scale
    mushrooms           3,916      4,208       112  checksum
    skin_nonskin       50,859    194,198         3  shape and class counts alone
    ==============  =========  =========  ========  ==================================================

    Shape and class counts are checked in every case. Checksums are those of the published files, so that data in
    the parsed form are not checked by them. `LIBSVM_DATASETS` holds all of this.

    Parameters
    ----------
    name : str
        One of the above.
    data_home : str or path, default=None
        Folder to look in first, and to write to. If None, the folder that the environment variable ``TAUFPL_DATA``
        names is looked in first, if it is set, and the user's cache is written to.
    download_if_missing : bool, default=True
        If False, data that are not at hand are an error.
    return_X_y : bool, default=False
        Return (data, target) alone.
    progress : bool, default=True
        Show a line of progress if standard error is a terminal.
    base_url : str, default=None
        Address of the folder to download from, such as a mirror; LIBSVM's own if None.

    Returns
    -------
    data : Bunch
        With `data` (CSR matrix of float64), `target` (0 and 1), `n_train` (rows of the first file, where a training
        and a test file are joined; otherwise all), `name` and `DESCR`. If `return_X_y`, the pair (data, target).

    Raises
    ------
    DatasetError
        If the data cannot be had or are not what they should be; the message says which file belongs where.
    ValueError
        If the name is not known.

    Notes
    -----
    Folders are searched in this order: `data_home`, or else ``TAUFPL_DATA``; then the user's cache, which is
    ``taufpl`` in ``XDG_CACHE_HOME``, in ``LOCALAPPDATA`` on Windows, or in ``~/.cache``. Data may lie there as

    - the files that LIBSVM publishes, under their names, plain or packed (``.bz2``, ``.xz``); or
    - ``<name>.npz``, what `scipy.sparse.save_npz` writes with the labels (-1 and 1) beside it under the key ``y``.

    Downloads, and text once it is parsed (as ``<name>.npz``), are kept in `data_home` if it is given, and otherwise in
    the cache. Nothing is ever written to the folder that ``TAUFPL_DATA`` names.

    Examples
    --------
    >>> from taufpl.datasets import fetch_libsvm
    >>> heart = fetch_libsvm("heart")
    >>> heart.data.shape, heart.data.format, int(heart.target.sum())
    ((270, 13), 'csr', 120)
    >>> fetch_libsvm("hart")
    Traceback (most recent call last):
    ...
    ValueError: name must be one of a9a, breast-cancer, ..., got 'hart'. Did you mean 'heart'?
    """
    if name not in LIBSVM_DATASETS:
        known = ", ".join(sorted(LIBSVM_DATASETS))
        raise ValueError(f"name must be one of {known}, got {name!r}.{did_you_mean(str(name), LIBSVM_DATASETS)}")
    info = LIBSVM_DATASETS[name]
    if not info.files:
        shipped = SHIPPED[name]()
        data, target, description = csr_matrix(shipped.data), shipped.target, shipped.DESCR
    else:
        base_url = (base_url or LIBSVM_URL) if download_if_missing else None
        folders = _search_order(data_home)
        # A folder that the environment names may be shared by many, and is only read.
        home = folders[0] if data_home else folders[-1]
        data, target = _from_folders(info, folders, home, base_url, progress)
        description = _describe(info)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, n_train=info.n_train, name=info.name, DESCR=description)


def _search_order(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """Folders to look in: `data_home`, or the one that the environment names, then the user's cache."""
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    cache = (Path(named) if named else Path.home() / ".cache") / "taufpl"
    first = data_home or os.environ.get("TAUFPL_DATA")
    return [Path(first).expanduser(), cache] if first else [cache]


def _from_folders(
    info: DatasetInfo, folders: list[Path], home: Path, base_url: str | None, progress: bool
) -> LabelledRows:
    """Read a data set from the first folder that has it, or download it; only `home` is written to."""
    texts = next(filter(None, (_texts(info, folder) for folder in folders)), None)
    try:
        for parsed in (folder / f"{info.name}.npz" for folder in folders):
            # A damaged file does no harm where the text is still at hand.
            with suppress(DatasetError) if texts else nullcontext():
                if parsed.is_file():
                    return read_parsed(info, parsed)
        if texts:
            rows = read_text(info, texts)
        elif base_url is not None:
            rows = _from_network(info, home, base_url, progress)
        else:
            raise DatasetError(f"{info.name} is not at hand, and downloading is switched off.")
    except DatasetError as error:
        raise DatasetError(f"{error} {_advice(info, folders)}") from error
    write_parsed(info, rows, home)
    return rows


def _texts(info: DatasetInfo, folder: Path) -> list[Path] | None:
    """Paths of all files of a set, if a folder has them all."""
    paths = [path for path in (find_text(file, folder) for file in info.files) if path]
    return paths if len(paths) == len(info.files) else None


def _from_network(info: DatasetInfo, home: Path, base_url: str, progress: bool) -> LabelledRows:
    paths, unproven = [], []
    for file in info.files:
        path = find_text(file, home)
        if path is None:
            path = home / f"{file.name}{file.packing}"
            download(f"{base_url.rstrip('/')}/{path.name}", path, file.download_checksum, progress=progress)
            unproven += [path] if file.download_checksum is None else []
        paths.append(path)
    try:
        return read_text(info, paths)
    except DatasetError:
        # A file without a checksum may be the page of a sign-in portal, which must not stay under this name.
        for path in unproven:
            path.unlink(missing_ok=True)
        raise


def _advice(info: DatasetInfo, folders: list[Path]) -> str:
    names = " and ".join(file.name for file in info.files)
    places = " or ".join(str(folder) for folder in folders)
    return (
        f"To load {info.name}, put {names} from {LIBSVM_URL} (plain, .bz2 or .xz), or {info.name}.npz, into {places}, "
        "or into a folder that data_home or the environment variable TAUFPL_DATA names."
    )


def _describe(info: DatasetInfo) -> str:
    origin = "\n".join(f"    {LIBSVM_URL}{file.name}{file.packing}, {file.n_rows:,} rows" for file in info.files)
    return (
        f"{info.name}: {info.about}.\n\n{info.n_positive:,} positives, {info.n_negative:,} negatives, "
        f"{info.n_features:,} features. From LIBSVM's collection, checked by {info.checked_by}:\n\n{origin}\n"
    )
