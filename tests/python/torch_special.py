# SPDX-License-Identifier: Apache-2.0
"""Cases for torch_program.py: sparse tensors, tensors that are not contiguous, split groups, uneven batches, receives
from any rank, and barriers that name missing ranks."""

import datetime
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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


def apart(name, rank, size, limit=LIMIT):
    """Returns another group of all ranks, whose store has a prefix."""
    return rondo.torch.ProcessGroup(dist.PrefixStore(name, dist.group.WORLD.get_group_store()), rank, size, limit)


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
    # All ranks refuse tensors that differ in a size, in the number of dimensions or in that of sparse dimensions.
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


def spread(content):
    """Returns a tensor with this content that has gaps in memory, and whose rows are the columns of the memory."""
    made = torch.full((2 * content.shape[1], content.shape[0]), -1.0, dtype=content.dtype)[::2].t()
    made.copy_(content)
    assert not made.is_contiguous()
    return made


def strides(rank, size):
    """Passes tensors that are not contiguous. On rank 1 they are, so that the order in memory differs."""
    def mine(content):
        return content.clone() if rank == 1 else spread(content)
    plain = torch.arange(6.0).view(2, 3)
    x, total = mine(plain + rank), size * plain + sum(range(size))
    dist.all_reduce(x)
    equal(x, total)
    y = mine((plain + rank).long())
    dist.all_reduce(y, dist.ReduceOp.BOR)
    expected = plain.long()
    for each in range(1, size):
        expected = expected | (plain.long() + each)
    equal(y, expected)
    x = mine(plain + rank)
    dist.reduce(x, dst=1)
    equal(x, total if rank == 1 else plain + rank)
    dist.broadcast(x, src=2)
    equal(x, plain + 2)
    everybody = [plain + each for each in range(size)]
    outputs = [mine(torch.zeros(2, 3)) for _ in range(size)]
    dist.all_gather(outputs, mine(plain + rank))
    equal(outputs, everybody)
    whole = mine(torch.zeros(2 * size, 3))
    work = dist.all_gather_into_tensor(whole, mine(plain + rank), async_op=True)
    work.wait()
    equal(whole, torch.cat(everybody))
    part = mine(torch.zeros(2, 3))
    dist.reduce_scatter_tensor(part, mine(torch.cat(everybody)))
    equal(part, size * (plain + rank))
    part = mine(torch.zeros(2, 3))
    dist.reduce_scatter(part, [mine(each) for each in everybody])
    equal(part, size * (plain + rank))
    outputs = [mine(torch.zeros(2, 3)) for _ in range(size)] if rank == 0 else None
    dist.gather(mine(plain + rank), outputs)
    equal(outputs or [], everybody if rank == 0 else [])
    x = mine(torch.zeros(2, 3))
    dist.scatter(x, [mine(each) for each in everybody] if rank == 0 else None)
    equal(x, plain + rank)
    outputs = [mine(torch.zeros(2, 3)) for _ in range(size)]
    dist.all_to_all(outputs, [mine(plain + rank) for _ in range(size)])
    equal(outputs, everybody)


def splits(rank, size):
    """Splits groups. The ranks of a new group have the order that the caller gives."""
    group = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    dist.barrier()
    assert group._get_sequence_number_for_group() == before + 1
    assert not group._has_hooks() and not group.supports_window and not group.supports_reconfigure
    if rondo.torch.VERSION < (2, 15):
        return  # older versions split only groups that are bound to a device
    pairs = [[1, 0], list(range(2, size))]
    part = dist.split_group(split_ranks=pairs)
    ours = pairs[rank > 1]
    assert dist.get_process_group_ranks(part) == ours and dist.get_backend(part) == "rondo"
    x = torch.tensor([rank])
    dist.broadcast(x, src=ours[0], group=part)
    equal(x, torch.tensor([ours[0]]))
    alone = dist.split_group(part, split_ranks=[[0]])
    assert (alone is dist.GroupMember.NON_GROUP_MEMBER) == (part.rank() > 0)
    if part.rank() == 0:
        dist.all_reduce(x, group=alone)
        equal(x, torch.tensor([ours[0]]))
        dist.destroy_process_group(alone)
    dist.barrier(group=part)
    dist.destroy_process_group(part)


def uneven(rank, size):
    """Trains with a number of batches that differs between ranks, and compares with gloo."""
    others = dist.new_group(list(range(size)), backend="gloo")
    weights = []
    for group, by_present in ((None, True), (others, True), (None, False), (others, False)):
        torch.manual_seed(3)
        model = DistributedDataParallel(torch.nn.Linear(4, 2), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with model.join(divide_by_initial_world_size=not by_present):
            for batch in range(2 + rank):
                optimizer.zero_grad()
                model(torch.full((3, 4), 0.1 * (batch + rank))).square().sum().backward()
                optimizer.step()
        weights.append(model.module.weight.detach().clone())
    assert (weights[0] - weights[1]).abs().max() < 1e-6, weights
    assert (weights[2] - weights[3]).abs().max() < 1e-6, weights
    assert not torch.equal(weights[0], weights[2])


def any_source(rank, size):
    last, count = size - 1, 4
    if rank == last:
        got = {source: [] for source in range(last)}
        for number in range(count * last):
            x = torch.zeros(2, dtype=torch.int64)
            if number % 2:
                source = dist.recv(x)
            else:
                work = dist.irecv(x)
                equal(work.get_future().wait(), [x])
                source = work._source_rank()
            got[source].append(x.tolist())
        assert got == {source: [[source, number] for number in range(count)] for source in range(last)}, got
    else:
        for number in range(count):
            dist.send(torch.tensor([rank, number]), last)
    # Receives get a rank's messages in the order in which the receives were posted, also on a channel used before.
    for _ in range(2):
        x = torch.zeros(3, dtype=torch.int64)
        if rank == 0:
            works = [dist.irecv(each, source, tag=3) for each, source in zip(x.split(1), (None, 1, None))]
            dist.barrier()
            for work in works:
                work.wait()
            equal(x, torch.tensor([1, 2, 3]))
        else:
            dist.barrier()
            for number in (1, 2, 3) if rank == 1 else ():
                dist.send(torch.tensor([number]), 0, tag=3)
    pair = dist.new_group([1, 2])
    if rank == 1:
        assert dist.recv(torch.empty(1 << 18), group=pair) == 2
        error = expect(rondo.InvalidArgument, lambda: pair.recv_anysource([torch.empty(1)] * 2))
        assert "one tensor, not 2" in str(error), error
    elif rank == 2:
        dist.send(torch.ones(1 << 18), 1, group=pair)
    short = rondo.torch.ProcessGroup(dist.PrefixStore("short any", dist.group.WORLD.get_group_store()), rank, size,
                                     datetime.timedelta(seconds=1))
    if rank == 0:
        error = expect(rondo.TimeoutError, lambda: short.recv_anysource([torch.empty(1)], 7).wait())
        assert "tag 7" in str(error) and "none of the ranks 1, 2, 3 has sent one within 1 s" in str(error), error
        lone = apart("lone any", rank, size)
        works = [lone.recv_anysource([torch.empty(1)]), lone.recv([torch.empty(1)], 1)]
        lone.shutdown()
        for work in works:
            expect(rondo.AbortedError, work.wait)
        expect(rondo.AbortedError, lambda: lone.send([torch.empty(1)], 1))
    dist.barrier()


def monitored(rank, size):
    """Runs barriers that name missing ranks. Once one rank is missing, and once two ranks are."""
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
    """Makes groups again under prefixes of other groups. Those have passed a barrier, and have failed at one."""
    store = dist.group.WORLD.get_group_store()
    for number in range(3):
        group = apart("remade", rank, size)
        for come in (f"come {number}", f"come again {number}"):
            if rank == 3:
                time.sleep(0.3)  # the others must wait this long
                store.set(come, "")
            group.monitored_barrier(LIMIT)
            assert store.check([come]), "rank 3 was not waited for"
        x, got = torch.ones(1), torch.zeros(1)
        group.allreduce(x).wait()
        equal(x, torch.full((1,), float(size)))
        works = [group.send([x], (rank + 1) % size), group.recv([got], (rank - 1) % size)]
        for work in works:
            work.wait()
        equal(got, x)
        keys = dist.PrefixStore("remade", store)
        for key in ("collectives/cpu/0", f"message/{(rank - 1) % size}/{rank}/0"):
            assert not keys.check([key]), f"a later group would take the id of {key}"
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
