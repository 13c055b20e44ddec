"""Data sets: three in the package, those of LIBSVM's collection by name, and generators.

LIBSVM's are loaded from `taufpl.paper` when they are first asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand
from taufpl.datasets._generate import make_scaling, make_screening, make_text, upsample
from taufpl.datasets._shipped import load_breast_cancer, load_heart, load_spambase

if TYPE_CHECKING:
    from taufpl.paper import LIBSVM_DATASETS, DatasetInfo, fetch_libsvm

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

__getattr__ = on_demand(__name__, {"taufpl.paper": ["LIBSVM_DATASETS", "DatasetInfo", "fetch_libsvm"]})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
