# SPDX-License-Identifier: Apache-2.0
"""This module finds the address, the count and the type of buffers, and allocates memory that peers map.

A described buffer is a tuple: address, count, type, whether it may be written, and an owner that keeps it alive. The
tuple is made on every call, because an array may change its type or its memory between two calls."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
import weakref
from ctypes import addressof, byref, c_char, c_void_p, py_object
from typing import Any, Dict, NoReturn, Optional, Sequence, Tuple, TypeVar, Union

from . import _dlpack
from ._errors import Error, InvalidArgument, check
from ._interface import Type
from ._library import C

Scoped = TypeVar("Scoped", bound="Scope")
Described = Tuple[Optional[int], int, int, bool, Any]

SIZES: Dict[int, int] = {type_: C.rondo_type_size(type_) for type_ in Type}
ALIASES = {"float8_e4m3fn": Type.FLOAT8_E4M3, "float": Type.FLOAT64, "double": Type.FLOAT64, "int": Type.INT64,
           "half": Type.FLOAT16}
NAMES = {**{type_.name.lower(): type_ for type_ in Type}, **ALIASES}


class Scope:
    """An object that deregister() ends. The end of its `with` block calls deregister()."""

    def deregister(self) -> None:
        """Ends the object. Each derived class defines this method."""
        raise NotImplementedError

    def __enter__(self: Scoped) -> Scoped:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.deregister()
        except Error:
            if kind is None:  # an exception that leaves the block is not replaced
                raise


def formats() -> Dict[str, int]:
    """Returns the type of each format of the buffer protocol, with and without the mark of the byte order."""
    found = {}
    native = "<" if sys.byteorder == "little" else ">"
    for mark in ("", "@", "=", native):
        for code in "bBhHiIlLqQefdc":
            if mark in ("=", native) and code == "c":
                continue
            size = struct.calcsize((mark or "@") + code)
            kind = "float" if code in "efd" else "int" if code.islower() and code != "c" else "uint"
            if f"{kind}{8 * size}" in NAMES:
                found[mark + code] = int(NAMES[f"{kind}{8 * size}"])
    return found


FORMATS = formats()
TYPESTRS = {f"{'|' if SIZES[type_] == 1 else '<'}{name[0]}{SIZES[type_]}": int(type_)
            for name, type_ in NAMES.items() if re.fullmatch(r"(int|uint|float)\d+", name)}
KNOWN = ", ".join(type_.name.lower() for type_ in Type)


def type_of(dtype: Any) -> Type:
    """Returns the element type that a name, a rondo.Type, or a dtype of NumPy, ml_dtypes or PyTorch stands for.

    >>> type_of("bfloat16").name, type_of(float).name
    ('BFLOAT16', 'FLOAT64')
    """
    if isinstance(dtype, int):
        return Type(dtype)
    name = dtype if isinstance(dtype, str) else name_of(dtype)
    try:
        return NAMES[name.split(".")[-1]]
    except KeyError:
        raise InvalidArgument(f"Rondo has no element type {name!r}. It has {KNOWN}") from None


def name_of(dtype: Any) -> str:
    """Returns the name of a dtype. If Rondo uses that name for another type, adds words to the name."""
    name = str(getattr(dtype, "name", getattr(dtype, "__name__", dtype))).split(".")[-1]
    return "float8_e4m3 with infinities" if name == "float8_e4m3" else name  # Rondo's type is float8_e4m3fn elsewhere


class Buffer:
    """A buffer whose address and type are determined once, for use in many calls.

    A Buffer can take the place of an array in every call. It also gives elements a type that the array does not have.

    >>> import array, rondo
    >>> words = array.array("H", [0x3F80, 0x4000])   # 1.0 and 2.0 as bfloat16
    >>> with rondo.init() as comm:
    ...     comm.all_reduce(rondo.Buffer(words, "bfloat16"))
    <rondo.Buffer of 2 bfloat16>
    """

    __slots__ = ("_described",)

    def __init__(self, data: Any, dtype: Any = None) -> None:
        self._described = describe(data) if dtype is None else describe_as(data, type_of(dtype))

    @classmethod
    def from_address(cls, address: int, count: int, dtype: Any, owner: Any = None) -> "Buffer":
        """Makes a buffer of `count` elements at an address, and keeps `owner` alive."""
        made = cls.__new__(cls)
        made._described = (address or None, count, int(type_of(dtype)), True, owner)
        return made

    @property
    def address(self) -> int:
        """Returns the address of the first element, or 0 if there is none."""
        return self._described[0] or 0

    @property
    def type(self) -> Type:
        """Returns the element type."""
        return Type(self._described[2])

    def __len__(self) -> int:
        return self._described[1]

    def __repr__(self) -> str:
        return f"<rondo.Buffer of {len(self)} {self.type.name.lower()}>"


_from_buffer = c_char.from_buffer


def describe(data: Any) -> Described:
    """Describes a buffer. As long as the last element of the result lives, it pins the buffer."""
    if type(data) is Buffer:
        return data._described
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):
        return describe_foreign(data)
    type_ = FORMATS.get(view.format)
    if type_ is None or view.readonly or not view.nbytes or not view.c_contiguous:
        return describe_unusual(data, view, type_)
    held = _from_buffer(data)
    return addressof(held), view.nbytes // view.itemsize, type_, True, held


class PyBuffer(ctypes.Structure):
    """The struct Py_buffer of Python's C API."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_python = ctypes.PyDLL(None)
_get_buffer = _python.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = (py_object, ctypes.POINTER(PyBuffer), ctypes.c_int), ctypes.c_int
_release_buffer = _python.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = (ctypes.POINTER(PyBuffer),), None


class Pinned:
    """The memory of a read-only object, which is pinned until this object ends."""

    __slots__ = ("view",)

    def __init__(self, data: Any) -> None:
        self.view = PyBuffer()
        _get_buffer(data, byref(self.view), 0)

    def __del__(self, release: Any = _release_buffer) -> None:
        release(self.view)


def describe_unusual(data: Any, view: memoryview, type_: Optional[int]) -> Described:
    """Describes a buffer that is empty or may not be written, and refuses all others."""
    if type_ is None:
        refuse_type(data, f"the format {view.format!r}")
    if not view.c_contiguous:
        refuse_strides(data)
    if not view.nbytes:
        return None, 0, type_, not view.readonly, view
    pinned = Pinned(data)
    return pinned.view.buf, view.nbytes // view.itemsize, type_, False, pinned


def describe_as(data: Any, type_: Type) -> Described:
    """Describes the bytes of a buffer as elements of another type."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):
        address, count, own, writable, held = describe(data)
        size = count * SIZES[own]
    else:
        if not view.c_contiguous:
            refuse_strides(data)
        address, size, writable, held = None, view.nbytes, not view.readonly, view
        if size and writable:
            held = _from_buffer(data)
            address = addressof(held)
        elif size:
            held = Pinned(data)
            address = held.view.buf
    if size % SIZES[type_]:
        raise InvalidArgument(f"{size} bytes are no whole number of {type_.name.lower()}")
    return address, size // SIZES[type_], int(type_), writable, held


def refuse_type(data: Any, what: str) -> NoReturn:
    """Raises the exception for elements that Rondo has no type for."""
    raise InvalidArgument(f"a {type(data).__name__} with {what} has elements that Rondo has no type for. Convert it, "
                          f"or pass rondo.Buffer(data, dtype) to say what its bytes are: {KNOWN}")


def refuse_strides(data: Any) -> NoReturn:
    """Raises the exception for an array that is not contiguous."""
    raise InvalidArgument(f"this {type(data).__name__} is not contiguous in the order of C. Pass a contiguous copy, "
                          "such as numpy.ascontiguousarray(x) or x.contiguous(), and copy a result back")


def describe_foreign(data: Any) -> Described:
    """Describes an object without the buffer protocol: an array of a device, of ml_dtypes, or of PyTorch."""
    interface = interface_of(data)
    if interface is not None:
        return describe_interface(data, interface)
    if hasattr(data, "__dlpack__"):
        try:
            address, count, name, writable, held = _dlpack.read(data)
        except _dlpack.Refused as refused:
            if refused.strides:
                refuse_strides(data)
            refuse_type(data, str(refused))
        return address if count else None, count, int(NAMES[name]), writable, held
    raise TypeError(f"a {type(data).__name__} is no buffer: it has neither the buffer protocol, nor DLPack, nor an "
                    "array interface. Pass a NumPy array, an array.array, a bytearray, or an array of a device")


def interface_of(data: Any) -> Optional[Dict[str, Any]]:
    """Returns the array interface of an object, or None if it has none. PyTorch raises errors for some types."""
    for name in ("__cuda_array_interface__", "__array_interface__"):
        try:
            found: Optional[Dict[str, Any]] = getattr(data, name, None)
        except Exception:  # pylint: disable=broad-except
            continue
        if found is not None:
            return found
    return None


def describe_interface(data: Any, interface: Dict[str, Any]) -> Described:
    """Describes an array by its __array_interface__ or __cuda_array_interface__."""
    typestr, shape = interface["typestr"], interface["shape"]
    type_ = TYPESTRS.get(typestr)
    if type_ is None:
        name = name_of(getattr(data, "dtype", None))
        if name not in NAMES or typestr[0] == ">":
            refuse_type(data, f"the type {typestr!r}")
        type_ = int(NAMES[name])
    count, strides = 1, interface.get("strides")
    for length, stride in zip(reversed(shape), reversed(strides or shape)):
        if strides is not None and length > 1 and stride != count * SIZES[type_]:
            refuse_strides(data)
        count *= length
    address, readonly = interface["data"]
    return address if count else None, count, type_, not readonly, data


def empty(shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
    """Allocates an array in memory that the ranks of this host can map, so that collectives read it in place.

    The result is a NumPy array, or without NumPy a memoryview. Its memory is zeroed, and freed with the last reference.

    >>> import rondo
    >>> x = rondo.empty((2, 3), "int32")
    >>> x.shape, x.nbytes
    ((2, 3), 24)
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    type_ = type_of(dtype)
    count = 1
    for length in shape:
        count *= length
    if count < 1:
        raise InvalidArgument(f"the shape {shape} has no element: rondo.empty() allocates at least one")
    pointer = c_void_p()
    check(C.rondo_mem_alloc(byref(pointer), count * SIZES[type_]))
    raw = (c_char * (count * SIZES[type_])).from_address(pointer.value or 0)
    weakref.finalize(raw, C.rondo_mem_free, pointer.value).atexit = False  # the process ends with the memory
    return shaped(raw, shape, type_, dtype)


def shaped(raw: Any, shape: Tuple[int, ...], type_: Type, dtype: Any) -> Any:
    """Returns an array over raw memory."""
    try:
        import numpy  # pylint: disable=import-outside-toplevel
    except ImportError:
        for code in "bBiIqQfdlL":
            if FORMATS[code] == type_:
                return memoryview(raw).cast("B").cast(code, shape)  # type: ignore[call-overload]
        raise InvalidArgument(f"without NumPy there is no array of {type_.name.lower()}. Allocate bytes as uint8, and "
                              "pass rondo.Buffer(data, dtype)") from None
    name = {Type.FLOAT8_E4M3: "float8_e4m3fn"}.get(type_, type_.name.lower())
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        try:
            import ml_dtypes  # type: ignore[import-not-found]  # pylint: disable=import-outside-toplevel
        except ImportError:
            raise InvalidArgument(f"NumPy has no {name} without the package ml_dtypes. Install it; or allocate uint"
                                  f"{8 * SIZES[type_]}, and pass rondo.Buffer(data, {name!r})") from None
        dtype = getattr(ml_dtypes, name)
    else:
        dtype = name
    return numpy.frombuffer(memoryview(raw).cast("B"), numpy.uint8).view(dtype).reshape(shape)
