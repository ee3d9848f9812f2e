# SPDX-License-Identifier: Apache-2.0
"""This module reads arrays by DLPack, the protocol by which frameworks exchange tensors."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, Tuple


class Tensor(ctypes.Structure):
    """The struct DLTensor, with which a DLManagedTensor begins."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


# The names of the types by DLPack's code and bits.
NAMES = {(2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (10, 8): "float8_e4m3",
         (12, 8): "float8_e5m2",
         **{(code, bits): f"{kind}{bits}" for code, kind in ((0, "int"), (1, "uint")) for bits in (8, 32, 64)}}

_pointer_of = ctypes.PyDLL(None).PyCapsule_GetPointer
_pointer_of.argtypes, _pointer_of.restype = (ctypes.py_object, ctypes.c_char_p), c_void_p


class Refused(Exception):
    """The tensor cannot be passed. If `strides`, it is not contiguous. Otherwise its type is unknown."""

    def __init__(self, message: str, strides: bool = False) -> None:
        super().__init__(message)
        self.strides = strides


def read(data: Any) -> Tuple[int, int, str, Any]:
    """Returns the address, the count, the name of the type, and an object that keeps the tensor alive."""
    capsule = data.__dlpack__()
    tensor = Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    name = NAMES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise Refused(f"the type {tensor.code}, {tensor.bits} bits, of DLPack")
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
            raise Refused("strides", strides=True)
        count *= tensor.shape[axis]
    return (tensor.data or 0) + tensor.byte_offset, count, name, (data, capsule)
