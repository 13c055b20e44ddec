"""Downloads that can be interrupted: resumed, tried again, checked, and only then given their name."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from taufpl.datasets._files import new_digest
from taufpl.exceptions import DatasetError

_BLOCK = 1 << 17
_SECONDS_WITHOUT_A_BYTE = 30.0
# Tries in a row that bring nothing new; the pause before each is twice the one before.
_TRIES = 4
_PAUSE = 0.25
# Answers that may be different a moment later: request timeout, too many requests, and all errors of the server.
_PASSING = {408, 425, 429}


class _PassingError(Exception):
    """The server or the line gave up; asking again may help."""


def download(url: str, path: Path, checksum: str | None, *, progress: bool = True) -> None:
    """Fetch a file: under the name ``path`` lies the whole of it, or nothing.

    What has arrived so far lies beside it, with the ending ``.part``, and a later call goes on from there. Processes
    that want files in the same folder wait for each other.

    Parameters
    ----------
    url : str
    path : Path
        Where it goes. The folder is made if it is not there.
    checksum : str or None
        What it must have, as ``"sha256:..."`` or ``"md5:..."``.
    progress : bool, default=True
        Write a line to standard error, if that is a terminal and it takes more than a second.

    Raises
    ------
    DatasetError
        If the file cannot be had, or is not the right one, or cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(path.parent):
            if path.exists():
                return
            resumed = part.exists()
            _fill(url, part, progress)
            found = _checksum(part, checksum)
            if found != checksum and resumed:
                # What lay there may have been the beginning of another version.
                part.unlink()
                _fill(url, part, progress)
                found = _checksum(part, checksum)
            if found != checksum:
                part.unlink()
                raise DatasetError(f"{url} sent a file with the checksum {found}, but it should be {checksum}.")
            os.replace(part, path)
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(f"{path} could not be written ({error}).") from error


def _fill(url: str, part: Path, progress: bool) -> None:
    """Ask until everything is there, or until several tries in a row bring nothing new."""
    line = _ProgressLine(part.name.removesuffix(".part"), progress)
    most, idle = _size(part), 0
    try:
        while True:
            try:
                return _receive(url, part, line)
            except _PassingError as error:
                reason = str(error)
            size = _size(part)
            most, idle = max(most, size), 0 if size > most else idle + 1
            if idle == _TRIES:
                raise DatasetError(f"{url} could not be read: {reason}.")
            time.sleep(_PAUSE * 2**idle)
    finally:
        line.close()


def _receive(url: str, part: Path, line: _ProgressLine) -> None:
    """One request, from where the last one ended."""
    start = _size(part)
    with contextlib.closing(_ask(url, start)) as response:
        begin, total = _extent(response, start)
        if 0 < start == begin == total:
            return
        if begin not in (0, start) or (total is not None and start > total):
            part.unlink(missing_ok=True)
            raise _PassingError("the server answered with another part than the one that was asked for")
        done = begin
        with part.open("ab" if begin else "wb") as stream:
            for block in _blocks(response):
                stream.write(block)
                done += len(block)
                line.show(done, total)
    if total is not None and done != total:
        raise _PassingError(f"the connection ended after {done:,} of {total:,} bytes")


def _ask(url: str, start: int) -> Any:
    # Bytes are wanted as they are: a server that packs them on the way would change where the next part begins.
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


def _extent(response: Any, start: int) -> tuple[int, int | None]:
    """Where an answer begins, and how long the whole file is, if the server says so."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    # 206 says "bytes 100-199/200", and 416, which has nothing to send, "bytes */200".
    span, _, length = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    total = int(length) if length.isdigit() else None
    begin = span.partition("-")[0]
    if response.status == 416:
        return (start if start == total else -1), total
    return (int(begin) if begin.isdigit() else -1), total


def _blocks(response: Any) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise _PassingError(str(error) or type(error).__name__) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _checksum(path: Path, like: str | None) -> str | None:
    """Checksum of a file, made in the same way as another one; None if there is none to compare with."""
    if like is None:
        return None
    digest = new_digest(like)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return f"{digest.name}:{digest.hexdigest()}"


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system lets it go when a process dies, so that it is never left behind."""
    with (folder / ".lock").open("ab") as handle:
        _lock(handle)
        yield


def _lock(handle: BinaryIO) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):  # it gives up after ten seconds
                handle.seek(0)
                return msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        with contextlib.suppress(OSError):  # some network folders have no locks: two downloads at once are rare there
            fcntl.flock(handle, fcntl.LOCK_EX)


class _ProgressLine:
    """One line on the terminal, once a download takes more than a second."""

    def __init__(self, name: str, wanted: bool) -> None:
        self._name = name
        self._next = time.monotonic() + 1.0 if wanted and sys.stderr.isatty() else float("inf")
        self._shown = False

    def show(self, done: int, total: int | None) -> None:
        """Write how far it is, five times a second at most."""
        if time.monotonic() < self._next:
            return
        share = f" of {total / 1e6:.1f} MB ({done / total:.0%})" if total else " MB"
        print(f"\r{self._name}: {done / 1e6:.1f}{share}", end="", file=sys.stderr, flush=True)
        self._shown, self._next = True, time.monotonic() + 0.2

    def close(self) -> None:
        """Leave the line."""
        if self._shown:
            print(file=sys.stderr)
