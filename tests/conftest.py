import os

from hypothesis import settings

# Displays are drawn, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")

# A first call pays for imports and caches, so that a deadline would measure those.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
