"""A set of hashes in about ten bits each: every member is found, and a few others are taken for members."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = struct.Struct("<QB")


@dataclass(frozen=True)
class HashSet:
    """Distinct hashes, shortened and sorted, as Elias and Fano write increasing numbers down.

    Of a set of d hashes (`size`) each falls into one of d buckets, by its first 32 bits, and leaves a remainder, its
    last 8 or 16 bits (`width` of 1 or 2 bytes). The remainders lie in the order of the buckets; the buckets are a row
    of 2 d bits, a one for every hash and a zero wherever the next bucket begins. That is 10 bits a hash for remainders
    of one byte. A hash that is in the set is always found; another one with probability 1 - exp(-1/256), 0.39 %, or
    0.0015 % for remainders of two bytes.
    """

    size: int
    width: int
    buckets: NDArray[np.uint8] = field(repr=False)
    remainders: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], width: int) -> HashSet:
        """Make the set of some 64-bit hashes; less than 2^32 of them."""
        distinct = np.unique(hashes)
        keys = np.sort(_keys(distinct, distinct.size, width))
        bits = np.zeros(2 * keys.size, np.uint8)
        bits[(keys >> np.uint64(8 * width)).astype(np.int64) + np.arange(keys.size)] = 1
        return cls(keys.size, width, np.packbits(bits), keys.astype(f"<u{width}"))

    @property
    def false_hit_rate(self) -> float:
        """Chance that a hash which is not in the set is said to be."""
        return -float(np.expm1(-(2.0 ** (-8 * self.width)))) if self.size else 0.0

    def contains(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Mark the hashes that are in the set, or are taken for members."""
        if not self.size:
            return np.zeros(hashes.size, np.bool_)
        keys = _keys(hashes, self.size, self.width)
        places = np.minimum(np.searchsorted(self._sorted, keys), self.size - 1)
        return self._sorted[places] == keys

    @cached_property
    def _sorted(self) -> NDArray[np.uint64]:
        ones = np.flatnonzero(np.unpackbits(self.buckets, count=2 * self.size))
        buckets = (ones - np.arange(self.size)).astype(np.uint64)
        return (buckets << np.uint64(8 * self.width)) | self.remainders.astype(np.uint64)

    def to_bytes(self) -> bytes:
        """Write the set down."""
        return _HEADER.pack(self.size, self.width) + self.buckets.tobytes() + self.remainders.tobytes()

    @classmethod
    def from_bytes(cls, data: memoryview) -> tuple[HashSet, memoryview]:
        """Read a set, and give back what follows it; raises ValueError if the set is damaged."""
        try:
            size, width = _HEADER.unpack_from(data)
        except struct.error as error:
            raise ValueError("a set of hashes is cut off") from error
        middle = _HEADER.size + (size + 3) // 4
        end = middle + size * width
        if width not in (1, 2) or end > len(data):
            raise ValueError("a set of hashes is not as long as it says")
        buckets = np.frombuffer(data[_HEADER.size : middle], np.uint8)
        # The last byte may have bits to spare, which come after all buckets.
        spare = -2 * size % 8
        if int(np.bitwise_count(buckets).sum()) != size or (spare and int(buckets[-1]) % 2**spare):
            raise ValueError("a set of hashes does not hold as many as it says")
        return cls(size, width, buckets, np.frombuffer(data[middle:end], f"<u{width}")), data[end:]


def _keys(hashes: NDArray[np.uint64], size: int, width: int) -> NDArray[np.uint64]:
    """Bucket and remainder in one number."""
    buckets = ((hashes >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
    return (buckets << np.uint64(8 * width)) | (hashes & np.uint64(256**width - 1))
