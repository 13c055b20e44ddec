"""Finished rounds on disk: a CSV file that only grows, and survives an interruption at any moment."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from taufpl._files import write_whole
from taufpl.experiments._tasks import Row, Task

Key = tuple[str, str, int]


class RoundsFile:
    """The rows of finished tasks, with the settings that they share.

    Rows of a task are appended in one write. Whatever an interruption has cut, a line without its end or a task
    without all its rows, is dropped when the file is opened again.

    Parameters
    ----------
    folder : path
        Holds ``rounds.csv`` and ``settings.json``; made if need be.
    columns : sequence of str
    settings : dict
        What must be the same when a run goes on.

    Raises
    ------
    ValueError
        If the folder holds rounds of other settings.
    """

    def __init__(self, folder: Path, columns: Sequence[str], settings: dict[str, Any]) -> None:
        self.path = folder / "rounds.csv"
        self.columns = tuple(columns)
        folder.mkdir(parents=True, exist_ok=True)
        self._check_settings(folder / "settings.json", settings)
        self.rows = self._read()

    def keep_complete(self, tasks: Iterable[Task]) -> set[Key]:
        """Drop rows of tasks that were cut short; return the keys of those that are done."""
        wanted = {task.key: task.n_rows for task in tasks}
        found = Counter(key_of(row) for row in self.rows)
        broken = {key for key, count in found.items() if key in wanted and count != wanted[key]}
        if broken:
            self.rows = [row for row in self.rows if key_of(row) not in broken]
        self._rewrite()
        return {key for key in found if key in wanted and key not in broken}

    def append(self, rows: Sequence[Row]) -> None:
        """Add the rows of one finished task."""
        text = io.StringIO()
        csv.DictWriter(text, self.columns, lineterminator="\n").writerows(rows)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        self.rows += [{name: str(value) for name, value in row.items()} for row in rows]

    def _read(self) -> list[Row]:
        if not self.path.exists():
            return []
        text = self.path.read_text("utf-8")
        whole = text[: text.rfind("\n") + 1]
        reader = csv.DictReader(io.StringIO(whole))
        if tuple(reader.fieldnames or ()) != self.columns:
            raise ValueError(
                f"{self.path} has the columns {reader.fieldnames}, and this experiment writes {list(self.columns)}. "
                "Choose another folder, or move the file away."
            )
        return [row for row in reader if None not in row and None not in row.values()]

    def _rewrite(self) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())

    def _check_settings(self, path: Path, settings: dict[str, Any]) -> None:
        if not path.exists():
            write_text(path, json.dumps(settings, indent=2) + "\n")
            return
        found = json.loads(path.read_text("utf-8"))
        if found != settings:
            raise ValueError(
                f"{path} says that the rounds in this folder were made with {found}, not with {settings}. "
                "Go on with the settings of that run, or choose another folder."
            )


def key_of(row: Row) -> Key:
    """Which task a row belongs to."""
    return row["dataset"], row["method"], int(row["round"])


def write_text(path: Path, text: str) -> None:
    """Write a whole file, or nothing."""
    write_whole(path, text.encode())
