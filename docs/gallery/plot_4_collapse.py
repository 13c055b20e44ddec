"""
Where the convex objective gives up
===================================

With overlapping classes and a small tolerance, the best weights of the paper's objective are w = 0.

Trained on a larger share of the negatives than the tolerance, it finds something again. The automatic ranking of
:class:`~taufpl.TauFPLClassifier` needs no such share.
"""

import numpy as np

from taufpl import TauFPLClassifier
from taufpl.datasets import make_screening
from taufpl.metrics import tpr_at_fpr
from taufpl.plotting import CollapseDisplay

TAU = 0.01
rng = np.random.default_rng(0)
X, y = make_screening(3000, 300, random_state=rng)
new_X, new_y = make_screening(30_000, 3000, random_state=rng)

# %%
# Left: the objective along one direction. At the training share of 1 % it only grows from w = 0. Right: recall at the
# tolerance of 1 %, whatever share was trained on. Rings are fits that collapsed.

display = CollapseDisplay.from_data(X, y, tau=TAU, X_test=new_X, y_test=new_y)

# %%
# The automatic ranking compares candidates on held-out folds and averages those that cannot be told from the best.

auto = TauFPLClassifier(TAU, random_state=0).fit(X, y)
kept = [name for name, is_kept in zip(auto.selection_["candidate"], auto.selection_["kept"], strict=True) if is_kept]
print(f"recall at 1 %: automatic {tpr_at_fpr(new_y, auto.decision_function(new_X), TAU):.0%}")
print(f"best training share {display.recalls.max():.0%}")
print("averaged:", ", ".join(kept))
