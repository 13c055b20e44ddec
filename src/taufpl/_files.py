"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes, check: Callable[[], None] | None = None) -> None:
    """Write a file as :func:`written_whole` does."""
    with written_whole(path, check) as draft, draft.open("xb") as file:
        file.write(data)


@contextmanager
def written_whole(path: str | os.PathLike[str], check: Callable[[], None] | None = None) -> Iterator[Path]:
    """Write to the path that is yielded, beside the target; then it is brought to the disk and renamed.

    Readers see the old file or the new one. Whatever goes wrong on the way (a full disk, Ctrl-C, a folder that cannot
    be written to), the target stays as it was and nothing is left beside it; what a killed process has left is removed
    by the next that writes there. A link is followed; a file that is there keeps its permissions. `check` is called
    just before the target is replaced, and stops that by an exception; no other process that checks replaces a file of
    the folder in between.
    """
    target = Path(os.path.realpath(path))
    _remove_drafts_of_the_dead(target.parent)
    draft = draft_of(target)
    try:
        yield draft
        _sync(draft)
        if target.exists():
            shutil.copymode(target, draft)
        if check is None:
            os.replace(draft, target)
        else:
            with _held(target.parent):
                check()
                os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if os.name == "posix":
        # The new name, too; not every system lets a folder be opened.
        with suppress(OSError):
            _sync(target.parent)


def draft_of(path: Path) -> Path:
    """A name beside a file that nothing else uses; it tells whose it is."""
    return path.with_name(f".taufpl-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp")


def _host() -> str:
    return re.sub(r"[^0-9A-Za-z]", "_", socket.gethostname())[:40]


def _remove_drafts_of_the_dead(folder: Path) -> None:
    """Remove what processes of this machine have left that were killed while they wrote."""
    if os.name != "posix":  # where a process cannot be asked for without a signal
        return
    with suppress(OSError):
        for draft in folder.glob(f".taufpl-{_host()}-*.tmp"):
            found = re.fullmatch(r"(\d+)-[0-9a-f]{16}", draft.stem.removeprefix(f".taufpl-{_host()}-"))
            if found is not None and not _is_alive(int(found[1])):
                draft.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user; or the number is none
        return True
    return True


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that would hold it, until they are done."""
    if sys.platform == "win32":  # where a folder cannot be opened: a file for each stands among temporary ones
        import msvcrt

        name = f"taufpl-{zlib.crc32(os.fsencode(folder)):08x}.lock"
        with (Path(tempfile.gettempdir()) / name).open("ab") as file:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            yield
    else:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems of networks have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
