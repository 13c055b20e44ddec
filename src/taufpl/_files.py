"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes, check: Callable[[], None] = lambda: None) -> None:
    """Write a file as :func:`written_whole` does."""
    with written_whole(path, check) as draft, draft.open("xb") as file:
        file.write(data)


@contextmanager
def written_whole(path: str | os.PathLike[str], check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Write to the path that is yielded, beside the target; then it is brought to the disk and renamed.

    Readers see the old file or the new one. Whatever goes wrong on the way (a full disk, Ctrl-C, a folder that cannot
    be written to), the target stays as it was and nothing is left beside it. A link is followed; a file that is there
    keeps its permissions. `check` is called just before the target is replaced, and stops that by an exception.
    """
    target = Path(os.path.realpath(path))
    draft = draft_of(target)
    try:
        yield draft
        _sync(draft)
        if target.exists():
            shutil.copymode(target, draft)
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
    """A name beside a file that nothing else uses."""
    return path.with_name(f".taufpl-{secrets.token_hex(8)}.tmp")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
