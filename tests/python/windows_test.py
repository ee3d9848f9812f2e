# SPDX-License-Identifier: Apache-2.0
"""Tests windows and signals of the Python package, with ranks as threads."""

import array
import gc
import unittest
import weakref

import ranks
import rondo


class Windows(unittest.TestCase):
    def test_each_rank_puts_its_number_into_the_window_of_every_rank(self):
        def body(comm):
            x = array.array("i", [-1] * comm.size)
            with comm.register_window(x, symmetric=True) as window:
                for peer in range(comm.size):
                    window.put(array.array("i", [10 * comm.rank + peer]), peer, offset=comm.rank, signal=3)
                for peer in range(comm.size):
                    comm.wait_signal(peer, signal=3)
                made = x.tolist()
                comm.barrier()
            return made
        self.assertEqual(ranks.as_threads(3, body), [[peer, 10 + peer, 20 + peer] for peer in range(3)])

    def test_streams_groups_and_counts(self):
        def body(comm):
            x, peer = array.array("d", [0, 0]), 1 - comm.rank
            with comm.register_window(x) as window, rondo.Stream() as stream:
                with rondo.group():
                    comm.wait_signal(peer, count=2)
                    window.put(array.array("d", [comm.rank + 0.5]), peer)
                    comm.signal(peer)
                window.put(array.array("d", [comm.rank + 7]), peer, offset=1, signal=1, stream=stream)
                assert comm.wait_signal(peer, signal=1, stream=stream).wait()
                made = x.tolist()
                comm.barrier()
            return made
        self.assertEqual(ranks.as_threads(2, body), [[1.5, 8.0], [0.5, 7.0]])

    def test_mistakes_are_refused(self):
        comm = rondo.init()
        x = array.array("i", [0, 0])
        window = comm.register_window(x)
        with self.assertRaisesRegex(rondo.InvalidArgument, "8 bytes at offset 4 exceed the window of rank 0"):
            window.put(array.array("i", [1, 2]), 0, offset=1)
        with self.assertRaisesRegex(rondo.InvalidArgument, "elements of float32, but the window has int32"):
            window.put(array.array("f", [1]), 0)
        for offset in (-1, 2 ** 62):
            with self.assertRaisesRegex(rondo.InvalidArgument, "outside of every window"):
                window.put(array.array("i", [1]), 0, offset=offset)
        with self.assertRaisesRegex(rondo.InvalidArgument, "signal is 16"):
            comm.signal(0, signal=16)
        with self.assertRaisesRegex(rondo.InvalidArgument, "count is -1"):
            comm.wait_signal(0, count=-1)
        with self.assertRaisesRegex(rondo.InvalidArgument, "read-only"):
            comm.register_window(b"constant")
        self.assertEqual(window.address(0), x.buffer_info()[0])
        window.deregister()
        window.deregister()
        with self.assertRaisesRegex(rondo.InvalidHandle, "the window was destroyed"):
            window.put(array.array("i", [1]), 0)
        comm.destroy()

    def test_a_window_keeps_its_array_alive_until_it_ends(self):
        class Array(array.array):
            pass
        comm = rondo.init()
        x = Array("i", [0])
        alive = weakref.ref(x)
        window = comm.register_window(x)
        del x
        gc.collect()
        self.assertIsNotNone(alive())
        window.put(array.array("i", [5]), 0)
        comm.wait_signal(0)
        self.assertEqual(alive()[0], 5)
        window.deregister()
        del window
        gc.collect()
        self.assertIsNone(alive())
        comm.destroy()

    def test_a_wait_that_times_out_names_the_peer_and_the_counts(self):
        def body(comm):
            if comm.rank == 0:
                with self.assertRaisesRegex(rondo.TimeoutError, "waits for 2 signals of number 0 from rank 1, and 0"):
                    comm.wait_signal(1, count=2)
        ranks.as_threads(2, body, timeout=0.3)


if __name__ == "__main__":
    unittest.main()
