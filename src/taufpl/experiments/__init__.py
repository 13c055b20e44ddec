"""The paper's experiments, run again: its protocol, its systems, its figures beside ours."""

from taufpl.experiments._reproduce import EXPERIMENTS, reproduce
from taufpl.experiments._trials import Trial as Trial

__all__ = ["EXPERIMENTS", "reproduce"]
