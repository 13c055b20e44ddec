"""
Beyond a line
=============

Moons, circles and a checkerboard at a tolerance of one per cent: a linear screen, and one in the space of a kernel.

No line parts these classes. A kernel machine bends its boundary around the positives, the tolerance is kept in the same
way, and how much an approximation of the kernel costs is known, not hoped for.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons

from taufpl import KernelTauFPLClassifier, KernelTauFPLRanker, PivotedCholeskyFeatures, TauFPLClassifier
from taufpl.plotting import DecisionRegionsDisplay

TAU = 0.01


def moons(n, m, seed):
    return make_moons((n, m), noise=0.2, random_state=seed)


def circles(n, m, seed):
    return make_circles((n, m), noise=0.12, factor=0.45, random_state=seed)


def checkerboard(n, m, seed):
    """Three by three cells; positives on the four of one colour."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(np.ones((3, 3)))
    colour = cells.sum(axis=1) % 2
    y = np.repeat([0, 1], [n, m])
    corners = np.concatenate([rng.choice(cells[colour == label], size) for label, size in ((0, n), (1, m))])
    return corners + rng.random((n + m, 2)) + 0.05 * rng.normal(size=(n + m, 2)), y


# %%
# Above the linear screens, below those with a Gaussian kernel, fitted to the same 3,300 rows. `gamma="median"` takes
# the scale of the kernel from the distances between rows; by default gamma and reg are searched for, which takes
# longer. The strong line is the threshold. Rings are false positives among the training negatives; the rates in the
# titles are those of 33,000 new rows.

figure, axes = plt.subplots(2, 3, figsize=(11, 7.5), layout="constrained")
for column, make in zip(axes.T, (moons, circles, checkerboard), strict=True):
    X, y = make(3000, 300, seed=0)
    new_X, new_y = make(30_000, 3000, seed=1)
    screens = {
        "linear": TauFPLClassifier(TAU, random_state=0).fit(X, y),
        "kernel": KernelTauFPLClassifier(TAU, gamma="median", reg=1e-3, random_state=0).fit(X, y),
    }
    for ax, (kind, screen) in zip(column, screens.items(), strict=True):
        alarms = screen.predict(new_X) == 1
        fpr, recall = alarms[new_y == 0].mean(), alarms[new_y == 1].mean()
        name = f"{make.__name__}, {kind}\nFPR {fpr:.2%}, recall {recall:.0%}"
        display = DecisionRegionsDisplay.from_estimator(
            screen, X, y, name=name, max_points=400, legend=False, ax=ax, grid_resolution=120
        )
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
    kernel = screens["kernel"]
    print(
        f"{make.__name__:13} {kernel.n_components_:3} landmarks, trace error {kernel.relative_error_:.0e}, "
        f"objective within {kernel.kernel_gap_:.3%} of the best there is for this kernel"
    )

# %%
# One of them closer, with contours where 0.1, 5 and 20 % of these negatives would be above.

X, y = moons(3000, 300, seed=0)
screen = KernelTauFPLClassifier(TAU, gamma="median", reg=1e-3, random_state=0).fit(X, y)
display = DecisionRegionsDisplay.from_estimator(screen, X, y, taus=[0.001, 0.05, 0.2], name="moons at 1 %")

# %%
# The error that you can see. A narrow kernel on the checkerboard, solved with more and more landmarks: what they leave
# out of the kernel matrix, and how far the objective can be from the best of *all* functions of the kernel's space. The
# second figure, `kernel_gap_`, is a certificate: it needs no exact solution to compare with. The exact solution is
# there for once, to show where the objective really is.
#
# With `refine`, which is the default, landmarks are chosen a second time, among the rows that the first solution rests
# on. They leave out more of the matrix and less of what counts here.

X, y = checkerboard(1500, 300, seed=0)
settings = {"tau": TAU, "reg": 1e-3, "gamma": 4.0, "random_state": 0}
best = KernelTauFPLRanker(approximation="exact", tol=1e-9, **settings).fit(X, y).primal_objective_
counts = [20, 40, 80, 120, 160]

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
path = PivotedCholeskyFeatures(max(counts), gamma=4.0, random_state=0).fit(X).error_path_
ax.plot(np.arange(1, path.size + 1), path, color="#7F7F7F", label="trace of the kernel matrix left out")
for refine, colour, marker in ((False, "#0072B2", "o"), (True, "#D55E00", "s")):
    settings |= {"refine": refine, "tol": 1e-6}
    rankers = [KernelTauFPLRanker(n_components=count, **settings).fit(X, y) for count in counts]
    gaps = [ranker.kernel_gap_ for ranker in rankers]
    excess = [1 - best / ranker.primal_objective_ for ranker in rankers]
    how = "refined landmarks" if refine else "landmarks for all rows"
    ax.plot(counts, gaps, marker=marker, color=colour, label=f"{how}: certified gap")
    ax.plot(counts, excess, marker=marker, color=colour, linestyle=":", fillstyle="none", label=f"{how}: truth")
    for ranker, gap, over in zip(rankers, gaps, excess, strict=True):
        error = f"trace {ranker.relative_error_:.2g}, gap {gap:.2g}, truth {over:.2g}"
        print(f"{how:22} {ranker.n_components_:3}: {error}")
ax.set(xscale="log", yscale="log", xlabel="Landmarks", xlim=(10, 200), ylim=(1e-7, 5))
ax.set_xticks(counts, labels=counts)
ax.minorticks_off()
ax.legend(frameon=False, loc="lower left")
ax.spines[["top", "right"]].set_visible(False)
