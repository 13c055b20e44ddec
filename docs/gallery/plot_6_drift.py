"""
When the world moves
====================

A screen goes live, the negatives change, the monitor raises its alarm, and fresh negatives set a new threshold.

The monitor may be looked at after every negative: the probability that it ever raises a false alarm stays under delta.
Its change detector finds the drift sooner, since the good past does not count against it.
"""

import numpy as np

from taufpl import TauFPLClassifier
from taufpl.datasets import make_screening
from taufpl.monitoring import FPRMonitor
from taufpl.plotting import MonitorDisplay

rng = np.random.default_rng(1)
X, y = make_screening(6000, 600, random_state=rng)
screen = TauFPLClassifier(tau=0.01, threshold="np", random_state=0).fit(X, y)


def negatives(n, drift):
    """New negatives; the drift moves them a little towards the positives."""
    rows = make_screening(n, 1, random_state=rng)[0][:n]
    rows[:, :3] += drift
    return rows


# %%
# 8,000 labelled negatives as they were, then 8,000 after a drift.

monitor = FPRMonitor(tau=0.01, delta=0.05)
print("before the drift, alarm:", monitor.update(screen.predict(negatives(8000, drift=0.0)) == 1))
print("after the drift, alarm: ", monitor.update(screen.predict(negatives(8000, drift=0.35)) == 1))
print(f"change found after {monitor.change_at:,} negatives, alarm over all negatives after {monitor.alarm_at:,}")
print(monitor)
display = MonitorDisplay.from_monitor(monitor)

# %%
# Nothing is fitted again. Fresh negatives choose the threshold, with the guarantee of `np`.

before = screen.threshold_
screen.recalibrate(negatives(5000, drift=0.35))
fpr = (screen.predict(negatives(100_000, drift=0.35)) == 1).mean()
print(f"threshold {before:.2f} -> {screen.threshold_:.2f}; FPR on new negatives {fpr:.2%}")
