"""Downloads that survive an interruption: resumed, tried again, checked, and given their name only when complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from taufpl.datasets._files import new_digest
from taufpl.exceptions import DatasetError

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


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system releases it when a process dies, so that it is never left behind."""
    with (folder / ".lock").open("ab") as handle:
        if sys.platform == "win32":
            import msvcrt

            is_locked = False
            while not is_locked:
                with contextlib.suppress(OSError):  # each call gives up after ten seconds
                    handle.seek(0)
                    msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
                    is_locked = True
        else:
            import fcntl

            with contextlib.suppress(OSError):  # some network folders have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
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
