# The instruction set of this module's loops: the best that the processor has, or the one that TAUFPL_SIMD names.

import os

cdef extern from "simd/sets.h":
    bint set_runs(int) noexcept nogil

cdef int simd_set = 0
_SETS = ("plain", "avx2", "avx512")


def instruction_sets():
    """Names of the instruction sets that were built and that this processor has; the last is the fastest."""
    return [name for i, name in enumerate(_SETS) if set_runs(i)]


def instruction_set():
    """Name of the instruction set in use."""
    return _SETS[simd_set]


def use_instruction_set(str name):
    """Switch to another instruction set, for tests and benchmarks."""
    global simd_set
    if name not in instruction_sets():
        raise ValueError(f"TAUFPL_SIMD must be one of {', '.join(instruction_sets())} on this machine; got {name!r}.")
    simd_set = _SETS.index(name)


use_instruction_set(os.environ.get("TAUFPL_SIMD") or instruction_sets().pop())
