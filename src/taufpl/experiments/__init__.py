"""The paper's experiments, run again: its protocol, its systems, its figures beside ours."""

from taufpl.experiments._reproduce import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
