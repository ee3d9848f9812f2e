# SPDX-License-Identifier: Apache-2.0
"""This module has the reduction that multiplies by a factor of each rank, and the bits of such factors."""

from __future__ import annotations

import math
import struct
from ctypes import byref, c_int, c_uint64
from numbers import Real
from operator import index
from typing import Any, Optional

from ._buffers import SIZES, describe, type_of
from ._errors import InvalidArgument, check
from ._interface import Residence, Type
from ._library import C

# The bits of the exponent and of the mantissa, and the bits that stand for a number that is too large.
FLOATS = {Type.FLOAT16: (5, 10, 0x7C00), Type.BFLOAT16: (8, 7, 0x7F80), Type.FLOAT8_E4M3: (4, 3, 0x7F),
          Type.FLOAT8_E5M2: (5, 2, 0x7C)}


def small_float(value: float, exponent_bits: int, mantissa_bits: int, too_large: int) -> int:
    """Returns a number as the bits of a float of 16 or 8 bits, rounded to nearest, ties to even."""
    sign = (1 << (exponent_bits + mantissa_bits)) if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return sign | too_large | ((1 << mantissa_bits) - 1)
    if math.isinf(value):
        return sign | too_large
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = max(math.frexp(value)[1] - 1 if value else 1 - bias, 1 - bias)
    units = round(math.ldexp(abs(value), mantissa_bits - exponent))  # to even, as Python rounds
    return sign | min(units + ((exponent + bias - 1) << mantissa_bits), too_large)


def bits_of(factor: Any, type_: int) -> int:
    """Returns the bits of a number as an element of a type. For integers, the factor must be a whole number."""
    name = Type(type_).name.lower()
    if type_ in FLOATS or type_ in (Type.FLOAT32, Type.FLOAT64):
        try:
            factor = float(factor)
        except OverflowError:
            factor = math.copysign(math.inf, factor)
    if type_ in FLOATS:
        return small_float(float(factor), *FLOATS[Type(type_)])
    if type_ in (Type.FLOAT32, Type.FLOAT64):
        code = "<d" if type_ == Type.FLOAT64 else "<f"
        try:
            return int.from_bytes(struct.pack(code, factor), "little")
        except OverflowError:
            return int.from_bytes(struct.pack(code, math.copysign(math.inf, factor)), "little")
    try:
        is_whole = factor == int(factor)
    except (OverflowError, ValueError):  # infinite, or no number
        is_whole = False
    if not is_whole:
        raise InvalidArgument(f"the factor {factor} is no {name}: pass a whole number, or reduce an array of floats")
    return index(int(factor)) & ((1 << 8 * SIZES[type_]) - 1)


class PremulSum:
    """The sum of the ranks' arrays, after each rank has multiplied its own array by a factor.

    comm.premul_sum() makes it. It is an `op` of all_reduce(), reduce(), reduce_scatter() and reduce_scatter_v(). Ranks
    may have different factors. A factor that is a number is converted to the array's type. A factor that is an array
    with one element is read when the operation runs, and so by each replay of a graph. It lies on the communicator's
    device, and has the reduced type. Products are rounded to that type before they are added.

    >>> import array, rondo
    >>> with rondo.init() as comm:
    ...     comm.all_reduce(array.array("f", [1, 2]), op=comm.premul_sum(0.5))
    array('f', [0.5, 1.0])
    """

    __slots__ = ("factor", "dtype")

    def __init__(self, factor: Any, dtype: Any = None) -> None:
        """Makes the operation, for arrays of `dtype` alone if that is given. The factor then must fit the type."""
        self.factor, self.dtype = factor, None if dtype is None else type_of(dtype)
        if self.dtype is not None and isinstance(factor, Real):
            bits_of(factor, self.dtype)

    def _make(self, comm: Optional[int], type_: int) -> int:
        """Returns an operation of C for arrays of that type. The caller must destroy it after the call."""
        made, factor = c_int(), self.factor
        if self.dtype not in (None, type_):
            raise InvalidArgument(f"the operation was made for {self.dtype.name.lower()}, but the call has "
                                  f"{Type(type_).name.lower()}")
        if isinstance(factor, Real):
            bits = c_uint64(bits_of(factor, type_))
            check(C.rondo_op_create_premul_sum(byref(made), byref(bits), type_, Residence.HOST, comm), comm)
            return made.value
        address, count, own, _, _ = describe(factor)
        if count != 1:
            raise InvalidArgument(f"the factor has {count} elements, not one")
        check(C.rondo_op_create_premul_sum(byref(made), address, own, Residence.DEVICE, comm), comm)
        return made.value

    def __repr__(self) -> str:
        return f"rondo.PremulSum({self.factor!r})"
