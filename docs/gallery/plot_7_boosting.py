"""
Boosting under a guarantee
==========================

A tolerance does not ask for a linear scorer. Any classifier keeps it, with a threshold from held-out negatives.

spambase, counts of words on a logarithmic scale, a quarter of the rows to test on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from taufpl import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.datasets import load_spambase
from taufpl.plotting import ROCDisplay

TAU = 0.02
X, y = load_spambase(return_X_y=True)
# A mail that came twice is no new evidence.
X, first = np.unique(np.log1p(X), axis=0, return_index=True)
y = y[first]
X, new_X, y, new_y = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)

# %%
# Half of the negatives train, the others choose the threshold.

boosting = HistGradientBoostingClassifier(max_iter=60, random_state=0)
models = {
    "boosting": NeymanPearsonClassifier(boosting, TAU, random_state=0).fit(X, y),
    "linear": TauFPLClassifier(TAU, threshold="np", random_state=0).fit(X, y),
}
figure, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
for name, model in models.items():
    evidence = model.evidence_
    print(f"{name:9} FPR at most {model.fpr_upper_bound_:.2%}, proven: {evidence.guaranteed}")
    ROCDisplay.from_estimator(model, new_X, new_y, tau=TAU, name=name, ax=ax)
