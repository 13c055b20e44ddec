import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def use_vector_loops(on: bool) -> None: ...
def project_pair(
    alpha: Vector,
    beta: Vector,
    alpha_max: float,
    beta_max: float,
    improved: bool,
    pruned: bool,
    tol: float,
    out_alpha: Vector,
    out_beta: Vector,
) -> None: ...
def project_topk(
    alpha: Vector,
    beta: Vector,
    k: float,
    alpha_max: float,
    beta_min: float,
    beta_max: float,
    improved: bool,
    pruned: bool,
    tol: float,
    out_alpha: Vector,
    out_beta: Vector,
    work: Vector,
) -> None: ...
def search_sizes(entries: Vector, sums: Vector, k: int, tol: float) -> tuple[int, int]: ...
