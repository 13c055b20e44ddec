"""Models that travel: files that are safe to load, ONNX graphs, JSON and SQL."""

from taufpl.persistence._fingerprint import fingerprint
from taufpl.persistence._json import to_json
from taufpl.persistence._model_file import ModelHeader, SavedModel, load_model, save_model
from taufpl.persistence._onnx import save_onnx, to_onnx
from taufpl.persistence._seen_rows import Freshness, SeenRows
from taufpl.persistence._sql import to_sql
from taufpl.persistence._summary import training_summary

__all__ = [
    "Freshness",
    "ModelHeader",
    "SavedModel",
    "SeenRows",
    "fingerprint",
    "load_model",
    "save_model",
    "save_onnx",
    "to_json",
    "to_onnx",
    "to_sql",
    "training_summary",
]
