"""Files that are there as a whole or not at all, whoever else writes and whatever ends a process."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from taufpl._files import write_whole


def test_of_two_that_replace_what_they_have_read_one_is_refused(tmp_path, monkeypatch):
    target, ready = tmp_path / "state", Barrier(2)
    replace = os.replace

    def slowly(*names):
        time.sleep(0.2)  # long enough for the other to look at the old file
        replace(*names)

    monkeypatch.setattr(os, "replace", slowly)

    def add(name):
        before = target.read_bytes()
        ready.wait()

        def unchanged():
            if target.read_bytes() != before:
                raise ValueError("another call has written it")

        write_whole(target, before + name, unchanged)

    target.write_bytes(b"0")
    with ThreadPoolExecutor(2) as threads:
        errors = [call.exception() for call in [threads.submit(add, name) for name in (b"a", b"b")]]
    assert sorted(map(str, errors)) == ["None", "another call has written it"]
    assert target.read_bytes() in (b"0a", b"0b")
    assert os.listdir(tmp_path) == ["state"]


KILLED = """
import os, sys
from pathlib import Path
from taufpl._files import written_whole
with written_whole(sys.argv[1]) as draft:
    draft.write_bytes(b"half of it")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(os.name != "posix", reason="a process cannot be asked for without a signal")
def test_what_a_killed_process_has_left_goes_with_the_next_call(tmp_path):
    target = tmp_path / "report.html"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert killed.returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.read_bytes() == b"half of it"
    # Those of a living process, of another machine, and files of the user's stay.
    kept = [left.with_name(left.name.replace(left.name.split("-")[2], str(os.getppid())))]
    kept += [tmp_path / name for name in (".taufpl-elsewhere-1-0123456789abcdef.tmp", ".taufpl-mine.tmp", "x.tmp")]
    for path in kept:
        path.write_bytes(b"mine")
    write_whole(target, b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([target, *kept])
    assert target.read_bytes() == b"whole"
