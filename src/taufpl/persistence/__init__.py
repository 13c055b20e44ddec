"""Models that travel: files that are safe to load, ONNX graphs, JSON and SQL."""

from taufpl.persistence._fingerprint import fingerprint
from taufpl.persistence._json import to_json
from taufpl.persistence._model_file import ModelHeader, SavedModel, load_model, save_model
from taufpl.persistence._sql import to_sql
from taufpl.persistence._summary import training_summary

__all__ = [
    "ModelHeader",
    "SavedModel",
    "fingerprint",
    "load_model",
    "save_model",
    "to_json",
    "to_sql",
    "training_summary",
]
