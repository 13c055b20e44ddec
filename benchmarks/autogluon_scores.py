"""Test scores of AutoGluon on one split, and the processor seconds of its fit; called by `screening.py`.

    python benchmarks/autogluon_scores.py SPLIT.npz SCORES.npz [--cpu-seconds 120]

Runs in an environment of its own that has autogluon.tabular. Preset best_quality, log loss, no neural networks. A
minute on two cores is given as 120 processor seconds of one thread, which loses nothing to waiting for another thread:
what AutoGluon reads as the time of day advances with the processor seconds that it has used, so that other load on the
machine does not shorten its fit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

NETWORKS = [
    "NN_TORCH",
    "FASTAI",
    "TABM",
    "REALMLP",
    "TABPFNV2",
    "TABPFNMIX",
    "TABICL",
    "MITRA",
    "TABDPT",
    "FT_TRANSFORMER",
]


def processor_seconds() -> float:
    """User and system seconds of this process and of its children."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("split", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--cpu-seconds", type=float, default=120.0)
    arguments = parser.parse_args()

    import pandas as pd
    from autogluon.tabular import TabularPredictor

    given = np.load(arguments.split)
    train, test = (pd.DataFrame(given[key]).add_prefix("x") for key in ("X", "X_test"))
    train["y"] = given["y"]
    folder = tempfile.mkdtemp()
    began, wall_began = processor_seconds(), time.monotonic()
    start = time.time()
    time.time = lambda: start + processor_seconds() - began
    try:
        predictor = TabularPredictor("y", path=folder, eval_metric="log_loss", verbosity=2).fit(
            train,
            presets="best_quality",
            time_limit=arguments.cpu_seconds,
            num_cpus=1,
            num_gpus=0,
            excluded_model_types=NETWORKS,
        )
        seconds, wall = processor_seconds() - began, time.monotonic() - wall_began
        print(predictor.leaderboard().to_string())
        scores = predictor.predict_proba(test)[1].to_numpy()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    np.savez(arguments.scores, scores=scores, seconds=seconds, wall=wall, load=os.getloadavg()[1])


if __name__ == "__main__":
    main()
