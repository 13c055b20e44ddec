"""LIBSVM's data sets by name: from the package, from a folder, or from the network."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from taufpl.datasets import _shipped
from taufpl.datasets._download import download
from taufpl.datasets._files import LabelledRows, find_text, read_parsed, read_text, write_parsed
from taufpl.datasets._registry import LIBSVM_URL, DatasetInfo, find_info
from taufpl.exceptions import DatasetError


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
    info = find_info(name)
    if not info.files:
        data, target = _from_package(info)
    else:
        base_url = (base_url or LIBSVM_URL) if download_if_missing else None
        folders = _search_order(data_home)
        # A folder that the environment names may be shared by many, and is only read.
        home = folders[0] if data_home else folders[-1]
        data, target = _from_folders(info, folders, home, base_url, progress)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, n_train=info.n_train, name=info.name, DESCR=_describe(info))


def _user_cache() -> Path:
    named = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "taufpl"


def _from_package(info: DatasetInfo) -> LabelledRows:
    _, X, y = _shipped.read(info.name.replace("-", "_"), scaled=info.name == "breast-cancer")
    return csr_matrix(X), y


def _search_order(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """Folders to look in."""
    first = data_home or os.environ.get("TAUFPL_DATA")
    return [Path(first).expanduser(), _user_cache()] if first else [_user_cache()]


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
    if not info.files:
        return _shipped.describe(info.name.replace("-", "_"))
    origin = "\n".join(f"    {LIBSVM_URL}{file.name}{file.packing}, {file.n_rows:,} rows" for file in info.files)
    return (
        f"{info.name}: {info.about}.\n\n{info.n_positive:,} positives, {info.n_negative:,} negatives, "
        f"{info.n_features:,} features. From LIBSVM's collection, checked by {info.checked_by}:\n\n{origin}\n"
    )
