"""Models that travel: files that are safe to load, ONNX graphs, JSON and SQL."""

from taufpl.persistence._fingerprint import fingerprint
from taufpl.persistence._model_file import ModelHeader, SavedModel, load_model, save_model
from taufpl.persistence._summary import training_summary

__all__ = [
    "ModelHeader",
    "SavedModel",
    "fingerprint",
    "load_model",
    "save_model",
    "training_summary",
]
