"""
A screen at one per cent
========================

The same job with a plain classifier, with the same one under a guarantee, and with a ranking made for the tolerance.

Half of the positives here stand out. The others look like one negative in seven, so that nobody finds them without many
false alarms.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from taufpl import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.datasets import make_screening
from taufpl.plotting import ROCDisplay, ScoreDisplay

TAU = 0.01
rng = np.random.default_rng(0)
X, y = make_screening(5000, 500, random_state=rng)
new_X, new_y = make_screening(50_000, 5000, random_state=rng)

# %%
# Three fits. As they come, the last two hold negatives out of everything and let them choose the threshold: that proves
# P(FPR > 1 %) <= 5 %.

plain = LogisticRegression(class_weight="balanced")
models = {
    "logistic regression, balanced": plain.fit(X, y),
    "logistic regression under 1 %": NeymanPearsonClassifier(plain, TAU, random_state=0).fit(X, y),
    "TauFPLClassifier": TauFPLClassifier(TAU, random_state=0).fit(X, y),
}
for name, model in models.items():
    alarms = model.predict(new_X) == 1
    fpr, recall = alarms[new_y == 0].mean(), alarms[new_y == 1].mean()
    print(f"{name:30}  FPR {fpr:6.2%}  recall {recall:5.1%}  {'kept' if fpr <= TAU else 'broken'}")

# %%
# Balanced classes are no tolerance: 15 % of the negatives are alarms. With a threshold that keeps to 1 %, the ranking
# decides how much is found. On a linear axis the curves could hardly be told apart; the logarithmic one shows the part
# that counts.

figure, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
for name in ("logistic regression under 1 %", "TauFPLClassifier"):
    ROCDisplay.from_estimator(models[name], new_X, new_y, tau=TAU, name=name, ax=ax)

# %%
# Scores of new rows, and the threshold between them. Dark bars are errors.

display = ScoreDisplay.from_estimator(models["TauFPLClassifier"], new_X, new_y)
