# SPDX-License-Identifier: Apache-2.0
"""This module reads arrays by DLPack, the protocol by which frameworks exchange tensors."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Tuple


class Tensor(ctypes.Structure):
    """The struct DLTensor, with which a DLManagedTensor begins."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Versioned(ctypes.Structure):
    """The struct DLManagedTensorVersioned, of DLPack 1.0."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", Tensor)]


READ_ONLY = 1  # bit of Versioned.flags
IMMUTABLE = ("jax", "jaxlib")  # packages whose arrays may not be written, even if their capsules do not say so

# The names of the types by DLPack's code and bits.
NAMES = {(2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (10, 8): "float8_e4m3",
         (12, 8): "float8_e5m2",
         **{(code, bits): f"{kind}{bits}" for code, kind in ((0, "int"), (1, "uint")) for bits in (8, 32, 64)}}

_pointer_of, _is_named = ctypes.PyDLL(None).PyCapsule_GetPointer, ctypes.PyDLL(None).PyCapsule_IsValid
_pointer_of.argtypes, _pointer_of.restype = (ctypes.py_object, ctypes.c_char_p), c_void_p
_is_named.argtypes, _is_named.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int


class Refused(Exception):
    """The tensor cannot be passed. If `strides`, it is not contiguous. Otherwise its type is unknown."""

    def __init__(self, message: str, strides: bool = False) -> None:
        super().__init__(message)
        self.strides = strides


def opened(data: Any) -> Tuple[Any, Tensor, bool]:
    """Returns the capsule of an array, its tensor, and whether it may be written."""
    try:
        capsule = data.__dlpack__(max_version=(1, 0))
    except TypeError:  # an array of a package that knows no versions
        capsule = data.__dlpack__()
    mutable = type(data).__module__.split(".")[0] not in IMMUTABLE
    if not _is_named(capsule, b"dltensor_versioned"):
        return capsule, Tensor.from_address(_pointer_of(capsule, b"dltensor")), mutable
    versioned = Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
    return capsule, versioned.tensor, mutable and not versioned.flags & READ_ONLY


def read(data: Any) -> Tuple[int, int, str, bool, Any]:
    """Returns the address, the count, the name of the type, whether the tensor may be written, and an object that keeps
    it alive."""
    capsule, tensor, writable = opened(data)
    name = NAMES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise Refused(f"the type {tensor.code}, {tensor.bits} bits, of DLPack")
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
            raise Refused("strides", strides=True)
        count *= tensor.shape[axis]
    return (tensor.data or 0) + tensor.byte_offset, count, name, writable, (data, capsule)
