"""Data sets: three in the package, those of LIBSVM's collection by name, and generators."""

from taufpl.datasets._download import download as download
from taufpl.datasets._fetch import fetch_libsvm
from taufpl.datasets._generate import make_scaling, make_screening, upsample
from taufpl.datasets._registry import LIBSVM_DATASETS, DatasetInfo, TextFile as TextFile
from taufpl.datasets._shipped import load_breast_cancer, load_heart, load_spambase
from taufpl.datasets._text import make_text

__all__ = [
    "LIBSVM_DATASETS",
    "DatasetInfo",
    "fetch_libsvm",
    "load_breast_cancer",
    "load_heart",
    "load_spambase",
    "make_scaling",
    "make_screening",
    "make_text",
    "upsample",
]
