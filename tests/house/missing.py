"""What tests were skipped for want of, and the command that brings it."""

import os
import sys
from collections import Counter

PIP = f"{os.path.relpath(sys.executable)} -m pip install"
# Words of the reason, what is wanted, and how to have it.
WANTS = (
    (("torch", "PyTorch"), "PyTorch", f"{PIP} 'taufpl[gpu]'"),
    (("Chromium", "chromedriver"), "Chromium", "apt-get install chromium chromium-driver"),
    (("CUDA",), "a CUDA device", ""),
    (("could not import", "not installed"), "an extra", f"{PIP} 'taufpl[test]'"),
)


def wanted_by(reason):
    for words, name, command in WANTS:
        if any(word in reason for word in words):
            return f"{name} ({command})" if command else name
    return None


def what_is_missing(reasons, marks=""):
    """At most one line: how many tests want what, and which were left out."""
    counts = Counter(map(wanted_by, reasons))
    others = counts.pop(None, 0)
    parts = [f"{count} for want of {want}" for want, count in counts.most_common()]
    parts += [f"{others} that do not apply here (-rs says why)"] * (others > 0)
    parts += ["slow ones (make test-all)"] * ("not slow" in marks)
    return [f"Not run: {', '.join(parts)}."] if parts else []
