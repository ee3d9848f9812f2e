# SPDX-License-Identifier: Apache-2.0
"""Tests the sums of arrays that each rank multiplies by its own factor, with ranks as threads."""

import array
import unittest

import ranks
import rondo


class PremulSums(unittest.TestCase):
    def test_sums_with_a_factor_of_each_rank(self):
        def body(comm):
            factor = array.array("d", [0])
            by_number, by_address = comm.premul_sum(comm.rank + 0.5), comm.premul_sum(factor)
            made = [comm.all_reduce(array.array("f", [2, 4]), op=by_number).tolist(),
                    comm.reduce(array.array("d", [2]), root=1, op=by_number).tolist(),
                    comm.reduce_scatter(array.array("f", [2, 4, 6]), op=by_number).tolist(),
                    comm.reduce_scatter_v(array.array("f", [2, 4, 6]), [0, 1, 2], op=by_number).tolist(),
                    comm.all_reduce(array.array("i", [1]), op=comm.premul_sum(-comm.rank)).tolist()]
            for factor[0] in (1, 3):  # each call reads it again
                made.append(comm.all_reduce(array.array("d", [comm.rank]), op=by_address).tolist())
            with rondo.group():
                kept = comm.all_reduce(array.array("f", [2]), op=by_number)
            stream = rondo.Stream()
            later = array.array("f", [2])
            comm.all_reduce(later, op=by_number, stream=stream).wait()
            stream.destroy()
            return [*made, kept.tolist(), later.tolist()]
        for rank, made in enumerate(ranks.as_threads(3, body)):
            wanted = [[9, 18], [9 if rank == 1 else 2], [9 * (rank + 1)], [[], [9], [18, 27]][rank], [-3], [3], [9],
                      [9], [9]]
            self.assertEqual(made, wanted, f"rank {rank}")

    def test_what_is_no_factor_is_refused(self):
        with rondo.init() as comm:
            for op, words in ((comm.premul_sum(0.5), "0.5 is no int32"),
                              (comm.premul_sum(float("inf")), "inf is no int32"),
                              (comm.premul_sum(float("nan")), "nan is no int32"),
                              (comm.premul_sum(array.array("i", [1, 2])), "2 elements, not one"),
                              (comm.premul_sum(array.array("f", [1])), "made for float32, but the call has int32")):
                with self.assertRaisesRegex(rondo.InvalidArgument, words):
                    comm.all_reduce(array.array("i", [1]), op=op)

    def test_an_operation_for_one_type(self):
        with rondo.init() as comm:
            op = comm.premul_sum(0.5, dtype="float32")
            self.assertIs(type(op), rondo.PremulSum)
            self.assertEqual(comm.all_reduce(array.array("f", [4]), op=op).tolist(), [2])
            with self.assertRaisesRegex(rondo.InvalidArgument, "was made for float32, but the call has float64"):
                comm.all_reduce(array.array("d", [4]), op=op)
            with self.assertRaisesRegex(rondo.InvalidArgument, "0.5 is no int32"):
                comm.premul_sum(0.5, dtype="int32")

    def test_factors_of_small_floats_are_rounded_to_nearest(self):
        cases = (("float16", 1 / 3, 0x3555), ("float16", 65520, 0x7C00), ("float16", -2 ** -25, 0x8000),
                 ("bfloat16", 1 + 2 ** -8, 0x3F80), ("bfloat16", 1 + 3 * 2 ** -8, 0x3F82),
                 ("float8_e4m3", 464, 0x7E), ("float8_e4m3", 465, 0x7F), ("float8_e5m2", 2 ** -16, 1))
        for type_, factor, bits in cases:
            with rondo.init() as comm:
                one = {"float16": 0x3C00, "bfloat16": 0x3F80, "float8_e4m3": 0x38, "float8_e5m2": 0x3C}[type_]
                x = array.array("H" if "16" in type_ else "B", [one])
                comm.all_reduce(rondo.Buffer(x, type_), op=comm.premul_sum(factor))
                self.assertEqual(x[0], bits, (type_, factor))


if __name__ == "__main__":
    unittest.main(verbosity=2)
