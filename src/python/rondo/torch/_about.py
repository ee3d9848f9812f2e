# SPDX-License-Identifier: Apache-2.0
"""This module has what torch.distributed asks a process group about itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List

import torch
import torch.distributed as dist

from ._memory import allocate
from ._store import limit_of


class About(dist.ProcessGroup):
    """The name, the ranks and the abilities of a process group, which derives from this class."""

    _rank: int
    _size: int
    _seconds: float
    _store: Any
    _messages: Any
    _group_name = ""
    _group_desc = "undefined"
    _split = False   # whether split_group() has made this group
    _sequence = 0    # number of collectives that this rank has called
    supports_coalescing = supports_window = supports_reconfigure = False
    supports_completion_hooks = supports_abort_hooks = False
    supports_splitting = True

    def getBackendName(self) -> str:  # pylint: disable=invalid-name
        return "rondo"

    def getRank(self) -> int:  # pylint: disable=invalid-name
        return self._rank

    def getSize(self) -> int:  # pylint: disable=invalid-name
        return self._size

    rank, size, name = getRank, getSize, getBackendName

    def getGroupName(self) -> str:  # pylint: disable=invalid-name
        return self._group_name

    def setGroupName(self, name: str) -> None:  # pylint: disable=invalid-name
        self._group_name = name

    def getGroupDesc(self) -> str:  # pylint: disable=invalid-name
        return self._group_desc

    def setGroupDesc(self, desc: str) -> None:  # pylint: disable=invalid-name
        self._group_desc = desc

    def _get_backend(self, device: Any) -> "About":
        if torch.device(device).type not in ("cpu", "cuda"):
            raise RuntimeError(f"the backend rondo has no communicators for {device}")
        return self

    @property
    def _device_types(self) -> List[torch.device]:
        """Returns the devices once the group is registered. Before that, PyTorch would attach hooks for C++ groups.
        After split_group(), PyTorch asks before it registers the group."""
        if not self._split and self not in dist.distributed_c10d._world.pg_map:
            return []
        return [torch.device(kind) for kind in (["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])]

    def get_group_store(self) -> Any:
        return self._store

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Returns whether allocate_tensor() can allocate for this device."""
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        """Returns a tensor that the ranks of this host read in place."""
        return allocate(size, dtype, device)

    def _set_sequence_number_for_group(self) -> None:
        """Has nothing to set: every rank counts from 0."""

    def _get_sequence_number_for_group(self) -> int:
        """Returns the number of collectives that this rank has called."""
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._seconds = self._messages.seconds = limit_of(timeout)  # timeout of communicators made from now on

    set_timeout = _set_default_timeout
