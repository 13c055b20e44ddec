"""Models that travel: files that are safe to load, ONNX graphs, JSON and SQL."""

from taufpl.persistence._pipeline import visit as visit
from taufpl.persistence._unwrap import (
    PipelineScorer as PipelineScorer,
    UnwrappedModel as UnwrappedModel,
    unwrap as unwrap,
)
from taufpl.persistence.files import (
    ModelHeader,
    SavedModel,
    load_model,
    model_bytes as model_bytes,
    save_model,
    training_summary,
)
from taufpl.persistence.linear import to_json, to_sql
from taufpl.persistence.onnx import save_onnx, to_onnx
from taufpl.persistence.rows import Freshness, SeenRows, fingerprint

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
