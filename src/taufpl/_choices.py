"""Names and defaults that users choose from, in one place: the command shows them before anything else is loaded."""

# Level of bounds and intervals where no delta is given.
USUAL_DELTA = 0.05

# What `looks` is where the negatives grow, and thresholds hold at every look together.
ANY = "any"

# The limit of segments that are too small for one of their own.
OTHERS = "others"

# How the threshold is chosen, with a line for help texts, in the order in which users read of them.
THRESHOLDS = {
    "np": "held-out negatives choose, with a guarantee",
    "cross": "all rows, corrected by folds; measured, not proven",
    "oob": "the paper's mean over random rounds",
    "train": "the quantile of the training negatives, optimistic",
}

# How much time a stack takes, from little to much.
EFFORTS = ("fast", "normal", "best")

# The paper's experiments.
EXPERIMENTS = ("ranking", "classification", "projection", "scaling")
