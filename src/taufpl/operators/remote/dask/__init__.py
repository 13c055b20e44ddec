"""Rows of Dask collections, on the workers of a cluster or in this process."""

from taufpl.operators.remote.dask._place import share_out as share_out, workers_room as workers_room
from taufpl.operators.remote.dask._source import Chunks as Chunks, Room as Room, plan_blocks as plan_blocks
