"""Optional dependencies: imported where they are used, with one text for when they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise an ImportError that names the extra of this package which installs it.

    `purpose` says what the module is needed for, as the end of a sentence.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{package} is needed {purpose}, and it is not installed. Install it with: pip install 'taufpl[{extra}]'"
        ) from error
