"""Model files: written as a whole, described by a header, and safe to load."""

from taufpl.persistence.files._model_file import (
    ModelHeader,
    SavedModel,
    load_model,
    model_bytes as model_bytes,
    save_model,
)
from taufpl.persistence.files._summary import training_summary

__all__ = ["ModelHeader", "SavedModel", "load_model", "save_model", "training_summary"]
