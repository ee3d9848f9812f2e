# SPDX-License-Identifier: Apache-2.0
"""Cases for torch_program.py that need no device: what rondo.torch asks of a CUDA device that is imitated here."""

from unittest import mock

import torch
import torch.distributed as dist

import rondo
import rondo.torch
from torch_special import apart, equal, expect

DEVICE = torch.device("cuda", 0)


def other_backends(rank, size):
    """Refuses CUDA tensors in a group that was made for tensors on the CPU."""
    group = dist.new_group(list(range(size)), backend="cpu:rondo,cuda:gloo")
    error = expect(rondo.UnsupportedError, lambda: group._lane(DEVICE))
    assert 'as "cpu:rondo,cuda:gloo"' in str(error), error
    x = torch.ones(1)
    dist.all_reduce(x, group=group)
    equal(x, torch.full((1,), float(size)))
    for served in (dist.group.WORLD, apart("other backends", rank, size)):
        with mock.patch("rondo.torch._group.rendezvous", side_effect=LookupError):
            expect(LookupError, lambda: served._lane(DEVICE))  # pylint: disable=cell-var-from-loop
