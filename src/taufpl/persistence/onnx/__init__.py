"""Whole decisions as ONNX graphs: steps, scorers, threshold and labels."""

from taufpl.persistence.onnx._export import save_onnx, to_onnx

__all__ = ["save_onnx", "to_onnx"]
