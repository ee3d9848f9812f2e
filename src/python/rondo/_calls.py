# SPDX-License-Identifier: Apache-2.0
"""This module has the collectives and messages of a communicator.

Each method describes its buffers, checks properties that C cannot see, and ends with `_call()`. The exception is
`all_reduce()`, which is called most and calls C itself. A call takes about two microseconds longer than in C."""

from __future__ import annotations

import sys
from ctypes import byref, c_int, c_size_t, c_uint64
from operator import index
from typing import Any, Callable, Dict, NoReturn, Optional, Sequence, Tuple

from ._buffers import Described, describe
from ._errors import InvalidArgument, check, failure
from ._groups import state
from ._interface import Op, Type
from ._library import C
from ._ops import PremulSum
from ._streams import Stream, Work, handle_of

OPS: Dict[Any, int] = {**{op.name.lower(): int(op) for op in Op}, **{op: int(op) for op in Op}}
NOTHING: Described = (None, 0, 0, True, None)

_all_reduce = C.rondo_all_reduce


def op_number(op: Any) -> int:
    """Returns the number of a reduction. `op` may also be its name."""
    try:
        return OPS[op]
    except (KeyError, TypeError):
        raise InvalidArgument(f"{op!r} is no reduction. There are: {', '.join(each.name.lower() for each in Op)}, "
                              "comm.premul_sum(factor)") from None


def number_of(value: Any, name: str) -> int:
    """Returns a rank or a size as a number that fits the argument of C."""
    number: int = index(value)
    if abs(number) >= 2 ** 31:
        raise InvalidArgument(f"{name} {number} is not a rank of any communicator")
    return number


def unfit(recv: Described, count: int, type_: int) -> NoReturn:
    """Raises the exception for an output that does not fit."""
    if not recv[3]:
        raise InvalidArgument("the output may not be written: pass an array that is not read-only")
    raise InvalidArgument(f"the output has {recv[1]} elements of {Type(recv[2]).name.lower()}, but the result has "
                          f"{count} of {Type(type_).name.lower()}")


def output(data: Any, count: int, type_: int) -> Described:
    """Describes an output, which must have exactly this count and type."""
    recv = describe(data)
    if recv[1] != count or recv[2] != type_ or not recv[3]:
        unfit(recv, count, type_)
    return recv


def new_like(data: Any, described: Described, shape: Tuple[int, ...], count: int) -> Any:
    """Allocates an output that is an array like `data`."""
    numpy, array = sys.modules.get("numpy"), sys.modules.get("array")
    if numpy is not None and isinstance(data, numpy.ndarray):
        return numpy.empty(shape, data.dtype)
    if array is not None and isinstance(data, array.array):
        return array.array(data.typecode, bytes(count * data.itemsize))
    if hasattr(data, "new_empty"):  # PyTorch
        return data.new_empty(shape)
    if isinstance(data, (bytes, bytearray)):
        return bytearray(count)
    raise InvalidArgument(f"an output of the kind of {type(data).__name__} is not allocated here: pass out=, an array "
                          f"of {count} {Type(described[2]).name.lower()}")


def reused_like(reused: Dict[Any, Any], data: Any, described: Described, shape: Tuple[int, ...], count: int) -> Any:
    """Works as new_like(), but returns one array for each type and shape."""
    key = (type(data), shape, *(str(getattr(data, name, None)) for name in ("dtype", "typecode", "device")))
    if key not in reused or len(reused[key][0]) != reused[key][1]:  # the caller may have resized it
        fresh = new_like(data, described, shape, count)
        reused[key] = fresh, len(fresh)
    return reused[key][0]


def shape_of(data: Any, described: Described) -> Tuple[int, ...]:
    """Returns the shape of an array. If the object has no shape, returns its count."""
    shape = getattr(data, "shape", None)
    return (described[1],) if shape is None else tuple(shape)


def sizes(values: Optional[Sequence[int]], rank_count: int, name: str) -> Any:
    """Returns an array of C with one number for each rank, or None."""
    if values is None:
        return None
    numbers = [index(value) for value in values]
    if len(numbers) != rank_count or min(numbers) < 0 or max(numbers) >= 2 ** 63:
        raise InvalidArgument(f"{name} has one number for each of the {rank_count} ranks, each from 0 to 2^63 - 1, not "
                              f"{numbers}")
    return (c_size_t * rank_count)(*numbers)


def room(counts: Any, places: Any) -> int:
    """Returns the number of elements up to the end of the last block. The blocks are at `places`, or follow each other.

    Empty blocks are ignored."""
    if not places:
        return sum(counts)
    return max((place + count for place, count in zip(places, counts) if count), default=0)


def output_of_room(data: Any, count: int, type_: int) -> Described:
    """Describes an output, which must have this type and at least this count."""
    recv = describe(data)
    if recv[1] < count or recv[2] != type_ or not recv[3]:
        unfit(recv, count, type_)
    return recv


class Calls:
    """The calls of a communicator. Buffers are arrays, or rondo.Buffer. Every rank makes the same collectives.

    On host memory, a call without a stream returns its output when the operation is complete. With a rondo.Stream, the
    call at once returns a Work, which keeps the buffers alive. On a device, a call returns its output when the
    operation is enqueued on the given CUDA stream, or on the default stream. The caller must keep the buffers alive
    until the stream has passed the operation."""

    _handle: Optional[int]
    _reused: Dict[Any, Any]  # the outputs of calls with reuse=True
    _place: Optional[Tuple[int, int]]  # the rank and the size, once the communicator is made

    @property
    def rank(self) -> int:
        """Returns the rank of this process or thread. NotReadyError is raised while the communicator is being made."""
        return self._complete()[0]

    @property
    def size(self) -> int:
        """Returns the number of ranks. NotReadyError is raised while the communicator is being made."""
        return self._complete()[1]

    def _complete(self) -> Tuple[int, int]:
        """Returns the rank and the size. The first call asks the library."""
        if self._place is None:
            rank, size = c_int(), c_int()
            check(C.rondo_comm_rank(self._handle, byref(rank)), self._handle)
            check(C.rondo_comm_size(self._handle, byref(size)), self._handle)
            self._place = rank.value, size.value
        return self._place

    def premul_sum(self, factor: Any, dtype: Any = None) -> PremulSum:
        """Makes an `op` that multiplies this rank's elements by `factor` before they are added.

        If `dtype` is given, the operation is for arrays of this type alone, and the factor must fit the type."""
        return PremulSum(factor, dtype)

    def all_reduce(self, data: Any, out: Any = None, op: Any = "sum", stream: Any = None) -> Any:
        """Reduces an array over all ranks, on every rank, in place or into `out`.

        >>> import array, rondo
        >>> with rondo.init() as comm:
        ...     comm.all_reduce(array.array("f", [1, 2]), op="max")
        array('f', [1.0, 2.0])
        """
        send = describe(data)
        recv = send if out is None else describe(out)
        if recv[1] != send[1] or recv[2] != send[2] or not recv[3]:
            unfit(recv, send[1], send[2])
        if stream is not None or state.group is not None or type(op) is PremulSum:
            return self._reduce(_all_reduce, (send[0], recv[0], send[1], send[2]), op, (),
                                stream, data if out is None else out, (send, recv))
        status = _all_reduce(send[0], recv[0], send[1], send[2], op_number(op), self._handle, None)
        if status:
            raise failure(status, self._handle)
        return data if out is None else out

    def broadcast(self, data: Any, out: Any = None, root: int = 0, stream: Any = None) -> Any:
        """Copies the array of `root` to every rank, in place or into `out`."""
        send = describe(data)
        recv = output(data if out is None else out, send[1], send[2])
        return self._call(C.rondo_broadcast, (send[0], recv[0], send[1], send[2], number_of(root, "root")),
                          stream, data if out is None else out, (send, recv))

    def reduce(self, data: Any, out: Any = None, root: int = 0, op: Any = "sum", stream: Any = None) -> Any:
        """Reduces an array over all ranks, on `root`, in place or into `out`. Arrays of other ranks do not change."""
        send = describe(data)
        result, recv = data if out is None else out, NOTHING
        if self.rank == root:
            recv = output(result, send[1], send[2])
        return self._reduce(C.rondo_reduce, (send[0], recv[0], send[1], send[2]), op, (number_of(root, "root"),),
                            stream, result, (send, recv))

    def all_gather(self, data: Any, out: Any = None, stream: Any = None, reuse: bool = False) -> Any:
        """Collects the arrays of all ranks on every rank. A new output has the shape (size, *data.shape).

        In place, `data` is this rank's block of `out`. With `reuse`, the communicator keeps one new output for each
        type and shape, and each such call overwrites it.

        >>> import array, rondo
        >>> with rondo.init() as comm:
        ...     comm.all_gather(array.array("i", [4, 5]))
        array('i', [4, 5])
        """
        send = describe(data)
        count, shape = send[1] * self.size, (self.size, *shape_of(data, send))
        if out is None:
            out = (reused_like(self._reused, data, send, shape, count) if reuse else
                   new_like(data, send, shape, count))
        recv = output(out, count, send[2])
        return self._call(C.rondo_all_gather, (send[0], recv[0], send[1], send[2]), stream, out, (send, recv))

    def all_gather_v(self, data: Any, counts: Sequence[int], displacements: Optional[Sequence[int]] = None,
                     out: Any = None, stream: Any = None) -> Any:
        """Does the same as all_gather() with blocks of different sizes: rank r sends counts[r] elements.

        The blocks go to `displacements` in `out`. Without displacements, they follow each other."""
        send, each = describe(data), sizes(counts, self.size, "counts")
        places = sizes(displacements, self.size, "displacements")
        if send[1] != each[self.rank]:
            raise InvalidArgument(f"this rank sends {send[1]} elements, but counts[{self.rank}] is {each[self.rank]}")
        count = room(each, places)
        if out is None:
            out = new_like(data, send, (count,), count)
        recv = output_of_room(out, count, send[2])
        return self._call(C.rondo_all_gather_v, (send[0], recv[0], each, places, send[2]), stream, out, (send, recv))

    def reduce_scatter(self, data: Any, out: Any = None, op: Any = "sum", stream: Any = None) -> Any:
        """Reduces an array of `size` blocks over all ranks, and gives each rank one block of the result, in `out`.

        A new output has the shape data.shape[1:] if the first dimension is `size`."""
        send = describe(data)
        count, left = divmod(send[1], self.size)
        if left:
            raise InvalidArgument(f"{send[1]} elements are no {self.size} equal blocks, one for each rank. "
                                  "reduce_scatter_v() takes blocks of different sizes")
        if out is None:
            shape = shape_of(data, send)
            out = new_like(data, send, shape[1:] if shape[:1] == (self.size,) else (count,), count)
        recv = output(out, count, send[2])
        return self._reduce(C.rondo_reduce_scatter, (send[0], recv[0], count, send[2]), op, (),
                            stream, out, (send, recv))

    def reduce_scatter_v(self, data: Any, counts: Sequence[int], out: Any = None, op: Any = "sum",
                         stream: Any = None) -> Any:
        """Works as reduce_scatter() with blocks of different sizes: rank r receives counts[r] elements."""
        send, each = describe(data), sizes(counts, self.size, "counts")
        if send[1] != sum(each):
            raise InvalidArgument(f"this rank sends {send[1]} elements, but the sum of counts is {sum(each)}")
        if out is None:
            out = new_like(data, send, (each[self.rank],), each[self.rank])
        recv = output(out, each[self.rank], send[2])
        return self._reduce(C.rondo_reduce_scatter_v, (send[0], recv[0], each, send[2]), op, (),
                            stream, out, (send, recv))

    def all_to_all(self, data: Any, out: Any = None, stream: Any = None) -> Any:
        """Exchanges a block between every two ranks: block r of `data` goes to rank r, in place or into `out`."""
        send = describe(data)
        count, left = divmod(send[1], self.size)
        if left:
            raise InvalidArgument(f"{send[1]} elements are no {self.size} equal blocks, one for each rank. "
                                  "all_to_all_v() takes blocks of different sizes")
        recv = output(data if out is None else out, send[1], send[2])
        return self._call(C.rondo_all_to_all, (send[0], recv[0], count, send[2]),
                          stream, data if out is None else out, (send, recv))

    def all_to_all_v(self, data: Any, send_counts: Sequence[int], recv_counts: Sequence[int],
                     send_displacements: Optional[Sequence[int]] = None,
                     recv_displacements: Optional[Sequence[int]] = None, out: Any = None, stream: Any = None) -> Any:
        """Works as all_to_all() with blocks of different sizes: rank r receives send_counts[r] elements of `data`.

        The block from rank r has recv_counts[r] elements and goes to recv_displacements[r] of `out`. Without
        displacements, the blocks follow each other."""
        send, sent = describe(data), sizes(send_counts, self.size, "send_counts")
        sent_at = sizes(send_displacements, self.size, "send_displacements")
        got, got_at = sizes(recv_counts, self.size, "recv_counts"), sizes(recv_displacements, self.size,
                                                                          "recv_displacements")
        if send[1] < room(sent, sent_at):
            raise InvalidArgument(f"the blocks to send take {room(sent, sent_at)} elements, but the array has "
                                  f"{send[1]}")
        count = room(got, got_at)
        if out is None:
            out = new_like(data, send, (count,), count)
        recv = output_of_room(out, count, send[2])
        return self._call(C.rondo_all_to_all_v, (send[0], sent, sent_at, recv[0], got, got_at, send[2]),
                          stream, out, (send, recv))

    def gather(self, data: Any, out: Any = None, root: int = 0, stream: Any = None) -> Any:
        """Collects the arrays of all ranks on `root`. A new output has the shape (size, *data.shape).

        On other ranks the result is `out`, which may be None."""
        send, recv = describe(data), NOTHING
        if self.rank == root:
            count = send[1] * self.size
            if out is None:
                out = new_like(data, send, (self.size, *shape_of(data, send)), count)
            recv = output(out, count, send[2])
        return self._call(C.rondo_gather, (send[0], recv[0], send[1], send[2], number_of(root, "root")),
                          stream, out, (send, recv))

    def gather_v(self, data: Any, counts: Optional[Sequence[int]] = None,
                 displacements: Optional[Sequence[int]] = None, out: Any = None, root: int = 0,
                 stream: Any = None) -> Any:
        """Works as gather() with blocks of different sizes. Only `root` needs `counts`."""
        send, recv, each, places = describe(data), NOTHING, None, None
        if self.rank == root:
            each = sizes(() if counts is None else counts, self.size, "counts")
            places = sizes(displacements, self.size, "displacements")
            count = room(each, places)
            if out is None:
                out = new_like(data, send, (count,), count)
            recv = output_of_room(out, count, send[2])
        return self._call(C.rondo_gather_v, (send[0], send[1], recv[0], each, places, send[2], number_of(root, "root")),
                          stream, out, (send, recv))

    def scatter(self, data: Any, out: Any, root: int = 0, stream: Any = None) -> Any:
        """Sends block r of `data` on `root` to `out` of rank r. Other ranks pass None as `data`."""
        send, recv = NOTHING, describe(out)
        if not recv[3]:
            unfit(recv, recv[1], recv[2])
        if self.rank == root:
            send = describe(data)
            if send[1] != recv[1] * self.size or send[2] != recv[2]:
                raise InvalidArgument(f"the root has {send[1]} elements of {Type(send[2]).name.lower()}, not "
                                      f"{self.size} blocks of {recv[1]} {Type(recv[2]).name.lower()}: its output")
        return self._call(C.rondo_scatter, (send[0], recv[0], recv[1], recv[2], number_of(root, "root")),
                          stream, out, (send, recv))

    def scatter_v(self, data: Any, out: Any, counts: Optional[Sequence[int]] = None,
                  displacements: Optional[Sequence[int]] = None, root: int = 0, stream: Any = None) -> Any:
        """Works as scatter() with blocks of different sizes. Only `root` needs `data` and `counts`."""
        send, recv, each, places = NOTHING, describe(out), None, None
        if not recv[3]:
            unfit(recv, recv[1], recv[2])
        if self.rank == root:
            send, each = describe(data), sizes(() if counts is None else counts, self.size, "counts")
            places = sizes(displacements, self.size, "displacements")
            if send[1] < room(each, places) or send[2] != recv[2]:
                raise InvalidArgument(f"the root has {send[1]} elements of {Type(send[2]).name.lower()}, but the "
                                      f"blocks take {room(each, places)} of {Type(recv[2]).name.lower()}")
        return self._call(C.rondo_scatter_v, (send[0], each, places, recv[0], recv[1], recv[2],
                                              number_of(root, "root")),
                          stream, out, (send, recv))

    def barrier(self, stream: Any = None) -> Optional[Work]:
        """Waits until every rank has called barrier()."""
        work: Optional[Work] = self._call(C.rondo_barrier, (), stream, None, ())
        return work

    def send(self, data: Any, peer: int, stream: Any = None) -> Optional[Work]:
        """Sends an array to rank `peer`. If both ranks send first, put the calls into a group."""
        send = describe(data)
        work: Optional[Work] = self._call(C.rondo_send, (send[0], send[1], send[2], number_of(peer, "peer")),
                                          stream, None, send)
        return work

    def recv(self, out: Any, peer: int, stream: Any = None) -> Any:
        """Receives an array from rank `peer` into `out`, which has the size of the message."""
        recv = describe(out)
        if not recv[3]:
            unfit(recv, recv[1], recv[2])
        return self._call(C.rondo_recv, (recv[0], recv[1], recv[2], number_of(peer, "peer")), stream, out, recv)

    def probe(self, peer: int) -> int:
        """Returns how many messages of rank `peer` can be received without waiting for its call."""
        count = c_uint64()
        check(C.rondo_probe(number_of(peer, "peer"), self._handle, byref(count)), self._handle)
        return count.value

    def _reduce(self, function: Callable[..., int], before: Tuple[Any, ...], op: Any, after: Tuple[Any, ...],
                stream: Any, result: Any, held: Any) -> Any:
        """Calls a function of C that takes an operation after the type. The type is the last argument of `before`."""
        if type(op) is not PremulSum:
            return self._call(function, (*before, op_number(op), *after), stream, result, held)
        made = op._make(self._handle, before[-1])
        try:
            return self._call(function, (*before, made, *after), stream, result, (held, op.factor))
        finally:
            C.rondo_op_destroy(made, self._handle)  # enqueued calls, and calls kept in a group, can still use it

    def _call(self, function: Callable[..., int], arguments: Tuple[Any, ...], stream: Any, result: Any,
              held: Any) -> Any:
        """Calls a function of C, which takes the communicator and the stream last, and returns the result for the user.

        The owners of the buffers are stored before the call, because Ctrl-C may raise an exception after the call."""
        group = state.group
        if type(stream) is not Stream:
            if group is not None:
                group.held.append(held)
            status = function(*arguments, self._handle, None if stream is None else handle_of(stream))
            if status:
                raise failure(status, self._handle)
            return result
        work = Work(stream, self._handle, result, held)
        arguments += (self._handle, stream._live())
        if group is None:
            return stream._enqueue(work, function, arguments)
        group.works.append(work)
        status = function(*arguments)
        if status:
            raise failure(status, self._handle)
        return work
