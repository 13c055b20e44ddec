"""The demo runs, and a missing extra is named."""

import pytest

from taufpl import demo
from taufpl._extras import require


def test_demo_prints_a_table_and_draws_a_picture(tmp_path, capsys):
    demo.main(str(tmp_path))
    printed = capsys.readouterr().out
    assert "TauFPLClassifier" in printed
    assert "yes" in printed.split("\nTauFPLClassifier")[1].splitlines()[0]
    assert (tmp_path / "screening.png").stat().st_size > 10_000


def test_a_missing_extra_is_named():
    with pytest.raises(ImportError, match=r"needed to dream.*pip install 'taufpl\[plot\]'"):
        require("no_such_module.at_all", "plot", "to dream")
