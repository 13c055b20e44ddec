/* Blocks of work, shared by any number of threads: each takes the next ticket until none is left.
 *
 * Nobody waits for a thread that has not begun, as it would at OpenMP's barriers: where the other cores are busy,
 * the caller does all the work itself and loses nothing. A thread that comes late finds no ticket and goes.
 */
#ifndef TAUFPL_TICKETS_H
#define TAUFPL_TICKETS_H

#include <stdint.h>

#if defined(_MSC_VER)
#include <windows.h>
#define FETCH_ADD(p) InterlockedExchangeAdd64((volatile LONG64 *)(p), 1)
#define READ(p) InterlockedExchangeAdd64((volatile LONG64 *)(p), 0)
static inline void step_aside(int tries) { Sleep(tries < 100 ? 0 : 1); }
#else
#include <sched.h>
#include <time.h>
#define FETCH_ADD(p) __atomic_fetch_add(p, 1, __ATOMIC_ACQ_REL)
#define READ(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
static inline void step_aside(int tries) {
    /* Sleeping leaves this core to the thread that is waited for, should it have lost its own. */
    struct timespec nap = {0, 20000};
    if (tries < 100) sched_yield();
    else nanosleep(&nap, 0);
}
#endif

/* Two counters, zero at first: tickets taken, and blocks done. `block` is -1 at first, then the block that is done. */
static inline int ticket_next(int64_t *tickets, int64_t *block, int64_t n_blocks) {
    if (*block >= 0) FETCH_ADD(&tickets[1]);
    *block = FETCH_ADD(&tickets[0]);
    return *block < n_blocks;
}
static inline void ticket_wait(int64_t *tickets, int64_t n_blocks) {
    for (int tries = 0; READ(&tickets[1]) < n_blocks; tries += tries < 100) step_aside(tries);
}

#endif
