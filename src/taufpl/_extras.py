"""Modules that are imported where they are used: optional dependencies, and our own for remote rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def on_demand(
    package: str, sources: Mapping[str, Collection[str]], parts: Collection[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package some of whose names are in modules that are loaded when one is asked for.

    `sources` has the names by module, `parts` the package's own modules; what was loaded is kept in the package.
    """
    modules = {name: module for module, names in sources.items() for name in names}

    def load(name: str) -> Any:
        if name in parts:
            return import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


def deprecated(
    package: str, names: dict[str, Any], otherwise: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a package for earlier names: what they stand for now, with a warning."""

    def find(name: str) -> Any:
        if name in names:
            present = names[name].__name__
            warnings.warn(f"{package}.{name} is {present} now.", DeprecationWarning, stacklevel=2)
            return names[name]
        if otherwise is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return otherwise(name)

    return find


def install_command(extra: str) -> str:
    """How to get what an extra of this package brings.

    Where the package comes from, a clone or an index, does not matter: pip keeps the one that is installed, and adds
    what the extra names.
    """
    return f"pip install 'taufpl[{extra}]'"


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise an ImportError that names the extra of this package which installs it.

    `purpose` says what the module is needed for, as the end of a sentence.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        text = f"{package} is needed {purpose}, and it is not installed. Install it with: {install_command(extra)}"
        raise ImportError(text) from error
