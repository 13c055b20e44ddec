"""
Two solvers, one certificate
============================

The gap between primal and dual value bounds how far a fit is from the optimum. Here it falls for both solvers.

A pass is one product with all of the data. The paper's solver needs two an iteration; the second-order one needs some
tens in all.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from taufpl import TauFPLRanker
from taufpl.datasets import load_spambase
from taufpl.plotting import ConvergenceDisplay

X, y = load_spambase(return_X_y=True)
X = StandardScaler().fit_transform(X)

# %%
# The same problem, to a relative gap of 1e-4.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for solver in ("newton", "accelerated"):
    ranker = TauFPLRanker(tau=0.1, reg=0.1, solver=solver, tol=1e-4).fit(X, y)
    gap, passes = ranker.dual_gap_, ranker.n_passes_
    print(f"{solver:12} objective {ranker.primal_objective_:.5f}  gap {gap:.1e}  {passes:.0f} passes")
    ConvergenceDisplay.from_estimator(ranker, name=solver, ax=ax)
