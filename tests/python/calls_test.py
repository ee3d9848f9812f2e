# SPDX-License-Identifier: Apache-2.0
"""Tests the calls of the Python package against sums and blocks that Python computes, with ranks as threads."""

import array
import gc
import pickle
import threading
import time
import unittest
import unittest.mock
import weakref

import ranks
import rondo
from rondo import _communicator

SIZE = 3
OPS = {"sum": sum, "prod": lambda values: values[0] * values[1] * values[2], "min": min, "max": max,
       "avg": lambda values: sum(values) // 3}


def ints(values):
    return array.array("i", values)


class Collectives(unittest.TestCase):
    def each(self, body, wanted, **options):
        """Runs body(comm) on every rank, and compares its result with wanted(rank)."""
        for rank, made in enumerate(ranks.as_threads(SIZE, body, **options)):
            self.assertEqual(made, wanted(rank), f"rank {rank}")

    def test_all_reduce_with_each_operation_in_place_and_out_of_place(self):
        def body(comm):
            made = []
            for op in [*OPS, *rondo.Op]:
                x = ints([comm.rank + 2, 5])
                out = comm.all_reduce(x, out=ints([0, 0]), op=op)
                assert x.tolist() == [comm.rank + 2, 5]
                assert comm.all_reduce(x, op=op) is x and x == out
                made.append(out.tolist())
            return made
        wanted = [[of([2, 3, 4]), of([5, 5, 5])] for of in OPS.values()]
        self.each(body, lambda rank: wanted * 2)

    def test_broadcast_and_reduce_from_and_to_each_root(self):
        def body(comm):
            made = []
            for root in range(SIZE):
                made.append(comm.broadcast(ints([comm.rank]), root=root)[0])
                made.append(comm.broadcast(ints([comm.rank]), out=ints([9]), root=root)[0])
                made.append(comm.reduce(ints([comm.rank + 1]), root=root, op="prod")[0])
                made.append(comm.reduce(ints([1]), out=ints([0]), root=root)[0])
            return made

        def wanted(rank):
            return sum(([root, root, 6 if rank == root else rank + 1, 3 if rank == root else 0]
                        for root in range(SIZE)), [])
        self.each(body, wanted)

    def test_gather_and_scatter_of_equal_blocks(self):
        def body(comm):
            mine = ints([comm.rank, 10 + comm.rank])
            parts = comm.all_gather(mine)
            whole = ints([-1] * 6)
            begin = 2 * comm.rank
            memoryview(whole)[begin:begin + 2] = mine
            comm.all_gather(memoryview(whole)[begin:begin + 2], out=whole)  # in place
            assert parts == whole
            return parts.tolist(), comm.reduce_scatter(parts, op="sum").tolist()
        self.each(body, lambda rank: ([0, 10, 1, 11, 2, 12], [3 * rank, 30 + 3 * rank]))

    def test_gather_and_scatter_of_blocks_that_differ(self):
        counts = [2, 0, 1]

        def body(comm):
            mine = ints([comm.rank + 1] * counts[comm.rank])
            packed = comm.all_gather_v(mine, counts)
            spread = comm.all_gather_v(mine, counts, displacements=[3, 0, 1], out=ints([0] * 6))
            block = comm.reduce_scatter_v(packed, counts)
            return packed.tolist(), spread.tolist(), block.tolist()
        self.each(body, lambda rank: ([1, 1, 3], [0, 3, 0, 1, 1, 0], [[3, 3], [], [9]][rank]))

    def test_an_empty_block_takes_no_room_wherever_it_is(self):
        def body(comm):
            mine = ints([comm.rank + 1] * (comm.rank == 0))
            with self.assertRaisesRegex(rondo.InvalidArgument, "output has 3 .* result has 4"):
                comm.all_gather_v(mine, [1, 0, 0], displacements=[3, 9, 9], out=ints([0] * 3))
            nothing = comm.all_to_all_v(ints([]), [0] * 3, [0] * 3, recv_displacements=[7, 8, 9])
            return comm.all_gather_v(mine, [1, 0, 0], displacements=[1, 9, 8]).tolist(), nothing.tolist()
        self.each(body, lambda rank: ([0, 1], []))

    def test_all_to_all_of_equal_blocks_and_of_blocks_that_differ(self):
        def body(comm):
            x = ints([10 * comm.rank + to for to in range(SIZE)])
            out = comm.all_to_all(x, out=ints([0] * SIZE)).tolist()
            assert comm.all_to_all(x) is x and x.tolist() == out
            mine = ints([comm.rank] * 6)
            got = comm.all_to_all_v(mine, send_counts=[1, 2, 3], recv_counts=[comm.rank + 1] * SIZE)
            spread = comm.all_to_all_v(mine, [1] * SIZE, [1] * SIZE, send_displacements=[5, 3, 0],
                                       recv_displacements=[2, 1, 0])
            return out, got.tolist(), spread.tolist()
        self.each(body, lambda rank: ([rank, 10 + rank, 20 + rank],
                                      sum(([of] * (rank + 1) for of in range(SIZE)), []), [2, 1, 0]))

    def test_gather_to_and_scatter_from_each_root(self):
        def body(comm):
            made = []
            for root in range(SIZE):
                here = comm.rank == root
                all_of_it = comm.gather(ints([comm.rank, 7]), root=root)
                made.append(all_of_it.tolist() if here else all_of_it)
                made.append(comm.scatter(all_of_it, out=ints([0, 0]), root=root).tolist())
                uneven = comm.gather_v(ints([comm.rank] * comm.rank), counts=[0, 1, 2] if here else None, root=root)
                made.append(uneven.tolist() if here else uneven)
                made.append(comm.scatter_v(uneven, out=ints([9] * comm.rank), counts=[0, 1, 2] if here else None,
                                           root=root).tolist())
            return made

        def wanted(rank):
            return sum(([[0, 7, 1, 7, 2, 7] if rank == root else None, [rank, 7], [1, 2, 2] if rank == root else None,
                         [rank] * rank] for root in range(SIZE)), [])
        self.each(body, wanted)

    def test_barrier_and_statistics(self):
        def body(comm):
            comm.barrier()
            comm.all_reduce(ints([1, 2]))
            found = comm.statistics()
            assert set(found.collectives) == {"barrier", "all_reduce"} and found.waits_seen
            return found.total.operations, found.collectives["all_reduce"].bytes, comm.memory().used_bytes > 0
        self.each(body, lambda rank: (2, 8, True))

    def test_what_a_communicator_says_about_itself(self):
        def body(comm):
            about = comm.properties()
            plan = comm.query_plan("all_reduce", 1 << 20)
            assert about.device is None and about.device_executor is rondo.DeviceExecutor.AUTO
            assert plan.channels >= 1 and isinstance(plan.kernel, rondo.Kernel) and about.group_hash != 0
            return about.rank, about.rank_count, about.local_rank_count, comm.rank, comm.size, comm.async_error()
        self.each(body, lambda rank: (rank, SIZE, SIZE, rank, SIZE, None))

    def test_options_reach_the_library(self):
        self.each(lambda comm: comm.query_plan("all_reduce", 1000).algorithm, lambda rank: rondo.Algorithm.TREE,
                  algorithm="tree", kernel=rondo.Kernel.INTERPRETER, channels=2)
        for wrong in ({"algorithm": "circle"}, {"channels": -1}, {"channels": 1 << 40}, {"timeout": 0}):
            with self.assertRaises(rondo.InvalidArgument):
                rondo.init(**wrong)
        with self.assertRaisesRegex(TypeError, "no option 'chanels'.*channels"):
            rondo.init(chanels=2)

    def test_registered_buffers(self):
        def body(comm):
            x = array.array("d", [comm.rank] * 5000)
            end = weakref.ref(x)
            with comm.register(x, move_pages=False) as registration:
                comm.all_reduce(x)
                with self.assertRaises(rondo.InvalidArgument):
                    comm.register(x)  # it overlaps
            registration.deregister()
            comm.register(x)  # it ends with the communicator, and keeps the buffer alive
            last = x[-1]
            del x
            gc.collect()
            assert end() is not None
            return last
        self.each(body, lambda rank: 3.0)


class Messages(unittest.TestCase):
    def test_a_ring_of_messages_in_a_group(self):
        def body(comm):
            out = ints([0] * 1000)
            with rondo.group():
                comm.send(ints([comm.rank] * 1000), peer=(comm.rank + 1) % SIZE)  # the group keeps the buffer alive
                comm.recv(out, peer=(comm.rank - 1) % SIZE)
            return out[-1]
        self.assertEqual(ranks.as_threads(SIZE, body), [2, 0, 1])

    def test_a_group_keeps_its_buffers_alive(self):
        with rondo.init() as comm:
            x = ints([1])
            end = weakref.ref(x)
            with rondo.group():
                comm.all_reduce(x)
                del x
                gc.collect()
                self.assertIsNotNone(end())
            self.assertIsNone(end())

    def test_a_message_outside_of_a_group(self):
        def body(comm):
            if comm.rank == 0:
                return comm.send(b"word", peer=1)
            return bytes(comm.recv(bytearray(4), peer=0))
        self.assertEqual(ranks.as_threads(2, body), [None, b"word"])

    def test_collectives_of_a_group_run_at_its_end(self):
        def body(comm):
            x, y = ints([1]), ints([comm.rank])
            with rondo.group():
                comm.all_reduce(x)
                with rondo.group():
                    comm.broadcast(y, root=1)
                before = x[0], comm.statistics().total.operations
            return before, x[0], y[0]
        self.assertEqual(ranks.as_threads(2, body), [((1, 0), 2, 1)] * 2)

    def test_an_exception_gives_the_group_up(self):
        with rondo.init() as comm:
            x = ints([7])
            with self.assertRaises(KeyError):
                with rondo.group():
                    comm.all_reduce(x)
                    raise KeyError
            self.assertEqual(comm.statistics().total.operations, 0)
            comm.all_reduce(x)  # the thread's group has ended
            self.assertEqual(comm.statistics().total.operations, 1)

    def test_an_exception_in_an_inner_group_gives_all_of_it_up(self):
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidUsage, "inside of this one"):
                with rondo.group():
                    comm.all_reduce(ints([1]))
                    try:
                        with rondo.group():
                            raise KeyError
                    except KeyError:
                        pass
                    comm.all_reduce(ints([2]))
            self.assertEqual(comm.statistics().total.operations, 0)
            with self.assertRaises(KeyError):
                with rondo.group(), rondo.group():
                    raise KeyError
            comm.barrier()

    def test_a_refused_call_gives_the_group_up(self):
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidArgument, "peer"):
                with rondo.group():
                    comm.all_reduce(ints([1]))
                    comm.send(ints([1]), peer=5)
            self.assertEqual(comm.statistics().total.operations, 0)

    def test_groups_of_two_threads_are_apart(self):
        with rondo.init() as comm:
            with rondo.group():
                other = rondo.Communicator(rondo.unique_id(), rank=0, size=1)
                thread = threading.Thread(target=lambda: other.all_reduce(ints([1])))
                thread.start()
                thread.join(ranks.LIMIT_S)
                self.assertEqual(other.statistics().total.operations, 1)
                other.destroy()
                comm.barrier()
            self.assertEqual(comm.statistics().total.operations, 1)


class Life(unittest.TestCase):
    def test_an_id_travels_and_hides_its_secret(self):
        name = rondo.unique_id()
        self.assertEqual((len(name), repr(name), str(name), f"{name}"), (128, *["<rondo.UniqueId>"] * 3))
        self.assertEqual(pickle.loads(pickle.dumps(name)), name)
        made = [None, None]

        def join(rank):
            with rondo.Communicator(bytes(name), rank=rank, size=2, timeout=60, init_timeout=60) as comm:
                made[rank] = comm.all_reduce(ints([rank + 1]))[0]
        threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ranks.LIMIT_S)
        self.assertEqual(made, [3, 3])
        rondo.unique_id().free()

    def test_parts_of_a_communicator(self):
        def body(comm):
            half = comm.split(color=comm.rank % 2, key=-comm.rank)
            none = comm.split(color=None if comm.rank else 0, timeout=30)
            assert comm.split(color=-1) is None  # RONDO_NO_COLOR
            with half:
                total = half.all_reduce(ints([comm.rank]))[0]
            return half.rank, half.size, total, none is None
        self.assertEqual(ranks.as_threads(3, body), [(1, 2, 2, False), (0, 1, 1, True), (0, 2, 2, True)])

    def test_a_nonblocking_communicator_becomes_ready(self):
        name = rondo.unique_id()
        comms = [rondo.Communicator(name, rank, 2, nonblocking=True) for rank in range(2)]
        for comm in comms:
            comm.wait_ready()
            self.assertTrue(comm.ready())
        with rondo.init(nonblocking=1) as alone:
            alone.wait_ready()
            self.assertEqual((alone.rank, alone.size), (0, 1))
        for comm in comms:
            comm.abort()
            comm.destroy()

    def test_an_option_is_a_number_that_its_field_can_hold(self):
        with rondo.init(max_memory_bytes=1 << 33) as alone:
            self.assertEqual(alone.all_reduce(ints([7]))[0], 7)
        for name, most in (("max_memory_bytes", (1 << 64) - 1), ("channels", (1 << 32) - 1)):
            with self.assertRaisesRegex(rondo.InvalidArgument, f"{name} is a whole number from 0 to {most}, not"):
                rondo.init(**{name: most + 1})

    def test_a_part_with_options_keeps_the_device(self):
        with rondo.init() as comm:
            about, given = comm.properties(), []

            def refuse(_handle, _color, _key, config, _part):
                given.append(config._obj.device)
                return int(rondo.Status.UNSUPPORTED)
            with unittest.mock.patch.object(_communicator.C, "rondo_comm_split", refuse), \
                    unittest.mock.patch.object(comm, "properties", lambda: about._replace(device=3)):
                for options in ({"timeout": 30}, {"channels": 2, "device": 1}, {"timeout": 30, "device": -1}):
                    with self.assertRaises(rondo.UnsupportedError):
                        comm.split(0, **options)
            self.assertEqual(given, [3, 1, -1])

    def test_a_communicator_that_is_not_made_has_no_rank_yet(self):
        begun = threading.Event()

        def body(comm):
            if comm.rank == 1:
                assert begun.wait(ranks.LIMIT_S)  # so rank 0's part cannot be made before this
            with comm.split(color=0, nonblocking=1) as part:
                if comm.rank == 0:
                    calls = (lambda: part.rank, lambda: part.size, lambda: part.reduce_scatter(ints([1])),
                             lambda: part.all_gather(ints([1]), out=ints([0, 0])),
                             lambda: part.all_gather_v(ints([1]), [1, 0]), lambda: part.gather(ints([1])))
                    for call in calls:
                        with self.assertRaises(rondo.NotReadyError):
                            call()
                    assert repr(part) == "<rondo.Communicator: not ready>"
                    begun.set()
                while repr(part) == "<rondo.Communicator: not ready>":
                    assert part.async_error() is None
                    time.sleep(0.001)
                return part.rank, part.size
        self.assertEqual(ranks.as_threads(2, body), [(0, 2), (1, 2)])

    def test_a_destroyed_communicator_refuses_calls(self):
        comm = rondo.init()
        comm.destroy()
        comm.destroy()
        self.assertEqual(repr(comm), "<rondo.Communicator: destroyed>")
        with rondo.init() as other:
            other.finalize()
        self.assertEqual(repr(other), repr(comm))
        for call in (lambda: comm.all_reduce(ints([1])), comm.finalize, comm.statistics, comm.barrier, comm.ready):
            with self.assertRaises(rondo.Error):
                call()

    def test_wrong_ranks_and_sizes_are_refused(self):
        name = rondo.unique_id()
        for rank, size in ((2, 2), (-1, 2), (0, 0), (1 << 40, 2)):
            with self.assertRaises(rondo.InvalidArgument):
                rondo.Communicator(name, rank, size)
        with self.assertRaisesRegex(rondo.InvalidArgument, "128 bytes"):
            rondo.Communicator(b"short", 0, 1)
        with self.assertRaises(rondo.InvalidArgument):
            rondo.init_all(0)
        with self.assertRaises(rondo.InvalidArgument):
            rondo.init_all(2, devices=[0])
        with rondo.init() as comm:
            for root in (1, -1, 1 << 32):
                with self.assertRaises(rondo.InvalidArgument):
                    comm.broadcast(ints([1]), root=root)
            for op in ("mean", None, 77, []):
                with self.assertRaisesRegex(rondo.InvalidArgument, "is no reduction. There are: sum, prod"):
                    comm.all_reduce(ints([1]), op=op)
            for counts in ([1, 1], [-1], []):
                with self.assertRaisesRegex(rondo.InvalidArgument, "counts has one number for each"):
                    comm.all_gather_v(ints([1]), counts=counts)
            for count in (1.5, "1"):
                with self.assertRaisesRegex(TypeError, "integer"):
                    comm.all_gather_v(ints([1]), counts=[count])
            with self.assertRaisesRegex(rondo.InvalidArgument, "counts has one number"):
                comm.all_gather_v(ints([1]), counts=[2 ** 64 + 1])  # C would see 1
            with self.assertRaisesRegex(rondo.InvalidArgument, r"sends 1 elements, but counts\[0\] is 2"):
                comm.all_gather_v(ints([1]), counts=[2])
            for call in (lambda: comm.gather_v(ints([1])), lambda: comm.scatter_v(ints([1]), ints([0]))):
                with self.assertRaisesRegex(rondo.InvalidArgument, "counts has one number for each"):
                    call()
            with self.assertRaisesRegex(rondo.InvalidArgument, "take 2 elements, but the array has 1"):
                comm.all_to_all_v(ints([1]), [2], [2])
            with self.assertRaisesRegex(rondo.InvalidArgument, "root has 2 elements of int32, not 1 blocks of 1"):
                comm.scatter(ints([1, 2]), ints([0]))
            with self.assertRaisesRegex(rondo.InvalidArgument, "the blocks take 2 of int32"):
                comm.scatter_v(ints([1]), ints([0]), counts=[2])
            with self.assertRaisesRegex(rondo.InvalidArgument, "sum of counts is 2"):
                comm.reduce_scatter_v(ints([1]), counts=[2])
        with self.assertRaisesRegex(rondo.InvalidArgument, "no 2 equal blocks"):
            ranks.as_threads(2, lambda comm: comm.reduce_scatter(ints([1, 2, 3])))


if __name__ == "__main__":
    unittest.main(verbosity=2)
