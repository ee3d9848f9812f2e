# SPDX-License-Identifier: Apache-2.0
"""Tests the Python package with memory and streams of a CUDA device, which is the driver in software."""

import ctypes
import os
import threading
import unittest

import ranks
import rondo

COUNT = 1000
CUDA = ctypes.CDLL(os.environ["RONDO_CUDA_LIBRARY"])


def cuda(name, *arguments):
    """Calls a function of the driver."""
    code = getattr(CUDA, name)(*arguments)
    assert code == 0, f"{name}: error {code}"


class Stream:
    """A stream of the device, as frameworks describe theirs."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        cuda("cuStreamCreateWithPriority", ctypes.byref(self.handle), 1, 0)

    def __cuda_stream__(self):
        return 0, self.handle.value


class Array:
    """An array of float32 on the device, as frameworks describe theirs."""

    def __init__(self, values, stream):
        self.host = (ctypes.c_float * len(values))(*values)
        self.address = ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(self.host)))
        cuda("cuMemcpyHtoDAsync_v2", self.address, self.host, ctypes.c_size_t(ctypes.sizeof(self.host)),
             stream.handle)
        cuda("cuStreamSynchronize", stream.handle)

    @property
    def __cuda_array_interface__(self):
        return {"typestr": "<f4", "shape": (len(self.host),), "data": (self.address.value, False), "version": 3}

    def values(self, stream):
        """Returns the array's values after the stream's work."""
        cuda("cuMemcpyDtoHAsync_v2", self.host, self.address, ctypes.c_size_t(ctypes.sizeof(self.host)), stream.handle)
        cuda("cuStreamSynchronize", stream.handle)
        return list(self.host)


def make_current():
    """Makes the first device current in this thread."""
    context = ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    cuda("cuCtxPushCurrent_v2", context)


class Device(unittest.TestCase):
    def test_sums_on_a_stream(self):
        allocated = threading.Barrier(2)  # an allocation may wait for kernels, which wait for the other rank

        def body(comm):
            make_current()
            stream = Stream()
            x, out = Array([comm.rank + 1.0] * COUNT, stream), Array([0.0] * COUNT, stream)
            allocated.wait(ranks.LIMIT_S)
            self.assertEqual(comm.properties().device, 0)
            self.assertIs(comm.all_reduce(x, out=out, stream=stream), out)
            self.assertIs(comm.all_reduce(out, stream=stream.handle.value), out)
            self.assertIsNone(comm.barrier(stream=stream))
            made = out.values(stream)
            self.assertIsNone(comm.async_error())
            return made
        self.assertEqual(ranks.as_threads(2, body, devices=[0, 0]), [[6.0] * COUNT] * 2)

    def test_suspend_gives_device_memory_back(self):
        def body(comm):
            usual = comm.device_memory()
            comm.suspend()
            less = comm.device_memory()
            comm.resume()
            size = usual.suspendable_bytes + usual.persistent_bytes
            return size, usual.suspended, less.suspended, comm.device_memory()
        for size, usual, less, again in ranks.as_threads(2, body, devices=[0, 0]):
            self.assertGreater(size, 1 << 20)
            self.assertEqual((usual, less, again.suspended), (False, True, False))
            self.assertEqual(again.suspendable_bytes + again.persistent_bytes, size)

    def test_puts_into_a_window_of_the_device(self):
        allocated = threading.Barrier(2)  # as above, and the first window may wait for work of the device, too

        def body(comm):
            make_current()
            stream, peer = Stream(), 1 - comm.rank
            memory = rondo.empty_on_device(COUNT)
            x, out = Array([comm.rank + 1.0] * COUNT, stream), Array([0.0] * COUNT, stream)
            window = comm.register_window(memory)
            allocated.wait(ranks.LIMIT_S)
            window.put(x, peer, stream=stream)
            comm.wait_signal(peer, stream=stream)
            address = memory.__cuda_array_interface__["data"][0]
            self.assertEqual((window.address(comm.rank), len(memory)), (address, COUNT))
            cuda("cuMemcpyDtoDAsync_v2", out.address, ctypes.c_uint64(address), ctypes.c_size_t(4 * COUNT),
                 stream.handle)
            made = out.values(stream)
            comm.flush()
            allocated.wait(ranks.LIMIT_S)
            return made
        self.assertEqual(ranks.as_threads(2, body, devices=[0, 0]), [[2.0] * COUNT, [1.0] * COUNT])
        for count, dtype in ((0, "float32"), (8, "bfloat16")):
            with self.assertRaises(rondo.InvalidArgument):
                rondo.empty_on_device(count, dtype)

    def test_a_part_with_options_is_on_the_same_device(self):
        make_current()
        with rondo.init(device=0) as comm, comm.split(color=0, timeout=30) as part:
            self.assertEqual(part.properties().device, 0)

    def test_memory_and_streams_of_another_kind_are_refused(self):
        make_current()
        with rondo.init() as comm, self.assertRaisesRegex(rondo.InvalidArgument, "device"):
            comm.all_reduce(Array([1.0], Stream()))
        with rondo.init(device=0) as comm, rondo.Stream() as stream:
            with self.assertRaisesRegex(rondo.InvalidArgument, "host memory"):
                comm.all_reduce((ctypes.c_float * 4)())
            with self.assertRaisesRegex(rondo.InvalidArgument, "rondo_stream_create"):
                comm.all_reduce(Array([1.0], Stream()), stream=stream)


if __name__ == "__main__":
    unittest.main(verbosity=2)
