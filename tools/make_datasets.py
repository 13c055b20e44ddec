"""Rebuild the data files that ``taufpl.datasets`` ships, from three Debian packages.

::

    python tools/make_datasets.py            # downloads the packages with apt-get, writes the files
    python tools/make_datasets.py --check    # compares instead of writing; exits with 1 where a file differs
    python tools/make_datasets.py --packages FOLDER    # takes the .deb files from there

It needs a Debian system, numpy, pandas and pyreadr, none of which the files need once they are built. Every source is
checked before it is written: heart_scale by its bytes, the other two by their shape, class counts and column names.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyreadr

FOLDER = Path(__file__).resolve().parents[1] / "src" / "taufpl" / "datasets" / "data"

HEART_SHA256 = "5defa0a4c4c5bdaf3f55ae3828310252e8565c13ee37ce279e0b86d82e7f4ce9"
HEART_NAMES = [
    "age",
    "sex",
    "chest_pain_type",
    "resting_blood_pressure",
    "serum_cholesterol",
    "fasting_blood_sugar",
    "resting_ecg",
    "max_heart_rate",
    "exercise_angina",
    "oldpeak",
    "st_slope",
    "major_vessels",
    "thal",
]

# Columns as mlbench names them, and as the repository at UCI describes them.
BREAST_CANCER_NAMES = {
    "Id": "sample_number",
    "Cl.thickness": "clump_thickness",
    "Cell.size": "cell_size_uniformity",
    "Cell.shape": "cell_shape_uniformity",
    "Marg.adhesion": "marginal_adhesion",
    "Epith.c.size": "epithelial_cell_size",
    "Bare.nuclei": "bare_nuclei",
    "Bl.cromatin": "bland_chromatin",
    "Normal.nucleoli": "normal_nucleoli",
    "Mitoses": "mitoses",
}

# kernlab's names of the columns that are not shares of words; words lose the prefix "num" that R needs before digits.
SPAM_NAMES = {
    "charSemicolon": "char_freq_;",
    "charRoundbracket": "char_freq_(",
    "charSquarebracket": "char_freq_[",
    "charExclamation": "char_freq_!",
    "charDollar": "char_freq_$",
    "charHash": "char_freq_#",
    "capitalAve": "capital_run_length_average",
    "capitalLong": "capital_run_length_longest",
    "capitalTotal": "capital_run_length_total",
}


def main() -> int:
    """Build all three files; with ``--check``, compare them with those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--packages", type=Path, help="folder that holds the .deb files")
    options = parser.parse_args()
    differs = False
    with tempfile.TemporaryDirectory() as scratch:
        packages = options.packages or download(Path(scratch))
        for name, build in (("heart", heart), ("breast_cancer", breast_cancer), ("spambase", spambase)):
            text = as_csv(*build(packages)).encode()
            path = FOLDER / f"{name}.csv.gz"
            same = path.exists() and gzip.decompress(path.read_bytes()) == text
            differs |= not same
            if not options.check:
                path.write_bytes(gzip.compress(text, 9, mtime=0))
            print(f"{name:14} {path.stat().st_size:8,} bytes  {'same' if same else 'DIFFERS from before'}")
    return int(options.check and differs)


def download(folder: Path) -> Path:
    """Fetch the packages into a folder."""
    for package in ("liblinear-tools", "r-cran-mlbench", "r-cran-kernlab"):
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
    return folder


def member(packages: Path, package: str, path: str) -> bytes:
    """One file of a package."""
    (deb,) = packages.glob(f"{package}_*.deb")
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        stream = tar.extractfile(f"./{path}")
        assert stream is not None, f"{path} is not a file of {deb}"
        return stream.read()


def heart(packages: Path) -> tuple[list[str], Any, Any]:
    """heart_scale: sparse text, in which what is left out is 0."""
    text = member(packages, "liblinear-tools", "usr/share/doc/liblinear-tools/examples/heart_scale")
    assert hashlib.sha256(text).hexdigest() == HEART_SHA256, "heart_scale is not the file that LIBSVM publishes"
    lines = [line.split() for line in text.decode().splitlines()]
    X = np.zeros((len(lines), len(HEART_NAMES)))
    for row, (_, *entries) in zip(X, lines, strict=True):
        for entry in entries:
            column, value = entry.split(":")
            row[int(column) - 1] = float(value)
    y = np.array([label == "+1" for label, *_ in lines])
    assert (X.shape, y.sum()) == ((270, 13), 120)
    return HEART_NAMES, X, y


def breast_cancer(packages: Path) -> tuple[list[str], Any, Any]:
    """BreastCancer without its incomplete rows, in its order."""
    frame = r_object(packages, "mlbench", "BreastCancer").dropna()
    assert list(frame.columns) == [*BREAST_CANCER_NAMES, "Class"], list(frame.columns)
    X = frame[list(BREAST_CANCER_NAMES)].astype(str).astype(float).to_numpy()
    y = (frame["Class"] == "malignant").to_numpy()
    assert (X.shape, y.sum()) == ((683, 10), 239)
    return list(BREAST_CANCER_NAMES.values()), X, y


def spambase(packages: Path) -> tuple[list[str], Any, Any]:
    """Kernlab's spam, in its order, under the names of the original."""
    frame = r_object(packages, "kernlab", "spam")
    columns = [str(column) for column in frame.columns[:-1]]
    assert columns[48:] == list(SPAM_NAMES), columns
    names = [SPAM_NAMES.get(column, f"word_freq_{column.removeprefix('num')}") for column in columns]
    X, y = frame[columns].to_numpy(), (frame["type"] == "spam").to_numpy()
    assert (X.shape, y.sum()) == ((4601, 57), 1813)
    return names, X, y


def r_object(packages: Path, package: str, name: str) -> Any:
    """A data frame of an R package."""
    with tempfile.NamedTemporaryFile(suffix=".rda") as file:
        file.write(member(packages, f"r-cran-{package}", f"usr/lib/R/site-library/{package}/data/{name}.rda"))
        file.flush()
        return pyreadr.read_r(file.name)[name]


def as_csv(names: list[str], X: Any, y: Any) -> str:
    """Text with a header; every number in the fewest digits that give it back."""
    lines = [",".join([*names, "target"])]
    for row, label in zip(X, y, strict=True):
        lines.append(",".join([*(repr(float(value)).removesuffix(".0") for value in row), str(int(label))]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
