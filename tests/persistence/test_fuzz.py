"""Model files changed at random: none ends or blocks the process that loads it. `make fuzz` tries many more."""

import sys

import numpy as np
import pytest

from fuzz_cases import models
from fuzzer import run
from taufpl.persistence._state_checks import AUDITED

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of memory and time are those of POSIX")


def kinds(item, found):
    """Types of all estimators that hang on a model."""
    if isinstance(item, dict | list | tuple):
        for each in item.values() if isinstance(item, dict) else item:
            kinds(each, found)
    elif isinstance(item, np.ndarray) and item.dtype.hasobject:
        kinds(item.ravel().tolist(), found)
    elif hasattr(item, "get_params") and id(item) not in found:
        found[id(item)] = item
        kinds(vars(item), found)
    return {type(each) for each in found.values()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_audited_class_is_among_the_models_that_are_changed():
    assert set(AUDITED) <= kinds([model for model, _ in models().values()], {})


@pytest.mark.slow
def test_no_changed_file_ends_the_process():
    found = run(1500, seed=1)
    assert not found.failures
    assert found.outcomes.keys() <= {"refused", "answers", "an error of Python"}
    assert all(found.outcomes[each] > 50 for each in ("refused", "answers", "an error of Python"))


@pytest.mark.slow
def test_without_the_checks_some_files_end_the_process():
    """The fuzzer would notice: the same files, loaded without a look at what they hold."""
    assert run(300, only="Isolation", unchecked=True).failures
