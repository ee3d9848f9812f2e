# SPDX-License-Identifier: Apache-2.0
"""Tests streams, events and works of the Python package."""

import array
import gc
import sys
import threading
import time
import unittest
import unittest.mock
import weakref

import ranks
import rondo
from rondo import _streams


class Tracked(array.array):
    """An array whose end a test can observe."""


def floats(values):
    return Tracked("f", values)


class Streams(unittest.TestCase):
    def pair(self, **options):
        """Returns two communicators of one process, and a stream for each."""
        comms = rondo.init_all(2, timeout=60, **options)
        streams = [rondo.Stream() for _ in comms]
        self.addCleanup(lambda: [each.destroy() for each in streams + comms])
        return comms, streams

    def test_one_thread_drives_two_ranks_by_streams(self):
        comms, streams = self.pair()
        xs = [floats([rank + 1, 5]) for rank in range(2)]
        works = [comm.all_reduce(x, stream=stream) for comm, x, stream in zip(comms, xs, streams)]
        for work, x in zip(works, xs):
            self.assertTrue(work.wait())
            self.assertTrue(work.done())
            self.assertIs(work.result, x)
            self.assertEqual(x.tolist(), [3, 10])
            self.assertGreater(work.cost, 0)
        for stream in streams:
            stream.synchronize()
            self.assertTrue(stream.done())

    def test_a_buffer_lives_until_its_operation_is_done(self):
        comms, streams = self.pair()
        send, out = floats([4.0] * 100), floats([0.0] * 100)
        ends = [weakref.ref(send), weakref.ref(out)]
        work = comms[0].all_reduce(send, out=out, stream=streams[0])
        del send, out
        work.result = None
        gc.collect()
        self.assertTrue(all(end() is not None for end in ends))
        self.assertFalse(work.done())  # rank 1 has not called
        self.assertFalse(work.wait(timeout=0.01))
        self.assertIsNone(work.cost)
        comms[1].all_reduce(floats([1.0] * 100), stream=streams[1])
        self.assertTrue(work.wait(timeout=ranks.LIMIT_S))
        gc.collect()
        self.assertTrue(all(end() is None for end in ends))
        self.assertGreater(work.cost, 0.01)  # with the time in which it waited for rank 1

    def test_the_buffers_of_a_group_live_as_long(self):
        comms, streams = self.pair()
        send = floats([4.0] * 10)
        end = weakref.ref(send)
        with rondo.group():
            work = comms[0].send(send, peer=1, stream=streams[0])
            with self.assertRaisesRegex(rondo.InvalidUsage, "has not ended"):
                work.wait()
            self.assertFalse(work.done())
        del send
        gc.collect()
        self.assertIsNotNone(end())
        got = comms[1].recv(floats([0.0] * 10), peer=0, stream=streams[1])
        self.assertTrue(got.wait() and work.wait())
        self.assertEqual(got.result[9], 4.0)
        self.assertIsNone(end())

    def test_a_group_that_was_given_up_lets_its_buffers_go(self):
        comms, streams = self.pair()
        x = floats([1.0])
        references = sys.getrefcount(x)
        with self.assertRaises(KeyError):
            with rondo.group():
                comms[0].all_reduce(x, stream=streams[0])
                raise KeyError
        gc.collect()
        self.assertEqual(sys.getrefcount(x), references)

    def test_a_group_of_which_a_part_failed_keeps_the_buffers_of_the_rest(self):
        comms, streams = self.pair()
        x = floats([4.0])
        end = weakref.ref(x)
        real = _streams.C.rondo_group_end
        with unittest.mock.patch.object(_streams.C, "rondo_group_end",  # as if another communicator had failed
                                        side_effect=lambda: real() or int(rondo.Status.COMM_FAILED)):
            with self.assertRaises(rondo.CommFailedError):
                with rondo.group():
                    work = comms[0].all_reduce(x, stream=streams[0])
        work.result = None
        del x
        gc.collect()
        self.assertFalse(work.done())  # rank 1 has not called
        self.assertIsNotNone(end())
        comms[1].all_reduce(floats([1.0]), stream=streams[1])
        self.assertTrue(work.wait())
        self.assertIsNone(end())

    def test_an_operation_that_no_event_follows_is_waited_for(self):
        comms, streams = self.pair()
        x, y = floats([1.0]), floats([2.0])
        later = threading.Timer(0.1, comms[1].all_reduce, (y,))
        later.start()
        with unittest.mock.patch.object(_streams.C, "rondo_event_create",
                                        return_value=int(rondo.Status.OUT_OF_RESOURCES)):
            with self.assertRaises(rondo.OutOfResourcesError):
                comms[0].all_reduce(x, stream=streams[0])
        self.assertEqual(x[0], 3.0)
        later.join(ranks.LIMIT_S)

    def test_events_order_two_streams_and_have_a_time(self):
        comms, (first, second) = self.pair()
        x, y = floats([1.0]), floats([2.0])
        with rondo.Event() as event, rondo.Event() as last:
            self.assertTrue(event.done())  # it was never recorded
            works = [comms[0].all_reduce(x, stream=first), comms[1].all_reduce(y, stream=second)]
            event.record(first)
            second.wait_event(event)
            last.record(second)
            last.synchronize()
            self.assertTrue(event.done() and last.done() and works[0].done())
            self.assertGreaterEqual(last.timestamp_ns(), event.timestamp_ns())
        self.assertEqual((x[0], y[0]), (3.0, 3.0))

    def test_a_thousand_operations_are_waited_for_by_a_few_events(self):
        with rondo.init() as comm, rondo.Stream() as stream:
            x = floats([1.0] * 16)
            for _ in range(1000):
                comm.all_reduce(x, stream=stream).wait()
            self.assertLess(len(stream._events), 10)
            works = [comm.all_reduce(x, stream=stream) for _ in range(1000)]
            stream.synchronize()
            self.assertTrue(all(work.done() for work in works))
            self.assertEqual(len(stream._pending), 0)

    def test_a_failure_is_raised_by_wait_and_by_synchronize(self):
        comms, streams = self.pair()
        work = comms[0].all_reduce(floats([1.0]), stream=streams[0])
        comms[0].abort()
        with self.assertRaises(rondo.AbortedError):
            work.wait()
        with self.assertRaises(rondo.AbortedError):
            streams[0].synchronize()
        self.assertTrue(work.done())
        self.assertIsInstance(comms[1].async_error(), rondo.AbortedError)

    def test_a_success_is_one_although_the_communicator_has_failed_since(self):
        comms, streams = self.pair()
        works = [comm.all_reduce(floats([rank]), stream=stream)
                 for rank, (comm, stream) in enumerate(zip(comms, streams))]
        end = time.monotonic() + ranks.LIMIT_S
        while not all(stream.done() for stream in streams) and time.monotonic() < end:
            time.sleep(0.001)
        comms[1].revoke()
        self.assertIsInstance(comms[0].async_error(), rondo.RevokedError)
        self.assertTrue(all(work.wait() for work in works))
        self.assertEqual([work.result[0] for work in works], [1.0, 1.0])

    def test_a_failure_of_another_communicator_of_the_stream_is_not_the_works(self):
        comms, streams = self.pair()
        with rondo.init() as lone:
            failed = comms[0].all_reduce(floats([1.0]), stream=streams[0])
            work = lone.all_reduce(floats([1.0]), stream=streams[0])
            with rondo.Event() as event:
                event.record(streams[0])
                comms[0].abort()
                self.assertTrue(work.wait())
                for waits in (event.synchronize, failed.wait, streams[0].synchronize):
                    with self.assertRaises(rondo.AbortedError):
                        waits()

    def test_a_stream_of_a_with_block_is_synchronized(self):
        comm = rondo.init()
        with rondo.Stream() as stream:
            work = comm.barrier(stream=stream)
        self.assertTrue(work.done() and work.wait())
        with self.assertRaises(rondo.InvalidHandle):
            comm.barrier(stream=stream)
        comm.destroy()
        self.assertTrue(work.wait())

    def test_streams_and_events_that_are_forgotten_end(self):
        comms, _ = self.pair()
        streams = [rondo.Stream() for _ in comms]
        for comm, stream in zip(comms, streams):
            comm.all_reduce(floats([1.0]), stream=stream)
        end = weakref.ref(streams[0])
        del stream, streams, comm
        gc.collect()
        self.assertIsNone(end())
        rondo.Event()

    def test_streams_of_others_are_read_by_their_protocol(self):
        class Protocol:
            def __cuda_stream__(self):
                return 0, 4242

        class Torch:
            cuda_stream = 4243
        self.assertEqual([_streams.handle_of(each) for each in (Protocol(), Torch(), 7)], [4242, 4243, 7])
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidArgument, "is no stream"):
                comm.barrier(stream="default")


if __name__ == "__main__":
    unittest.main(verbosity=2)
