"""Optional dependencies: imported where they are used, with one text for when they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it.

    Parameters
    ----------
    module : str
        What to import, for example ``"matplotlib.pyplot"``.
    extra : str
        The extra of this package that installs it.
    purpose : str
        What it is needed for, as the end of a sentence.

    Raises
    ------
    ImportError
        If the module is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{package} is needed {purpose}, and it is not installed. Install it with: pip install 'taufpl[{extra}]'"
        ) from error
