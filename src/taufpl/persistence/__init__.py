"""Models that travel: files that are safe to load, ONNX graphs, JSON and SQL."""

from taufpl.persistence._linear_export import to_json, to_sql
from taufpl.persistence._model_file import (
    ModelHeader,
    SavedModel,
    load_model,
    model_bytes as model_bytes,
    save_model,
    training_summary,
)
from taufpl.persistence._onnx_export import save_onnx, to_onnx
from taufpl.persistence._seen_rows import Freshness, SeenRows, fingerprint
from taufpl.persistence._unwrap import (
    PipelineScorer as PipelineScorer,
    UnwrappedModel as UnwrappedModel,
    unwrap as unwrap,
    visit as visit,
)

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
