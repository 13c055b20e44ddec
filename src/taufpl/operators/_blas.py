"""One thread for BLAS while small matrices are factored."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


class OneBlasThread:
    """Context in which BLAS uses one thread; the number before comes back when the last of those inside has left.

    Waiting threads of BLAS spin. Between the calls that a Newton step makes, on matrices of a few hundred rows, they
    take a core from whoever has work, and on a busy machine the one that is waited for may be put aside: seconds pass
    where milliseconds would do. The number of threads belongs to the process, so that solvers that run side by
    side in threads share one context.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._controller is None:
                self._controller = ThreadpoolController()  # looks through all loaded libraries: once is enough
            if self._inside == 0:
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()
                self._limit = None


one_blas_thread = OneBlasThread()
