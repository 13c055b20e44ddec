"""``python -m taufpl.cli``, the same as ``taufpl``."""

from taufpl.cli import main

main()
