"""Every command as its users see it: options, defaults and help. None of these modules loads more than those need.

The work of a command is in the module of the same name one package up.
"""

from taufpl.cli.commands._compare import compare
from taufpl.cli.commands._demo import demo
from taufpl.cli.commands._diff import diff
from taufpl.cli.commands._evaluate import evaluate
from taufpl.cli.commands._export import ExportCommand, export
from taufpl.cli.commands._fit import FitCommand, fit
from taufpl.cli.commands._info import info
from taufpl.cli.commands._monitor import monitor
from taufpl.cli.commands._plan import plan
from taufpl.cli.commands._predict import predict
from taufpl.cli.commands._recalibrate import recalibrate
from taufpl.cli.commands._report import report
from taufpl.cli.commands._reproduce import reproduce

__all__ = [
    "ExportCommand",
    "FitCommand",
    "compare",
    "demo",
    "diff",
    "evaluate",
    "export",
    "fit",
    "info",
    "monitor",
    "plan",
    "predict",
    "recalibrate",
    "report",
    "reproduce",
]
