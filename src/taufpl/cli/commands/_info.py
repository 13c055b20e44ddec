"""The options of ``taufpl info``."""

from __future__ import annotations

from taufpl.cli._options import Json, Model
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._info")
def info(model: Model, as_json: Json = False) -> None:
    """Say what a model file holds: tolerance, thresholds and their evidence, history, columns, versions."""
