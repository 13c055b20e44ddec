"""The paper's classifier on spambase, by its protocol, beside the paper's own figures.

    TAUFPL_DATA=folder python benchmarks/out_of_bootstrap.py [--rounds 30] [--jobs 1]

Stratified hold-out, two thirds to train; reg by five folds; the out-of-bootstrap threshold by NP-score, mean of the
rounds. Raw features, as at their source. Prints Markdown: mean rates with their standard errors, the NP-score of the
mean rates, which is what the paper's table shows, and the mean of the rounds' NP-scores.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedShuffleSplit

from solvers import read
from taufpl import TauFPLClassifier

# tau, tau_scale: FPR, TPR and NP-score in the classification table of the paper (AAAI 2018).
PAPER = {
    (0.05, 1): (0.041, 0.822, 0.178),
    (0.05, 2): (0.046, 0.845, 0.155),
    (0.10, 1): (0.087, 0.925, 0.075),
    (0.10, 2): (0.090, 0.928, 0.072),
}


def one_round(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, tau: float, scale: float) -> tuple:
    model = TauFPLClassifier(tau, ranking="paper", tau_scale=scale, threshold="oob", delta=None, random_state=0)
    alarms = model.fit(X[train], y[train]).predict(X[test]) == 1
    return alarms[y[test] < 0].mean(), alarms[y[test] > 0].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    data = read("spambase")
    if data is None:
        sys.exit("spambase.npz must lie in the folder that TAUFPL_DATA names; see solvers.py.")
    X, y = data[0].toarray(), data[1]
    splits = list(StratifiedShuffleSplit(arguments.rounds, test_size=1 / 3, random_state=0).split(X, y))
    print("| tau | method | FPR | TPR | NP-score of the means | mean NP-score | paper: FPR | TPR | NP-score |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (tau, scale), paper in PAPER.items():
        jobs = (delayed(one_round)(X, y, train, test, tau, scale) for train, test in splits)
        fpr, tpr = np.array(Parallel(n_jobs=arguments.jobs)(jobs)).T
        error = np.std((fpr, tpr), axis=1, ddof=1) / np.sqrt(len(splits))
        name = "tau-FPL" if scale == 1 else "2tau-FPL"
        print(
            f"| {tau:.0%} | {name} | {fpr.mean():.4f} ± {error[0]:.4f} | {tpr.mean():.3f} ± {error[1]:.3f} "
            f"| {max(fpr.mean(), tau) / tau - tpr.mean():.3f} | {np.mean(np.maximum(fpr, tau) / tau - tpr):.3f} "
            f"| {paper[0]:.3f} | {paper[1]:.3f} | {paper[2]:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
