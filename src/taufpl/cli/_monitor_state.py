"""The file in which ``taufpl monitor --state`` keeps a monitor from call to call."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from taufpl._files import write_whole
from taufpl._records import plain, read_record
from taufpl.cli._data_file import check_is_file, digest_of
from taufpl.monitoring import FPRMonitor, SegmentMonitor

Watch = FPRMonitor | SegmentMonitor
# That of the limits of a model, "segments", and that of the levels of a column, "by"; else that of all "rows".
Watches = dict[str, Watch]

_KIND = "taufpl monitor state"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class MonitorState:
    """A monitor between two calls, with what it was begun with."""

    model: str  # digest of the model file
    event: str | None
    by: str | None
    monitors: dict[str, dict[str, Any]]
    n_calls: int
    n_rows: int
    n_negative_rows: int
    began: str
    updated: str

    def after(self, watches: Watches, n_rows: int, n_negative_rows: int) -> MonitorState:
        """The state after one more call."""
        return replace(
            self,
            monitors={name: each.to_dict() for name, each in watches.items()},
            n_calls=self.n_calls + 1,
            n_rows=self.n_rows + n_rows,
            n_negative_rows=self.n_negative_rows + n_negative_rows,
            updated=_now(),
        )

    def write(self, path: Path, earlier: bytes | None) -> None:
        """Write the state beside its file, and rename it, where the file is still as it was earlier (None: absent)."""
        content = {"kind": _KIND, "version": _VERSION, **plain(asdict(self))}
        text = json.dumps({**content, "checksum": _checksum(content)}, allow_nan=False)
        write_whole(path, text.encode(), lambda: check_unchanged(path, earlier))


def new_state(model: Path, event: str | None, by: str | None) -> MonitorState:
    """A state before the first call."""
    return MonitorState(digest_of(model), event, by, {}, 0, 0, 0, _now(), _now())


def content_of(path: Path) -> bytes | None:
    """All bytes of a file, or None where there is none."""
    if not path.exists():
        return None
    check_is_file(path)
    return path.read_bytes()


def check_unchanged(path: Path, earlier: bytes | None) -> None:
    """Refuse to replace a state that another call has written since it was read."""
    if content_of(path) != earlier:
        raise ValueError(
            f"{path}: another call has written it while this one was reading rows, which count for nothing. Give them "
            "again, one call at a time."
        )


def read_state(path: Path, text: bytes, *, is_dropped: bool = False) -> MonitorState | None:
    """The state that was read from a file; one that is damaged, or holds something else, is a ValueError.

    Where it `is_dropped`, to begin anew, it is enough that the file is a state.
    """
    try:
        content = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: is damaged, or no state of taufpl monitor. Name another file, or remove this one."
        ) from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ValueError(f"{path}: is no state of taufpl monitor. Name another file.")
    if is_dropped:
        return None
    if content.get("version") != _VERSION:
        raise ValueError(f"{path}: is of version {content.get('version')!r}; this taufpl reads version {_VERSION}.")
    if content.pop("checksum", None) != _checksum(content):
        raise ValueError(f"{path}: has been changed since it was written. Begin anew by --reset.")
    try:
        return read_record(MonitorState, content, "the state")
    except ValueError as error:
        raise ValueError(f"{path}: {error}. Begin anew by --reset.") from error


def go_on(path: Path, state: MonitorState, fresh: MonitorState, watches: Watches) -> Watches:
    """The monitors in a state, which must be of the same model and settings as the fresh ones."""
    if state.model != fresh.model:
        raise ValueError(
            f"{path}: is the state of another model, or of this one before it was fitted or recalibrated anew. "
            "Name another file, or begin anew by --reset."
        )
    for option in ("event", "by"):
        _check_same(path, f"--{option}", getattr(state, option), getattr(fresh, option))
    if state.monitors.keys() != watches.keys():
        raise ValueError(f"{path}: has other monitors than this call. Begin anew by --reset.")
    return {name: _resumed(path, state.monitors[name], each) for name, each in watches.items()}


def _resumed(path: Path, kept: dict[str, Any], fresh: Watch) -> Watch:
    try:
        found = type(fresh).from_dict(kept)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}. Begin anew by --reset.") from error
    for option, value in _settings(found).items():
        _check_same(path, option, value, _settings(fresh)[option])
    return found


def _settings(watch: Watch) -> dict[str, Any]:
    if isinstance(watch, FPRMonitor):
        return {"--tau": watch.tau, "--delta": watch.delta, "--run-length": watch.run_length}
    return {
        "--tau": watch.tau,
        "--delta": watch.delta,
        "--run-length": watch.whole.run_length / 2.0,
        "segments": watch.segments,
    }


def _check_same(path: Path, option: str, before: Any, now: Any) -> None:
    if before != now:
        raise ValueError(
            f"{path}: was begun with {option} {_shown(before)}, and now it is {_shown(now)}. Name another file, or "
            "begin anew by --reset."
        )


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
