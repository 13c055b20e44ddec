"""The options of ``taufpl evaluate``."""

from __future__ import annotations

from taufpl.cli._options import (
    CHUNK_ROWS,
    BaseRateRange,
    By,
    ChunkRows,
    Data,
    Json,
    Model,
    OtherDelta,
    ScoringJobs,
    Target,
)
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._evaluate")
def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    delta: OtherDelta = None,
    base_rate: BaseRateRange = None,
    by: By = None,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    jobs: ScoringJobs = 1,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it has not seen.

    FPR, the false-alarm rate, is the share of negatives that the model flags; recall is that of positives. Exit code 3
    says that the tolerance is provably broken: the lower bound on FPR, at confidence 1 - delta, is above it. Exit code
    0 says that it is kept: the upper bound is within it. Exit code 4 says that the rows cannot tell.

    A model with segments is judged by its limits, with bounds that hold for all of them together; segments that share a
    limit are judged as one. With --by the rates of each level of a column follow, with bounds that hold for all levels
    together; then exit code 3 says that the tolerance is provably broken in the verdict or in a level.
    """
