import numpy as np
from numpy.typing import NDArray

def wait(tickets: NDArray[np.int64], n_blocks: int) -> None: ...
