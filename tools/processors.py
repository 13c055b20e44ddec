"""Run the tests as on other processors: other kernels of OpenBLAS, older instruction sets, other numbers of threads.

    python tools/processors.py              # all tests, in the settings of SETTINGS: half an hour on 2 cores
    python tools/processors.py --rounding   # those that look at rounding, with two kernels besides the machine's own

OpenBLAS picks its kernels by processor, NumPy and taufpl their loops, and a sum in another order has other last digits.
Prints a table; the last lines of failures stand above it. What this processor cannot run is told and left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time

import numpy as np

try:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
except ImportError:  # of another NumPy: its loops stay as they are
    __cpu_dispatch__, __cpu_features__ = [], {}

# Kernels of OpenBLAS for x86, for processors with AVX-512, AVX2, AVX and SSE4.2.
KERNELS = ("SkylakeX", "Haswell", "Sandybridge", "Nehalem")
# Kernel, threads, and whether NumPy and taufpl do without AVX2 and AVX-512.
SETTINGS = [("Nehalem", 1, False), ("Sandybridge", 1, True), ("Haswell", 2, False), ("SkylakeX", 4, False)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounding", action="store_true", help="the tests marked so, with two further kernels")
    parser.add_argument("--jobs", default="2", help="processes that share the tests")
    options = parser.parse_args()
    own = kernel_in_use()
    runs = [name for name in KERNELS if kernel_in_use(name) == name]
    for name in KERNELS:
        if name not in runs:
            print(f"{name}: cannot be had here, and is left out.")
    settings = [setting for setting in SETTINGS if setting[0] in runs]
    if options.rounding:
        settings = [(name, 1, False) for name in runs if name != own][:2]
    print(f"Here: {own}, NumPy {np.__version__}.", flush=True)
    rows = [measure(*setting, options) for setting in settings]
    print("\n| kernel | threads | NumPy, taufpl | passed | failed | skipped | minutes |\n|---|---|---|---|---|---|---|")
    print("\n".join("| " + " | ".join(map(str, row[:-1])) + " |" for row in rows))
    return max((row[-1] for row in rows), default=0)


def kernel_in_use(name: str = "") -> str:
    """The kernel of NumPy's OpenBLAS in a process that asks for one; empty where there is none."""
    tell = "import numpy, threadpoolctl; print(*(i.get('architecture') for i in threadpoolctl.threadpool_info()))"
    environment = os.environ | ({"OPENBLAS_CORETYPE": name} if name else {})
    done = subprocess.run([sys.executable, "-c", tell], env=environment, capture_output=True, text=True, check=False)
    return next((word for word in done.stdout.split() if word != "None"), "")


def measure(kernel: str, threads: int, plain: bool, options: argparse.Namespace) -> tuple[object, ...]:
    """A row of the table, and whether anything failed."""
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    environment["OPENBLAS_CORETYPE"] = kernel
    if plain:
        environment["TAUFPL_SIMD"] = "plain"
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])
    marks = ["-m", "rounding and not slow and not cluster"] if options.rounding else []
    call = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        options.jobs,
        "--dist",
        "loadscope",
        "--no-loadscope-reorder",
        *marks,
    ]
    started = time.monotonic()
    done = subprocess.run(
        call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    minutes = (time.monotonic() - started) / 60
    if done.returncode:
        print(f"{kernel}, {threads} threads:\n" + done.stdout[-6000:], flush=True)
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout[-400:])
    }
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    loops = "without AVX2, AVX-512" if plain else "as they are"
    row = (kernel, threads, loops, counts.get("passed", 0), failed, counts.get("skipped", 0), f"{minutes:.1f}")
    print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return (*row, done.returncode)


if __name__ == "__main__":
    sys.exit(main())
