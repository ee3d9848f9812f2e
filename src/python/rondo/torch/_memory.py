# SPDX-License-Identifier: Apache-2.0
"""This module allocates tensors in memory that the ranks of a host map, so that collectives read them in place.

FSDP2 allocates and frees the same sizes in every step. So freed memory is kept for tensors of the same size, because
new memory must be zeroed and mapped by all ranks again."""

from __future__ import annotations

import ctypes
import threading
import weakref
from ctypes import byref, c_char, c_void_p
from typing import Any, Dict, List

import torch

from .._errors import check
from .._library import C

KEPT_BYTES = 1 << 30  # most bytes of freed memory that a pool keeps
PAGE = 4096


class Pool:
    """A pool of memory of rondo_mem_alloc(), which keeps freed memory for later tensors."""

    def __init__(self) -> None:
        self._free: Dict[int, List[int]] = {}
        self._kept = 0
        self._lock = threading.RLock()  # the end of a tensor may come inside of a call, in the same thread

    def tensor(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Returns a tensor with one dimension, whose content is unspecified."""
        size = max(1, -(-count * dtype.itemsize // PAGE)) * PAGE
        address = self._take(size)
        raw = (c_char * size).from_address(address)
        weakref.finalize(raw, self._give, size, address).atexit = False  # the process ends with the memory
        return torch.frombuffer(raw, dtype=dtype, count=count) if count else torch.empty(0, dtype=dtype)

    def _take(self, size: int) -> int:
        with self._lock:
            free = self._free.get(size)
            if free:
                self._kept -= size
                return free.pop()
        pointer = c_void_p()
        check(C.rondo_mem_alloc(byref(pointer), size))
        return pointer.value or 0

    def _give(self, size: int, address: int) -> None:
        with self._lock:
            if self._kept + size <= KEPT_BYTES:
                self._free.setdefault(size, []).append(address)
                self._kept += size
                return
        C.rondo_mem_free(ctypes.c_void_p(address))


pool = Pool()


def allocate(count: int, dtype: Any, device: Any) -> torch.Tensor:
    """Returns a tensor for communication. On a device it is an ordinary tensor."""
    if torch.device(device).type != "cpu":
        return torch.empty(count, dtype=dtype, device=device)
    return pool.tensor(count, dtype)
