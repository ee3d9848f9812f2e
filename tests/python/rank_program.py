# SPDX-License-Identifier: Apache-2.0
"""One rank of a job, for processes_test.py: rank_program.py MODE. It prints its results in one line."""

import array
import os
import signal
import sys
import time

import rondo


def sums(comm):
    """Runs collectives in memory of each kind."""
    made = []
    for x in (array.array("f", [comm.rank + 1.0] * 20000), rondo.empty(20000)):
        if not isinstance(x, array.array):
            memoryview(x).cast("B").cast("f")[19999] = comm.rank + 1.0
        comm.all_reduce(x)
        made.append(memoryview(x)[19999])
    with comm.register(array.array("d", [1.0] * 5000)), rondo.Stream() as stream:
        made.append(comm.all_reduce(array.array("i", [comm.rank]), op="max", stream=stream))
    made[-1] = made[-1].result[0]
    with rondo.group():
        got = bytearray(3)
        comm.send(b"abc", peer=(comm.rank + 1) % comm.size)
        comm.recv(got, peer=(comm.rank - 1) % comm.size)
    return made, bytes(got)


def factors(comm):
    """Returns, for each collective and size, whether a sum with factors is right. Peers cannot read these arrays."""
    scaled = comm.premul_sum(comm.rank + 2)
    pairs = [(rank, rank + 2) for rank in range(comm.size)]
    right = []
    for count in (600, 12_000, 300_000):
        count -= count % comm.size
        mine = array.array("d", (i % 100 + comm.rank for i in range(count)))
        wanted = array.array("d", (sum((i % 100 + rank) * factor for rank, factor in pairs) for i in range(count)))
        made = array.array("d", bytes(8 * count))
        comm.all_reduce(mine, made, op=scaled)
        right.append(made == wanted)
        part = count // comm.size
        block = comm.reduce_scatter(mine, op=scaled)
        right.append(block == wanted[part * comm.rank : part * (comm.rank + 1)])
        comm.all_reduce(mine, op=scaled)  # in place
        right.append(mine == wanted)
    return right


def death(comm):
    """Kills rank 1 between two operations."""
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(array.array("i", [1]))
    except rondo.RemoteError as error:
        later = comm.async_error()
        return type(error).__name__, error.peer, error.operation, "rank 1" in str(error), type(later).__name__
    return None


def departed(comm):
    """Ends rank 0 once its messages are sent. Rank 1 waits for its receives only when it knows of that."""
    comm.barrier()  # rank 1 has a communicator, too
    if comm.rank == 0:
        for number in range(10):
            comm.send(array.array("q", [number]), peer=1)
        os._exit(0)
    with rondo.Stream() as stream:
        works = [comm.recv(array.array("q", [-1]), peer=0, stream=stream) for _ in range(10)]
        while not (stream.done() and comm.async_error()):
            time.sleep(0.001)
        return [work.wait() and work.result[0] for work in works], type(comm.async_error()).__name__


def asleep(comm, victim):
    """Kills a rank while the communicator is suspended. A rank that is still in suspend() may fail there already."""
    try:
        comm.suspend()
        if comm.rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.resume()
    except rondo.Error as error:
        return error.peer, f"rank {victim}" in str(error), type(comm.async_error()).__name__
    return None


def asleep_first(comm):
    return asleep(comm, 0)


def asleep_last(comm):
    return asleep(comm, 2)


def left(comm):
    """Ends the process without a call of the library."""
    comm.barrier()
    return comm.size


def main():
    comm = rondo.init(timeout=60)
    seen = {"sums": sums, "factors": factors, "death": death, "asleep_first": asleep_first, "asleep_last": asleep_last,
            "departed": departed, "left": left}[sys.argv[1]](comm)
    sys.stdout.write(f"rank {comm.rank}: {seen}\n")
    if sys.argv[1] == "sums":
        comm.finalize()
        comm.destroy()


if __name__ == "__main__":
    main()
