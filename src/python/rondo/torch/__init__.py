# SPDX-License-Identifier: Apache-2.0
"""Backend "rondo" of torch.distributed, for tensors on CPUs and CUDA devices. It needs PyTorch 2.9 or newer.

    import rondo.torch
    import torch.distributed as dist
    dist.init_process_group("rondo")

Importing this module registers the backend. docs/python.md says how it differs from other backends."""

from __future__ import annotations

from collections import deque
from typing import Any

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError("rondo.torch needs PyTorch 2.9 or newer: pip install torch") from error

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if VERSION < (2, 9):
    raise ImportError(f"rondo.torch needs PyTorch 2.9 or newer, and this is {torch.__version__}")
if not dist.is_available():
    raise ImportError("this PyTorch was built without torch.distributed: install one that has it")

from ._group import ProcessGroup  # noqa: E402
from ._work import Work  # noqa: E402

__all__ = ["ProcessGroup", "Work"]


def _make(options: Any, backend_options: Any) -> ProcessGroup:
    """Makes a process group for init_process_group() and new_group()."""
    return ProcessGroup(options.store, options.group_rank, options.group_size, options.timeout,
                        list(options.global_ranks_in_group), backend_options)


_forward_works: "deque[Any]" = deque(maxlen=64)
_set_forward_work = dist.Reducer._set_forward_pass_work_handle


def _keep_forward_work(reducer: Any, work: Any, *arguments: Any, **named: Any) -> Any:
    """Keeps the work that the join() of a DDP model gives to C++. From there, PyTorch reaches the methods of this
    package only while the object of Python lives, and would otherwise wait for ever."""
    if isinstance(work, Work):
        _forward_works.append(work)
    return _set_forward_work(reducer, work, *arguments, **named)


dist.Reducer._set_forward_pass_work_handle = _keep_forward_work
if "RONDO" not in dist.Backend._plugins:
    dist.Backend.register_backend("rondo", _make, extended_api=True, devices=["cpu", "cuda"])
# split_group() would attach a recorder that only works with backends in C++.
getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).add("rondo")
