"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write beside the target, bring it to the disk, then rename: whoever looks sees the old file or the new one.

    Whatever goes wrong on the way (a full disk, Ctrl-C, a folder that cannot be written to), the target stays as it
    was and nothing is left beside it.

    Parameters
    ----------
    path : path-like
        A link is followed; a file that is there keeps its permissions.
    data : bytes
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".taufpl-{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk too, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
