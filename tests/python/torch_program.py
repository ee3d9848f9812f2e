# SPDX-License-Identifier: Apache-2.0
"""One rank of a job, for torch_test.py: torch_program.py STORE RANK SIZE CASE... It prints a line for each case."""

import datetime
import importlib.util
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rondo
import rondo.torch
from torch_device import captured, completers, device_waits, other_backends, windows
from torch_special import LIMIT, any_source, apart, equal, expect, monitored, remade, sparse, splits, strides, uneven

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)


def of_rank(rank, count=6, dtype=torch.float32):
    """Returns numbers that differ between ranks."""
    return (torch.arange(count) + 10 * rank).to(dtype)


def reductions(rank, size):
    for dtype in DTYPES:
        ones = [of_rank(each, dtype=dtype) for each in range(size)]
        stacked = torch.stack([one.to(torch.float64) for one in ones])
        for op, expected in ((dist.ReduceOp.SUM, stacked.sum(0)), (dist.ReduceOp.MAX, stacked.amax(0)),
                             (dist.ReduceOp.MIN, stacked.amin(0))):
            x = ones[rank].clone()
            dist.all_reduce(x, op)
            equal(x, expected.to(dtype))
            x = ones[rank].clone()
            dist.reduce(x, dst=size - 1, op=op)
            equal(x, expected.to(dtype) if rank == size - 1 else ones[rank])
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    equal(x, torch.full((3,), (size + 1) / 2))
    factors = [0.5 + each for each in range(size)]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        mine = of_rank(0, dtype=dtype) + rank
        expected = sum(factor * (of_rank(0, dtype=torch.float64) + each) for each, factor in enumerate(factors))
        for factor in (factors[rank], torch.tensor(factors[rank], dtype=dtype)):
            scaled = dist._make_nccl_premul_sum(factor)
            x = mine.clone()
            dist.all_reduce(x, scaled)
            equal(x, expected.to(dtype))
            whole, part = mine.repeat(size), torch.empty(6, dtype=dtype)
            dist.reduce_scatter_tensor(part, whole, scaled)
            equal(part, expected.to(dtype))
    x = torch.full((3,), 2, dtype=torch.int64)
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    equal(x, torch.full((3,), 2 ** size))
    for op, expected in ((dist.ReduceOp.BAND, 0), (dist.ReduceOp.BOR, 2 ** size - 1)):
        x = torch.tensor([1 << rank])
        dist.all_reduce(x, op)
        equal(x, torch.tensor([expected]))
    x = torch.tensor([rank == 0, True, False])
    dist.all_reduce(x, dist.ReduceOp.MIN)
    equal(x, torch.tensor([size == 1, True, False]))
    x = torch.tensor([1 + 1j * rank])
    dist.all_reduce(x)
    equal(x, torch.tensor([size + 1j * sum(range(size))]))


def copies(rank, size):
    for dtype in (*DTYPES, torch.bool, torch.int16, torch.complex64):
        x = of_rank(rank, dtype=dtype)
        dist.broadcast(x, src=1)
        equal(x, of_rank(1, dtype=dtype))
        mine, everybody = of_rank(rank, dtype=dtype), [of_rank(each, dtype=dtype) for each in range(size)]
        outputs = [torch.empty(6, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, mine)
        equal(outputs, everybody)
        whole = torch.empty(6 * size, dtype=dtype)
        dist.all_gather_into_tensor(whole, mine)
        equal(whole, torch.cat(everybody))
        in_a_row = list(torch.empty(6 * size, dtype=dtype).chunk(size))
        dist.all_gather(in_a_row, mine)
        equal(in_a_row, everybody)
        outputs = [torch.empty(6, dtype=dtype) for _ in range(size)] if rank == 1 else None
        dist.gather(mine, outputs, dst=1)
        equal(outputs or [], everybody if rank == 1 else [])
        output = torch.empty(6, dtype=dtype)
        dist.scatter(output, everybody if rank == 0 else None, src=0)
        equal(output, mine)
    uneven = [torch.empty(each + 1) for each in range(size)]
    dist.all_gather(uneven, of_rank(rank, rank + 1))
    equal(uneven, [of_rank(each, each + 1) for each in range(size)])
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things == [{"rank": each} for each in range(size)], things
    empty = torch.empty(0)
    dist.all_reduce(empty)
    dist.broadcast(empty, src=0)


def blocks(rank, size):
    parts = [torch.full((2,), float(each)) for each in range(size)]
    output = torch.empty(2)
    dist.reduce_scatter(output, parts)
    equal(output, torch.full((2,), float(rank * size)))
    dist.reduce_scatter_tensor(output, torch.cat(parts))
    equal(output, torch.full((2,), float(rank * size)))
    inputs = [torch.tensor([10 * rank + each]) for each in range(size)]
    outputs = [torch.empty(1, dtype=torch.int64) for _ in range(size)]
    dist.all_to_all(outputs, inputs)
    equal(outputs, [torch.tensor([10 * each + rank]) for each in range(size)])
    output = torch.empty(size, dtype=torch.int64)
    dist.all_to_all_single(output, torch.cat(inputs))
    equal(output, torch.cat(outputs))
    # Rank r sends c + 1 rows to rank c.
    rows = torch.cat([torch.full((each + 1, 2), 10.0 * rank + each) for each in range(size)])
    got = torch.empty((rank + 1) * size, 2)
    dist.all_to_all_single(got, rows, [rank + 1] * size, [each + 1 for each in range(size)])
    equal(got, torch.cat([torch.full((rank + 1, 2), 10.0 * each + rank) for each in range(size)]))


def limited(timeout):
    """Returns the options of a barrier with a limit of its own."""
    return SimpleNamespace(asyncOp=False, timeout=timeout, device=torch.device("cpu"))


def asynchronous(rank, size):
    store = dist.group.WORLD.get_group_store()
    x = [torch.full((1000,), float(each)) for each in range(5)]
    works = [dist.all_reduce(each, async_op=True) for each in x]
    for each, work in enumerate(works):
        work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
        equal(x[each], torch.full((1000,), float(each * size)))
    outputs = [torch.empty(3) for _ in range(size)]
    future = dist.all_gather(outputs, torch.full((3,), float(rank)), async_op=True).get_future()
    equal(future.wait(), [torch.full((3,), float(each)) for each in range(size)])
    several = dist.group.WORLD.allgather_into_tensor_coalesced(
        [torch.empty(2 * size), torch.empty(size)], [torch.full((2,), 1.0), torch.full((1,), 2.0)])
    equal(several.get_future().wait(), [torch.full((2 * size,), 1.0), torch.full((size,), 2.0)])
    several.wait()
    doubled = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: 2 * done.value()[0])
    equal(doubled.wait(), torch.full((2,), 2.0 * size))
    nested(rank, size)
    dist.barrier(async_op=True).wait()
    with torch.autograd.profiler.profile() as profiler:
        dist.all_reduce(torch.ones(2))
        dist.barrier(async_op=True).wait()
    names = [event.name for event in profiler.function_events]
    assert names.count("rondo:all_reduce") == names.count("rondo:barrier") == 1, names
    dist.group.WORLD.barrier(limited(LIMIT)).wait()
    if rank == 0:  # the other ranks call this barrier late
        expect(rondo.TimeoutError, lambda: dist.group.WORLD.barrier(limited(datetime.timedelta(milliseconds=10))))
        store.set("late barrier", "")
    else:
        while not store.check(["late barrier"]):
            time.sleep(0.001)
        dist.barrier()
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        tensors = [torch.ones(2), torch.ones(3)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    equal(tensors, [torch.full((2,), float(size)), torch.full((3,), float(size))])


def nested(rank, size):
    """Waits for futures in callbacks of futures. Rank 0 joins only when rank 1 has added its callbacks."""
    store, x = dist.group.WORLD.get_group_store(), [torch.full((2,), each + 1.0) for each in range(4)]

    def begun(number):
        return dist.all_reduce(x[number], async_op=True).get_future()
    while rank == 0 and not store.check(["callbacks"]):
        time.sleep(0.001)
    works = [dist.all_reduce(x[number], async_op=True) for number in (0, 1)]
    first, second = works[0].get_future(), works[1].get_future()
    inner = first.then(lambda _: second.wait() + begun(2).then(lambda _: begun(3).wait()).wait())
    if rank == 1:
        store.set("callbacks", "")
    equal(inner.wait(), [torch.full((2,), 2.0 * size), torch.full((2,), 4.0 * size)])


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    # Both ends send first. They send more than the buffers between them hold.
    big, got = torch.full((1 << 20,), float(rank)), torch.empty(1 << 20)
    works = [dist.isend(big, right), dist.irecv(got, left)]
    for work in works:
        work.wait()
    equal(got, torch.full((1 << 20,), float(left)))
    # Messages of different tags may be received in an order other than that of the sends.
    works = [dist.isend(torch.tensor([tag]), 1, tag=tag) for tag in (1, 2)] if rank == 0 else []
    for tag in (2, 1) if rank == 1 else ():
        x = torch.zeros(1, dtype=torch.int64)
        assert dist.recv(x, 0, tag=tag) == 0
        equal(x, torch.tensor([tag]))
    for work in works:
        work.wait()
    operations = [dist.P2POp(dist.isend, torch.tensor([rank]), right),
                  dist.P2POp(dist.irecv, torch.empty(1, dtype=torch.int64), left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    equal(operations[1].tensor, torch.tensor([left]))


def groups(rank, size):
    even = dist.new_group([0, 2])
    odd = dist.new_group([1, 3])
    mine = odd if rank % 2 else even
    x = torch.tensor([rank])
    dist.all_reduce(x, group=mine)
    equal(x, torch.tensor([4 if rank % 2 else 2]))
    x = torch.tensor([rank])
    dist.broadcast(x, src=2 + rank % 2, group=mine)
    equal(x, torch.tensor([2 + rank % 2]))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    for name, expected in (("rows", 2 * (rank % 2) + 2), ("columns", 4 * (rank // 2) + 1)):
        x = torch.tensor([rank])
        dist.all_reduce(x, group=mesh.get_group(name))
        equal(x, torch.tensor([expected]))
    turned, whole = torch.ones(4, 4).t(), torch.empty(4, 4)
    for call, said in ((lambda: dist.send(turned, (rank + 1) % size), "must be contiguous"),
                       (lambda: dist.all_to_all_single(whole, turned), "must be contiguous"),
                       (lambda: dist.all_reduce(torch.ones(1).expand(4)), "share memory"),
                       (lambda: dist.all_reduce(torch.ones(1).short()), "convert the tensor"),
                       (lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.BOR), "needs integers"),
                       (lambda: dist.group.WORLD.allreduce_coalesced([]), "list of tensors is empty")):
        error = expect(rondo.Error, call)
        assert said in str(error), error


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def losses(wrapped, rank, steps=8):
    """Returns the losses of a training in which each rank has its own data."""
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    generator, seen = torch.Generator().manual_seed(rank), []
    for _ in range(steps):
        x, y = torch.randn(16, 32, generator=generator), torch.randn(16, 4, generator=generator)
        loss = nn.functional.mse_loss(wrapped(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return torch.tensor(seen)


def sharded(mesh):
    made = model()
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def trainings(rank, size):
    others = dist.new_group(list(range(size)), backend="gloo")
    expected = losses(DistributedDataParallel(model(), process_group=others), rank)
    got = losses(DistributedDataParallel(model(), bucket_cap_mb=0.01), rank)
    assert (got - expected).abs().max() < 1e-6, (got, expected)
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        hooked = DistributedDataParallel(model())
        hooked.register_comm_hook(None, hook)
        got, limit = losses(hooked, rank), 1e-6 if hook is default_hooks.allreduce_hook else 1e-2
        assert (got - expected).abs().max() < limit, (hook, got, expected)
    if importlib.util.find_spec("numpy") is not None:  # PowerSGD needs it, and waits for futures in callbacks
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook  # pylint: disable=import-outside-toplevel
        seen = []
        for group in (None, others):
            hooked = DistributedDataParallel(model(), process_group=group)
            state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2,
                                                min_compression_rate=1)
            hooked.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
            seen.append(losses(hooked, rank))
        assert (seen[0] - seen[1]).abs().max() < 1e-4, seen
    mesh = init_device_mesh("cpu", (size,))
    for shared in (False, True):
        wrapped = sharded(mesh)
        wrapped.set_allocate_memory_from_process_group_for_comm(shared)
        got = losses(wrapped, rank)
        assert (got - expected).abs().max() < 1e-6, (shared, got, expected)


def death(rank, size):
    """Kills rank 2 in the middle of two groups: the group of ranks 1 and 2, and the whole group."""
    pair = dist.new_group([1, 2])
    dist.barrier()
    if rank in (1, 2):
        dist.barrier(group=pair)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        error = expect(rondo.RemoteError, lambda: dist.all_reduce(torch.ones(1), group=pair))
        assert error.peer == 2 and "global rank 2" in str(error), error
        expect(rondo.CommFailedError, lambda: dist.all_reduce(torch.ones(1), group=pair))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    error = expect(rondo.RemoteError, work.wait)
    assert error.peer == 2 and "rank 2" in str(error), error
    assert work.is_completed() and not work.is_success() and work.exception() is error
    assert "rank 2" in str(expect(RuntimeError, work.get_future().wait))


def lateness(rank, size):
    """Lets a deadline pass because rank 1 does not call. Aborts an operation that no other rank joins."""
    short = apart("short", rank, size, datetime.timedelta(seconds=10))
    short.allreduce(torch.ones(1)).wait()
    if rank != 1:
        error = expect(rondo.TimeoutError, lambda: short.allreduce(torch.ones(1)).wait())
        assert error.peer == 1, error
    dist.barrier()
    short = apart("apart", rank, size, datetime.timedelta(seconds=1))
    if rank != 1:
        error = expect(rondo.TimeoutError, lambda: short.barrier().wait())
        assert "timeout= of init_process_group()" in str(error), error
    dist.barrier()
    if rank == 0:
        error = expect(rondo.TimeoutError, lambda: apart("limited", rank, size).barrier(
            limited(datetime.timedelta(milliseconds=500))))
        assert "0.5 s" in str(error), error
    lone = apart("lone", rank, size)
    lone.barrier().wait()
    if rank == 0:
        work = lone.allreduce(torch.ones(1))
        expect(TimeoutError, lambda: work.wait(datetime.timedelta(milliseconds=20)))
        threading.Thread(target=lambda: (time.sleep(0.1), lone.abort())).start()
        expect(rondo.Error, work.wait)
        unheard = apart("unheard", rank, size, datetime.timedelta(hours=1))
        works = [unheard.recv([torch.empty(1)], 1), unheard.send([torch.ones(1)], 2)]  # without a counterpart
        unheard.abort()
        for work in works:
            expect(rondo.AbortedError, work.wait)
    dist.barrier()
    for limit in (datetime.timedelta(seconds=180000000), datetime.timedelta.max):
        x = torch.ones(1)
        patient = apart(f"patient {limit}", rank, size, limit)
        patient.allreduce(x).wait()
        equal(x, torch.full((1,), float(size)))
        works = [patient.send([x], (rank + 1) % size), patient.recv_anysource([torch.empty(1)])]
        for work in works:
            work.wait()
        dist.barrier()
        patient.shutdown()


def memory(rank, size):
    """Allocates memory that peers read in place, and checks that freed memory is used again."""
    group = dist.group.WORLD
    assert group.supports_tensor_alloc(torch.device("cpu")) and not group.supports_tensor_alloc(torch.device("meta"))
    x = group.allocate_tensor(100000, dtype=torch.bfloat16, device=torch.device("cpu"))
    x.fill_(rank)
    dist.all_reduce(x)
    equal(x, torch.full((100000,), sum(range(size)), dtype=torch.bfloat16))
    part, place = x[50000:], x.data_ptr()
    del x
    other = group.allocate_tensor(100000, dtype=torch.bfloat16, device="cpu")
    assert other.data_ptr() != place, "a view of the memory lives"
    del part
    again = group.allocate_tensor(200000, dtype=torch.uint8, device="cpu")
    assert again.data_ptr() == place
    assert group.allocate_tensor(0, dtype=torch.float32, device="cpu").numel() == 0


CASES = {case.__name__: case for case in (reductions, sparse, monitored, remade, copies, blocks, asynchronous, messages,
                                          any_source, groups, memory, trainings, death, lateness,
                                          captured, completers, device_waits, other_backends, windows, splits, strides,
                                          uneven)}


def main():
    store, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("rondo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=LIMIT)
    assert dist.get_backend() == "rondo" and dist.get_rank() == rank and dist.get_world_size() == size
    for name in sys.argv[4:]:
        CASES[name](rank, size)
        print(f"done: {name}", flush=True)
    if "death" not in sys.argv:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
