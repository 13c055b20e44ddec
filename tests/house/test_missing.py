"""The last line of a run: what was not run, and what brings it."""

import re

import pytest

from missing import what_is_missing


@pytest.mark.parametrize(
    ("reasons", "marks", "line"),
    [
        (
            ["Skipped: could not import 'torch': No module named 'torch'", "Skipped: PyTorch is not installed"],
            "",
            r"Not run: 2 for want of PyTorch \(.* -m pip install 'taufpl\[gpu\]'\)\.",
        ),
        (
            [
                "Skipped: no chromedriver on this machine",
                "Skipped: no CUDA device",
                "Skipped: no Chromium on this machine",
            ],
            "not slow",
            r"Not run: 2 for want of Chromium \(apt-get .*\), 1 for want of a CUDA device, slow ones \(.*test-all\)\.",
        ),
        (
            ["Skipped: could not import 'onnx': No module named 'onnx'"],
            "",
            r".*for want of an extra \(.*taufpl\[test\]'\)\.",
        ),
        (["Skipped: no fork here"], "", r"Not run: 1 that do not apply here \(-rs says why\)\."),
    ],
)
def test_one_line_says_what_is_missing_and_what_brings_it(reasons, marks, line):
    (found,) = what_is_missing(reasons, marks)
    assert re.fullmatch(line, found)


def test_nothing_is_said_where_all_was_run():
    assert what_is_missing([]) == []
