"""The end of a computation that several threads share: see simd/tickets.h."""

from libc.stdint cimport int64_t

cdef extern from "simd/tickets.h":
    void ticket_wait(int64_t *tickets, int64_t n_blocks) noexcept nogil


def wait(
    int64_t[::1] tickets,               # IN: taken, done
    int64_t n_blocks,
):
    """Return when as many blocks are done."""
    with nogil:
        ticket_wait(&tickets[0], n_blocks)
