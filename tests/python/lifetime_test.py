# SPDX-License-Identifier: Apache-2.0
"""Tests that buffers live long enough: past exceptions, past the collection of cycles, and to the interpreter's end."""

import array
import gc
import os
import subprocess
import sys
import threading
import unittest
import unittest.mock
import weakref

import ranks
import rondo
from rondo import _buffers, _calls, _streams

# The arrays end with the modules. Objects in `sys` end later, which gives the streams' threads time to notice.
EXIT = """
import array, sys, time, rondo

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)

sys.late = Late()
comms, streams = rondo.init_all(2), [rondo.Stream(), rondo.Stream()]
xs = [array.array("f", bytes(32 << 20)) if "own" in sys.argv else rondo.empty(8 << 20) for _ in comms]
for _ in range(30):
    for comm, x, stream in zip(comms, xs, streams):
        comm.all_reduce(x, stream=stream)
"""


class Tracked(array.array):
    """An array whose end can be seen."""


def floats(values):
    return Tracked("f", values)


class Lifetime(unittest.TestCase):
    def pair(self):
        """Returns two communicators of one process, and a stream for each."""
        comms = rondo.init_all(2, timeout=60)
        streams = [rondo.Stream() for _ in comms]
        self.addCleanup(lambda: [each.destroy() for each in streams + comms])
        return comms, streams

    def test_the_interpreter_may_end_while_operations_run(self):
        for kind in ("own", "mapped"):
            done = subprocess.run([sys.executable, "-B", "-c", EXIT, kind], env=dict(os.environ), capture_output=True,
                                  text=True, timeout=ranks.LIMIT_S, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), kind)

    def test_a_cycle_of_a_stream_and_an_array_ends_after_the_operation(self):
        comms, _ = self.pair()
        order, destroy = [], _streams.C.rondo_stream_destroy
        other = threading.Thread(target=comms[1].all_reduce, args=(floats([1.0] * 1000),))

        def last(handle):
            order.append("destroy")
            other.start()
            return destroy(handle)
        with unittest.mock.patch.object(_buffers.C, "rondo_mem_free", lambda _: order.append("free")):
            cycle = {"stream": rondo.Stream(), "x": rondo.empty(1000)}
        cycle["work"] = comms[0].all_reduce(cycle["x"], stream=cycle["stream"])
        cycle["self"] = cycle
        with unittest.mock.patch.object(_streams.C, "rondo_stream_destroy", last):
            del cycle
            gc.collect()
        other.join(ranks.LIMIT_S)
        gc.collect()
        self.assertEqual(order, ["destroy", "free"])

    def interrupt(self, module, function, call):
        """Interrupts call(communicator, buffer, stream) after `function` of `module` has returned. At that time the
        operation is still running, so the buffer must exist until the operation has ended."""
        comms, streams = self.pair()
        x = floats([4.0])
        end, real = weakref.ref(x), getattr(module, function)

        def interrupted(*arguments):
            self.assertEqual(real(*arguments), 0)
            raise KeyboardInterrupt
        with unittest.mock.patch.object(module, function, interrupted), self.assertRaises(KeyboardInterrupt):
            call(comms[0], x, streams[0])
        del x
        gc.collect()
        self.assertIsNotNone(end())
        comms[1].all_reduce(floats([1.0]), stream=streams[1])
        streams[0].synchronize()
        gc.collect()
        self.assertIsNone(end())

    def test_an_interrupt_after_a_call_keeps_its_buffers(self):
        self.interrupt(_calls, "_all_reduce", lambda comm, x, stream: comm.all_reduce(x, stream=stream))

    def test_an_interrupt_at_the_end_of_a_group_keeps_its_buffers(self):
        def call(comm, x, stream):
            with rondo.group():
                comm.all_reduce(x, stream=stream)
        self.interrupt(_streams.C, "rondo_group_end", call)

    def test_the_end_of_a_buffer_may_ask_the_stream(self):
        comms, streams = self.pair()
        asked = []

        class Asking(array.array):
            def __del__(self):
                asked.append(later.done())
        works = [comm.all_reduce(Asking("f", [1.0]) if comm.rank == 0 else floats([1.0]), stream=stream)
                 for comm, stream in zip(comms, streams)]
        later = comms[0].all_reduce(floats([1.0]), stream=streams[0])
        works[0].result = None
        waiting = threading.Thread(target=works[0].wait, daemon=True)
        waiting.start()
        waiting.join(ranks.LIMIT_S / 2)
        self.assertFalse(waiting.is_alive())
        self.assertEqual(asked, [False])
        comms[1].all_reduce(floats([1.0]), stream=streams[1])

    def test_a_refused_call_on_a_stream_lets_its_buffers_go(self):
        with rondo.init() as comm, rondo.Stream() as stream:
            x = floats([1.0])
            end = weakref.ref(x)
            with self.assertRaises(rondo.InvalidArgument):
                comm.broadcast(x, root=5, stream=stream)
            del x
            gc.collect()
            self.assertIsNone(end())

    def test_a_group_tracks_the_rest_if_one_operation_has_no_event(self):
        for failure, wanted in ((0, rondo.OutOfResourcesError), (int(rondo.Status.COMM_FAILED), rondo.CommFailedError)):
            create, group_end = _streams.C.rondo_event_create, _streams.C.rondo_group_end
            refusals = [int(rondo.Status.OUT_OF_RESOURCES)]
            with rondo.init() as comm, rondo.Stream() as first, rondo.Stream() as second, \
                    unittest.mock.patch.object(_streams.C, "rondo_event_create",
                                               lambda made: refusals.pop() if refusals else create(made)), \
                    unittest.mock.patch.object(_streams.C, "rondo_group_end", lambda: group_end() or failure):
                with self.assertRaises(wanted), rondo.group():
                    works = [comm.all_reduce(floats([1.0]), stream=stream) for stream in (first, second)]
                self.assertTrue(works[0].done() and works[1].wait())


class Ends(unittest.TestCase):
    """These tests end operations, streams and communicators in unusual orders."""

    pair = Lifetime.pair

    def test_an_exception_in_the_block_of_a_stream_is_not_replaced(self):
        comms, streams = self.pair()
        with self.assertRaises(KeyError):
            with comms[0], streams[0]:
                work = comms[0].all_reduce(floats([1.0]), stream=streams[0])  # rank 1 never calls
                raise KeyError
        with self.assertRaises(rondo.AbortedError):
            work.wait()
        with self.assertRaises(rondo.Error):
            comms[1].barrier()

    def test_wait_tells_of_a_failure_after_the_communicator_was_destroyed(self):
        comms, streams = self.pair()
        works = [comms[0].all_reduce(floats([1.0]), stream=streams[0])]
        comms[0].abort()
        with self.assertRaises(rondo.AbortedError):
            streams[0].synchronize()
        comms[0].destroy()
        with self.assertRaises(rondo.AbortedError):
            works[0].wait()

    def test_wait_tells_that_the_communicator_was_destroyed_too_early(self):
        comms, streams = self.pair()
        works = [comms[0].all_reduce(floats([1.0]), stream=streams[0])]
        comms[0].abort()
        comms[0].destroy()
        with self.assertRaisesRegex(rondo.InvalidHandle, "before destroy"):
            works[0].wait()
        with self.assertRaises(rondo.AbortedError):
            streams[0].synchronize()

    def test_a_success_stays_one(self):
        with rondo.Stream() as stream:
            comm = rondo.init()
            work = comm.all_reduce(floats([1.0]), stream=stream)
            self.assertTrue(work.wait())
            comm.abort()
            comm.destroy()
            self.assertTrue(work.wait())

    def test_a_destroyed_stream_is_refused_by_events(self):
        stream = rondo.Stream()
        stream.destroy()
        with rondo.Event() as event:
            for call in (lambda: event.record(stream), lambda: stream.wait_event(event), stream.synchronize,
                         stream.done):
                with self.assertRaises(rondo.InvalidHandle):
                    call()
        with self.assertRaises(rondo.InvalidHandle):
            event.synchronize()


if __name__ == "__main__":
    unittest.main(verbosity=2)
