"""The cache of image embeddings of one PD worker: the images used last, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict


class EmbeddingCache:
    """Least recently used images leave first.

    Args:
        capacity: bytes.
    """

    __slots__ = ("_capacity", "_sizes", "_used")

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._sizes: OrderedDict[int | str, float] = OrderedDict()
        self._used = 0.0

    def has(self, key: int | str) -> bool:
        """Whether the image is cached; if so, it now counts as used last."""
        if key not in self._sizes:
            return False
        self._sizes.move_to_end(key)
        return True

    def put(self, key: int | str, size: float) -> None:
        """Add an image of `size` bytes. Images above the capacity are not cached."""
        if size > self._capacity or key in self._sizes:
            return
        self._sizes[key] = size
        self._used += size
        while self._used > self._capacity:
            self._used -= self._sizes.popitem(last=False)[1]
