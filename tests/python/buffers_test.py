# SPDX-License-Identifier: Apache-2.0
"""Tests which objects the Python package accepts as buffers, and the errors for others."""

import array
import ctypes
import gc
import mmap
import unittest

import ranks  # noqa: I001
import rondo
from ranks import numpy
from rondo import _dlpack
from rondo._buffers import describe


def summed(data, out=None, size=2):
    """Returns the sum over the ranks of `data`, one buffer for each rank."""
    made = ranks.as_threads(size, lambda comm: comm.all_reduce(data(comm.rank), out and out(comm.rank)))
    return made[0]


class Plain(unittest.TestCase):
    """Objects with the buffer protocol, without NumPy."""

    def test_each_format_has_the_type_of_its_size(self):
        kinds = {"b": "INT8", "B": "UINT8", "i": "INT32", "I": "UINT32", "q": "INT64", "Q": "UINT64", "l": "INT64",
                 "L": "UINT64", "f": "FLOAT32", "d": "FLOAT64"}
        for code, name in kinds.items():
            address, count, type_, writable, _ = describe(array.array(code, [1, 2, 3]))
            self.assertEqual((count, rondo.Type(type_).name, writable), (3, name, True), code)
            self.assertNotEqual(address, 0)

    def test_sums_of_what_python_has(self):
        self.assertEqual(summed(lambda rank: bytearray([rank + 1, 5])), bytearray([3, 10]))
        self.assertEqual(list(summed(lambda rank: (ctypes.c_double * 2)(rank, 4))), [1.0, 8.0])
        self.assertEqual(summed(lambda rank: memoryview(array.array("i", [9, 2, 3]))[1:]).tolist(), [4, 6])
        with mmap.mmap(-1, 4096) as pages:
            self.assertEqual(describe(pages)[1:4], (4096, rondo.Type.UINT8, True))

    def test_a_buffer_that_may_not_be_written_can_be_sent(self):
        out = summed(lambda rank: bytes([rank + 1, 7]), out=lambda rank: bytearray(2))
        self.assertEqual(out, bytearray([3, 14]))

    def test_an_output_that_may_not_be_written_is_refused(self):
        with rondo.init() as comm:
            for data in (b"ab", memoryview(bytearray(2)).toreadonly()):
                with self.assertRaisesRegex(rondo.InvalidArgument, "may not be written"):
                    comm.all_reduce(data)
                with self.assertRaisesRegex(ValueError, "may not be written"):
                    comm.recv(data, peer=0)

    def test_an_output_that_is_reused(self):
        with rondo.init() as comm:
            first = comm.all_gather(array.array("i", [1, 2]), reuse=True)
            self.assertIs(comm.all_gather(array.array("i", [3, 4]), reuse=True), first)
            self.assertEqual(first.tolist(), [3, 4])
            first.append(5)
            self.assertEqual(comm.all_gather(array.array("i", [3, 4]), reuse=True).tolist(), [3, 4])
            others = [comm.all_gather(array.array("i", [5, 6])), comm.all_gather(array.array("i", [7]), reuse=True),
                      comm.all_gather(array.array("l", [8, 9]), reuse=True),
                      comm.all_gather(bytearray(2), reuse=True)]
            if numpy is not None:
                made = [comm.all_gather(numpy.ones(shape, "float32"), reuse=True) for shape in (4, (2, 2), 4)]
                self.assertIs(made[2], made[0])
                others += made[:2]
            self.assertEqual(len({id(each) for each in [first, *others]}), 1 + len(others))
            self.assertEqual(first.tolist(), [3, 4, 5])

    def test_an_empty_buffer_is_one(self):
        with rondo.init() as comm:
            self.assertEqual(comm.all_reduce(array.array("f")), array.array("f"))
            self.assertEqual(describe(b"")[:3], (None, 0, rondo.Type.UINT8))

    def test_what_is_no_buffer_is_refused(self):
        with rondo.init() as comm:
            for data in (3, "text", [1.0], None, object()):
                with self.assertRaisesRegex(TypeError, "is no buffer.*Pass a NumPy array"):
                    comm.all_reduce(data)

    def test_elements_without_a_type_are_refused(self):
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidArgument, "format 'H'.*rondo.Buffer.*bfloat16"):
                comm.all_reduce(array.array("H", [1]))
            with self.assertRaisesRegex(rondo.InvalidArgument, "contiguous copy"):
                comm.all_reduce(memoryview(bytearray(8))[::2])

    def test_another_count_or_type_is_refused(self):
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidArgument, "output has 3 elements of float32.*has 2 of float32"):
                comm.all_reduce(array.array("f", [1, 2]), out=array.array("f", [0, 0, 0]))
            with self.assertRaisesRegex(rondo.InvalidArgument, "output has 2 elements of float64"):
                comm.all_reduce(array.array("f", [1, 2]), out=array.array("d", [0, 0]))

    def test_a_buffer_that_was_described_once_serves_many_calls(self):
        data = array.array("i", [1])
        buffer = rondo.Buffer(data)
        self.assertEqual((len(buffer), buffer.type), (1, rondo.Type.INT32))
        with self.assertRaises(BufferError):
            data.append(2)  # its memory is pinned
        with rondo.init() as comm:
            for _ in range(3):
                self.assertIs(comm.all_reduce(buffer), buffer)
        del buffer
        data.append(2)

    def test_a_buffer_of_another_type(self):
        ones = array.array("H", [0x3F80] * 3)  # 1.0 in bfloat16
        out = summed(lambda rank: rondo.Buffer(array.array("H", ones), "bfloat16"), out=None)
        self.assertEqual(memoryview(ctypes.string_at(out.address, 6)).cast("H").tolist(), [0x4000] * 3)
        self.assertEqual(len(rondo.Buffer(b"12345678", "float32")), 2)
        with self.assertRaisesRegex(rondo.InvalidArgument, "7 bytes are no whole number of float32"):
            rondo.Buffer(bytearray(7), "float32")
        with self.assertRaisesRegex(rondo.InvalidArgument, "no element type 'complex64'"):
            rondo.Buffer(bytearray(8), "complex64")

    def test_a_type_of_another_package_with_infinities_is_not_rondos(self):
        class Infinite:  # like ml_dtypes.float8_e4m3
            name = "float8_e4m3"

        class Foreign:
            dtype = Infinite
            __array_interface__ = {"typestr": "|V1", "shape": (2,), "data": (4096, False), "version": 3}

        class Finite:
            name = "float8_e4m3fn"
        for dtype in ("float8_e4m3", "float8_e4m3fn", rondo.Type.FLOAT8_E4M3, Finite):
            self.assertEqual(rondo.Buffer(bytearray(2), dtype).type, rondo.Type.FLOAT8_E4M3)
        with self.assertRaisesRegex(rondo.InvalidArgument, "no element type 'float8_e4m3 with infinities'"):
            rondo.Buffer(bytearray(2), Infinite)
        with self.assertRaisesRegex(rondo.InvalidArgument, "no type for"):
            describe(Foreign())
        Foreign.dtype = Finite
        self.assertEqual(describe(Foreign())[1:3], (2, rondo.Type.FLOAT8_E4M3))

    def test_a_buffer_by_its_address(self):
        words = (ctypes.c_int32 * 4)(1, 2, 3, 4)
        buffer = rondo.Buffer.from_address(ctypes.addressof(words), 4, rondo.Type.INT32, owner=words)
        with rondo.init() as comm:
            comm.all_reduce(buffer, out=bytearray_as_ints(16))
        self.assertEqual(buffer.address, ctypes.addressof(words))


def bytearray_as_ints(size):
    return memoryview(bytearray(size)).cast("i")


class Allocated(unittest.TestCase):
    def test_memory_of_peers_is_zeroed_and_summed(self):
        def body(comm):
            x = rondo.empty((2, 3), "int32")
            flat = x.reshape(-1) if numpy is not None else memoryview(x).cast("B").cast("i")
            assert list(flat) == [0] * 6
            flat[0] = comm.rank + 1
            comm.all_reduce(x)
            return int(flat[0])
        self.assertEqual(ranks.as_threads(2, body), [3, 3])

    def test_it_lives_as_long_as_a_view_of_it(self):
        x = rondo.empty(1 << 16, "uint8")
        part = memoryview(x)[5:6]
        del x
        gc.collect()
        part[0] = 7
        self.assertEqual(part[0], 7)

    def test_a_wrong_shape_is_refused(self):
        for shape in (0, (3, 0), -1):
            with self.assertRaisesRegex(rondo.InvalidArgument, "has no element"):
                rondo.empty(shape)
        with self.assertRaises(rondo.OutOfResourcesError):
            rondo.empty(1 << 60, "uint8")


@unittest.skipIf(numpy is None, "no NumPy")
class Arrays(unittest.TestCase):
    def test_each_type(self):
        for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"):
            out = summed(lambda rank, name=name: numpy.full((2, 3), rank + 1, name))
            self.assertEqual((out.dtype.name, out.shape, out.tolist()), (name, (2, 3), [[3] * 3] * 2))

    def test_the_array_may_change_its_type_between_two_calls(self):
        x = numpy.array([1, 0], numpy.int32)
        with rondo.init() as comm:
            comm.all_reduce(x)
            x.dtype = numpy.int64
            comm.all_reduce(x)
            self.assertEqual(x.tolist(), [1])
            x.flags.writeable = False
            with self.assertRaisesRegex(rondo.InvalidArgument, "may not be written"):
                comm.all_reduce(x)

    def test_what_is_refused(self):
        square = numpy.ones((4, 4), numpy.float32)
        with rondo.init() as comm:
            for data in (square[:, 1], square.T, square[::2]):
                with self.assertRaisesRegex(rondo.InvalidArgument, "numpy.ascontiguousarray"):
                    comm.all_reduce(data)
            for name in ("complex64", "bool", "datetime64[s]", "U3", ">f4", "int16", "f4,i4", "O"):
                with self.assertRaisesRegex(rondo.InvalidArgument, "no type for"):
                    comm.all_reduce(numpy.zeros(2, name))

    def test_new_outputs_have_the_shape_of_their_blocks(self):
        def body(comm):
            x = numpy.full((2, 3), comm.rank, numpy.int32)
            parts = comm.all_gather(x)
            block = comm.reduce_scatter(parts)
            rows = comm.all_gather_v(numpy.full(comm.rank + 1, comm.rank, "f4"), counts=[1, 2, 3])
            return parts[:, 0, 0].tolist(), parts.shape, block.tolist(), rows.tolist()
        for rank, made in enumerate(ranks.as_threads(3, body)):
            self.assertEqual(made, ([0, 1, 2], (3, 2, 3), [[3 * rank] * 3] * 2, [0, 1, 1, 2, 2, 2]))

    def test_an_array_without_a_dimension(self):
        self.assertEqual(summed(lambda rank: numpy.array(2.5)), 5.0)

    def test_a_type_of_another_package_is_known_by_its_name(self):
        class Brain:
            """An array such as ml_dtypes has. NumPy knows only the size of its elements."""

            class dtype:  # pylint: disable=invalid-name
                name = "bfloat16"

            def __init__(self):
                self.bits = numpy.full(4, 0x3F80, numpy.uint16)
                self.__array_interface__ = {**self.bits.__array_interface__, "typestr": "<V2"}

        made = summed(lambda rank: Brain())
        self.assertEqual(made.bits.tolist(), [0x4000] * 4)


def capsule(content, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    return new(ctypes.addressof(content), name, None)


class Tensor:
    """A tensor that only DLPack describes, like that of a framework without NumPy."""

    # The capsule needs no destructor, because the object owns all memory.
    def __init__(self, values, strides=None, code=(2, 32)):
        self.values = (ctypes.c_float * len(values))(*values)
        self.shape_words = (ctypes.c_int64 * 1)(len(values) if strides is None else len(values) // strides[0])
        self.stride_words = None if strides is None else (ctypes.c_int64 * 1)(*strides)
        self.managed = _dlpack.Tensor(data=ctypes.addressof(self.values), device_type=1, ndim=1, code=code[0],
                                      bits=code[1], lanes=1, shape=self.shape_words, strides=self.stride_words)

    def __dlpack__(self):
        return capsule(self.managed, b"dltensor")


class Immutable(Tensor):
    """An array of JAX, which is immutable even if its capsule does not say so."""

    __module__ = "jaxlib.arrays"


class Versioned(Tensor):
    """A tensor of DLPack 1.0, with its flags."""

    def __init__(self, values, flags):
        super().__init__(values)
        self.versioned = _dlpack.Versioned(major=1, flags=flags, tensor=self.managed)

    def __dlpack__(self, max_version):
        assert max_version == (1, 0)
        return capsule(self.versioned, b"dltensor_versioned")


class Tensors(unittest.TestCase):
    def test_sums_of_tensors(self):
        self.assertEqual(list(summed(lambda rank: Tensor([rank, 2.5])).values), [1.0, 5.0])

    def test_what_is_refused(self):
        with rondo.init() as comm:
            with self.assertRaisesRegex(rondo.InvalidArgument, "contiguous copy"):
                comm.all_reduce(Tensor([1, 2, 3, 4], strides=[2]))
            with self.assertRaisesRegex(rondo.InvalidArgument, "no type for"):
                comm.all_reduce(Tensor([1, 2], code=(5, 64)))

    def test_a_tensor_that_may_not_be_written_is_no_output(self):
        with rondo.init() as comm:
            for made in (Versioned([3, 4], flags=1), Immutable([3, 4])):
                self.assertEqual(describe(made)[1:4], (2, rondo.Type.FLOAT32, False))
                with self.assertRaisesRegex(rondo.InvalidArgument, "may not be written"):
                    comm.all_reduce(made)
                self.assertEqual(comm.all_reduce(made, array.array("f", [0, 0])).tolist(), [3.0, 4.0])
            made = Versioned([3, 4], flags=2)
            self.assertIs(comm.all_reduce(made), made)

    def test_a_tensor_whose_interface_raises_is_described_by_dlpack(self):
        class Unusual(Tensor):
            @property
            def __cuda_array_interface__(self):
                raise KeyError("PyTorch has no name for this type")
        self.assertEqual(describe(Unusual([3, 4]))[1:4], (2, rondo.Type.FLOAT32, True))

    def test_an_array_of_a_device_is_described_by_its_interface(self):
        class OnDevice:
            __cuda_array_interface__ = {"typestr": "<f4", "shape": (2, 3), "strides": None, "data": (4096, False),
                                        "version": 3}
        self.assertEqual(describe(OnDevice())[:4], (4096, 6, rondo.Type.FLOAT32, True))
        OnDevice.__cuda_array_interface__["strides"] = (4, 8)
        with self.assertRaisesRegex(rondo.InvalidArgument, "contiguous"):
            describe(OnDevice())


if __name__ == "__main__":
    unittest.main(verbosity=2)
