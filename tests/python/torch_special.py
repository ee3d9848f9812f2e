# SPDX-License-Identifier: Apache-2.0
"""Cases for torch_program.py: sparse tensors, and barriers that name missing ranks."""

import datetime
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist

import rondo
import rondo.torch

LIMIT = datetime.timedelta(minutes=2)


def equal(got, expected):
    """Compares tensors, or lists of tensors."""
    if isinstance(got, (list, tuple)):
        assert len(got) == len(expected), (got, expected)
        for one, other in zip(got, expected):
            equal(one, other)
    else:
        assert torch.equal(got, expected), (got, expected)


def expect(kind, call):
    """Returns the exception that a call raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def apart(name, rank, size):
    """Returns another group of all ranks, whose store has a prefix."""
    return rondo.torch.ProcessGroup(dist.PrefixStore(name, dist.group.WORLD.get_group_store()), rank, size, LIMIT)


class FailedLane:
    """A lane of a device. Its communicator fails before any data arrives, and only the host notices that."""

    comm = SimpleNamespace(async_error=lambda: rondo.RemoteError("rank 3 has ended", peer=3))

    def run(self, body, waits, result, finish):
        return None


def sparse(rank, size):
    # Rank r has the elements r and r + 1 of a diagonal, and rank 0 has none.
    place, values = torch.tensor([[rank, rank + 1]] * 2), torch.tensor([1, 2])
    if rank == 0:
        place, values = place[:, :0], values[:0]
    for dtype in (torch.float32, torch.int16):
        x = torch.sparse_coo_tensor(place, values, (size + 1, size + 1), dtype=dtype)
        expected = torch.diag(torch.tensor([0, 1, *[3] * (size - 2), 2])).to(dtype)
        for wait in (True, False):
            y = x.clone()
            work = dist.all_reduce(y, async_op=not wait)
            if work is not None:
                work.wait()
            equal(y.to_dense(), expected)
    # Tensors that differ in a size, in the number of dimensions or of sparse dimensions are refused on all ranks.
    whole, part = torch.eye(size + 1), torch.eye(size + 2)
    for mine, said in ((part.to_sparse(), f"[{size + 2}, {size + 2}] with 2"), (whole.to_sparse(1), "with 1 sparse"),
                       (torch.ones(size + 1).to_sparse(), f"shape [{size + 1}] with 1")):
        x = mine if rank == 2 else whole.to_sparse()
        error = expect(rondo.MismatchError, lambda: dist.all_reduce(x))  # pylint: disable=cell-var-from-loop
        assert error.peer == 2 and said in str(error), error
    x = torch.ones([1] * 18).to_sparse()
    dist.all_reduce(x)
    equal(x.to_dense(), torch.full([1] * 18, float(size)))
    failed = apart("failed", rank, size)
    failed._lane = lambda device: FailedLane()
    error = expect(rondo.RemoteError, lambda: failed.allreduce(whole.to_sparse()))
    assert error.peer == 3, error


def monitored(rank, size):
    """Runs barriers that name missing ranks, once one of them, and once both."""
    group = dist.group.WORLD
    assert torch.device("cpu") in group._device_types, group._device_types
    for everybody in (False, True, False):
        group.monitored_barrier(LIMIT, wait_all_ranks=everybody)
    for number, (everybody, said) in enumerate([(False, "Rank 1 failed"), (True, "Ranks 1, 2 failed")]):
        try:
            if rank in (1, 2):  # they call after the barrier's end
                store = group.get_group_store()
                while not store.check([f"over {number}"]):
                    time.sleep(0.01)
                group.monitored_barrier(LIMIT)
            else:
                group.monitored_barrier(LIMIT if rank else datetime.timedelta(seconds=1), everybody)
            raise AssertionError("the barrier was passed")
        except rondo.TimeoutError as error:
            text = f"Rank {rank} successfully reached monitoredBarrier" if rank else f"{said} to pass monitoredBarrier"
            assert text in str(error), error
            assert error.peer == 1, error.peer
        if rank == 0:
            group.get_group_store().set(f"over {number}", "")
        group.monitored_barrier(LIMIT)


def remade(rank, size):
    """Makes groups again under the prefix of others that have passed a barrier, and failed at one."""
    store = dist.group.WORLD.get_group_store()
    for number in range(3):
        group = apart("remade", rank, size)
        for come in (f"come {number}", f"come again {number}"):
            if rank == 3:
                time.sleep(0.3)  # the others must wait this long
                store.set(come, "")
            group.monitored_barrier(LIMIT)
            assert store.check([come]), "rank 3 was not waited for"
        group.shutdown()
        dist.barrier()
        group = apart("remade", rank, size)
        group.monitored_barrier(LIMIT)
        if rank != 3:
            limit = LIMIT if rank else datetime.timedelta(0)
            expect(rondo.TimeoutError, lambda: group.monitored_barrier(limit))  # pylint: disable=cell-var-from-loop
        dist.barrier()
        group.shutdown()
        dist.barrier()
