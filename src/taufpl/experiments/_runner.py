"""Tasks in parallel, finished ones to disk at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from joblib import Parallel, delayed, parallel_config

from taufpl.experiments._store import RoundsFile
from taufpl.experiments._tasks import Row, Settings, Task

Work = Callable[[Task, Settings], list[Row]]
# Told how many tasks are done, how many there are, and which one was finished last.
Report = Callable[[int, int, Task | None], None]


def run_tasks(
    work: Work, tasks: Sequence[Task], settings: Settings, store: RoundsFile, n_jobs: int, report: Report
) -> None:
    """Do what has not been done yet; a finished task is on disk before the next one is reported.

    An exception, or Ctrl-C, ends the run; what was finished stays, and the same call goes on from there.
    """
    done = store.keep_complete(tasks)
    waiting = [task for task in tasks if task.key not in done]
    n_done = len(tasks) - len(waiting)
    report(n_done, len(tasks), None)
    errors: list[Exception] = []
    # After an error nothing new is started, and what is under way is waited for and kept.
    calls = (delayed(_run)(work, task, settings) for task in waiting if not errors)
    # One thread of BLAS each: the tasks themselves fill the cores.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for task, rows in Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(calls):
            if isinstance(rows, Exception):
                errors.append(rows)
                continue
            store.append(rows)
            n_done += 1
            report(n_done, len(tasks), task)
    if errors:
        raise errors[0]


def _run(work: Work, task: Task, settings: Settings) -> tuple[Task, list[Row] | Exception]:
    # An exception that left the worker would overtake results that were finished earlier, and these would be lost.
    try:
        return task, work(task, settings)
    except Exception as error:
        return task, error
