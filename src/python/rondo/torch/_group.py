# SPDX-License-Identifier: Apache-2.0
"""This module has the process group that torch.distributed calls.

It derives from PyTorch's ProcessGroup, not from Backend. So calls from Python do not go through C++, and callers get
the Work of this package with all its methods. Methods have the names of PyTorch, old and new."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .._errors import AbortedError, InvalidArgument, UnsupportedError
from ._about import About
from ._failures import Names
from ._lanes import Body, DeviceLane, HostLane, check_device
from ._messages import Channels
from ._monitored import MonitoredBarrier
from ._sparse import SparseSum
from ._store import limit_of, rendezvous
from ._tensors import (Finish, bitwise, blocks, dense, flat_input, flat_output, moved, packed_all, reduced, rows,
                       writable)
from ._work import Completer, Joined, Window, Work

Tensor, Tensors = torch.Tensor, Sequence[torch.Tensor]


def waits(opts: Any) -> bool:
    """Returns whether the caller waits for the operation at once."""
    return not getattr(opts, "asyncOp", True)


def listed(tensors: Any) -> Tensors:
    """Returns a list of tensors, which may be given as one tensor."""
    if not isinstance(tensors, Tensor) and not tensors:
        raise InvalidArgument("the list of tensors is empty: pass at least one tensor")
    return [tensors] if isinstance(tensors, Tensor) else tensors


class ProcessGroup(About):
    """The process group of the backend "rondo"."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, ranks: Optional[List[int]] = None,
                 options: Optional[Mapping[str, Any]] = None) -> None:
        """Makes rank `rank` of `size`. `ranks` has the global ranks, and `options` has keywords for rondo.Communicator.
        Communicators are made when the first operation needs them."""
        super().__init__(rank, size)
        if options is not None and not isinstance(options, Mapping):
            raise InvalidArgument("pg_options of the backend rondo is a dict with options of rondo.Communicator, not "
                                  f"{options!r}")
        self._store, self._rank, self._size = store, rank, size
        self._seconds, self._options = limit_of(timeout), dict(options or {})
        self._ranks = ranks or list(range(size))
        self._lanes: Dict[torch.device, Any] = {}
        self._lock, self._making, self._closed = threading.Lock(), threading.Lock(), False
        self._monitored = MonitoredBarrier(store, rank, self._ranks)
        self._messages = Channels(store, rank, self._ranks, self._seconds, self._options)
        self._completer = Completer()
        self._window = Window()

    # The life of a group:

    def _lane(self, device: torch.device, limit: Optional[float] = None) -> Any:
        """Returns the communicator for a device. All ranks make it at their first operation on that device, within
        `limit` seconds or the timeout of the group."""
        lane = self._lanes.get(device)
        if lane is not None:
            return lane
        check_device(device, dist.distributed_c10d._world.pg_backend_config.get(self))
        with self._making:  # another lock than the one that abort() needs
            if device not in self._lanes:
                names, host = Names(self._ranks), device.type == "cpu"
                place = sum(made.type == device.type for made in self._lanes)
                comm = rendezvous(self._store, f"collectives/{device.type}/{place}", self._rank, self._size,
                                  self._seconds if limit is None else limit, None if host else device.index,
                                  {"timeout": self._seconds, **self._options})
                with self._lock:
                    if self._closed:
                        comm.abort()
                        comm.destroy()
                        raise AbortedError("the process group was shut down")
                    self._lanes[device] = HostLane(comm, names) if host else DeviceLane(comm, names, device)
            return self._lanes[device]

    def _close(self, abort: bool) -> None:
        with self._lock:
            self._closed = True
            lanes, self._lanes = list(self._lanes.values()), {}
        self._monitored.close()
        self._messages.close(abort)
        for lane in lanes:
            lane.close(abort)

    def split_group(self, ranks: Sequence[int], timeout: Optional[timedelta] = None, opts: Any = None,
                    group_name: Optional[str] = None, group_desc: Optional[str] = None,
                    device_types: Any = None) -> Optional["ProcessGroup"]:
        """Makes a group of some ranks of this group, which only these ranks must call. Other ranks get None."""
        del device_types  # a group has all devices
        ranks = list(ranks)
        if self._rank not in ranks:
            return None
        made = ProcessGroup(dist.PrefixStore(f"split/{group_name}/", self._store), ranks.index(self._rank), len(ranks),
                            timedelta(seconds=self._seconds) if timeout is None else timeout,
                            [self._ranks[rank] for rank in ranks], self._options if opts is None else opts)
        made.setGroupName(group_name or "")
        made.setGroupDesc(group_desc or "undefined")
        made._split = True
        return made

    def shutdown(self) -> None:
        """Waits for the operations of this rank, and frees everything."""
        self._close(abort=False)

    def abort(self) -> None:
        """Ends the operations of all ranks, and frees everything."""
        self._close(abort=True)

    def _run(self, like: Tensor, body: Body, opts: Any, result: Tensors, finish: Finish = None, **how: bool) -> Work:
        self._sequence += 1
        work: Work = self._lane(like.device).run(body, waits(opts), result, finish, **how)
        if self._window.works is not None:
            self._window.works.append(work)
        return work

    def _each(self, works: List[Work]) -> Work:
        return works[0] if len(works) == 1 else Joined(works, Names(self._ranks), self._completer)

    def _start_coalescing(self, device: Any) -> None:
        self._window.works = []

    def _end_coalescing(self, device: Any) -> Work:
        works, self._window.works = self._window.works or [], None
        return self._each(works)

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # Collectives:

    @staticmethod
    def _packed(tensors: Tensors, receives: bool) -> Tuple[Tensors, Finish]:
        """Returns contiguous tensors, and if this rank receives, a function that copies what arrived back."""
        return packed_all(tensors) if receives else ([dense(tensor) for tensor in tensors], None)

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        root = getattr(opts, "rootRank", 0)
        packed, finish = self._packed(listed(tensors), root != self._rank)
        buffers = [moved(tensor) for tensor in packed]
        return self._run(packed[0], lambda comm, stream: [
            comm.broadcast(buffer, root=root, stream=stream) for buffer in buffers][-1], opts, listed(tensors), finish)

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors = listed(tensors)
        reduction = getattr(opts, "reduceOp", dist.ReduceOp.SUM if opts is None else opts)
        if tensors[0].layout is torch.sparse_coo:
            return self._each([self._add_sparse(tensor, reduction, opts) for tensor in tensors])
        if bitwise(tensors[0], reduction):
            return self._each([self._reduce_by_gather(tensor, reduction, None, opts) for tensor in tensors])
        packed, finish = packed_all(tensors)
        buffers = [reduced(tensor, reduction) for tensor in packed]
        return self._run(packed[0], lambda comm, stream: [
            comm.all_reduce(buffer, op=op, stream=stream) for buffer, op in buffers][-1], opts, tensors, finish)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, opts: Any) -> Work:
        tensors, root, reduction = listed(tensors), opts.rootRank, opts.reduceOp
        if bitwise(tensors[0], reduction):
            return self._each([self._reduce_by_gather(tensor, reduction, root, opts) for tensor in tensors])
        packed, finish = self._packed(tensors, root == self._rank)
        buffers = [reduced(tensor, reduction) for tensor in packed]
        return self._run(packed[0], lambda comm, stream: [
            comm.reduce(buffer, root=root, op=op, stream=stream) for buffer, op in buffers][-1], opts, tensors, finish)

    def _add_sparse(self, tensor: Tensor, reduction: Any, opts: Any) -> Work:
        """Adds sparse tensors. It waits for the descriptions of all ranks, and adds the tensors in the background."""
        added, lane = SparseSum(tensor, reduction), self._lane(tensor.device)
        described = added.description.new_zeros((self._size, len(added.description)))
        send, recv = moved(added.description), moved(described)
        lane.run(lambda comm, stream: comm.all_gather(send, out=recv, stream=stream), True, [described], None)
        descriptions = described.tolist()  # on a device, this waits for the gathering, which may have failed
        failed = lane.comm.async_error()
        if failed is not None:
            raise Names(self._ranks).explained(failed)
        return self._run(tensor, added.body(descriptions, self._ranks), opts, [tensor], added.finish)

    def _reduce_by_gather(self, tensor: Tensor, reduction: Any, root: Optional[int], opts: Any) -> Work:
        """Collects all operands and reduces them here, by a function that the library does not have."""
        function: Callable[..., Tensor] = bitwise(tensor, reduction)
        parts = tensor.new_empty((self._size, *tensor.shape))
        send, recv = moved(dense(tensor if root not in (None, self._rank) else writable(tensor))), moved(parts)

        def finish() -> None:
            if root in (None, self._rank):
                tensor.copy_(parts[0])
                for part in parts[1:]:
                    function(tensor, part, out=tensor)
        return self._run(tensor, lambda comm, stream: comm.all_gather(send, out=recv, stream=stream), opts, [tensor],
                         finish)

    def allgather(self, outputs: Sequence[Tensors], inputs: Any, opts: Any = None) -> Work:
        inputs = listed(inputs)
        if isinstance(outputs[0], Tensor):
            outputs = [outputs]  # type: ignore[list-item]
        return self._each([self._all_gather_list(outs, tensor, opts) for outs, tensor in zip(outputs, inputs)])

    def _all_gather_list(self, outputs: Tensors, tensor: Tensor, opts: Any) -> Work:
        self._sized(outputs, "outputs")
        whole, finish = flat_output(outputs)
        send, recv, counts = moved(dense(tensor)), moved(whole), blocks(outputs, tensor)

        def body(comm: Any, stream: Any) -> Any:
            if min(counts) == max(counts):
                return comm.all_gather(send, out=recv, stream=stream)
            return comm.all_gather_v(send, counts, out=recv, stream=stream)
        return self._run(tensor, body, opts, outputs, finish)

    def _allgather_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        (packed,), finish = packed_all([output])
        send, recv = moved(dense(tensor)), moved(packed)
        return self._run(tensor, lambda comm, stream: comm.all_gather(send, out=recv, stream=stream), opts, [output],
                         finish)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._each([self._allgather_base(output, tensor, opts) for output, tensor in zip(outputs, inputs)])

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """Collects several tensors. `outputs` has one list of tensors for each rank."""
        self._sized(outputs, "outputs")
        return self._each([self._all_gather_list([of_rank[i] for of_rank in outputs], tensor, opts)
                           for i, tensor in enumerate(inputs)])

    def gather(self, outputs: Sequence[Tensors], inputs: Any, opts: Any) -> Work:
        tensor, root = dense(listed(inputs)[0]), opts.rootRank
        if self._rank != root:
            send = moved(tensor)
            return self._run(tensor, lambda comm, stream: comm.gather_v(send, root=root, stream=stream), opts, [])
        blocks_of = self._sized(outputs[0], "outputs")
        whole, finish = flat_output(blocks_of)
        send, recv, counts = moved(tensor), moved(whole), blocks(blocks_of, tensor)
        return self._run(tensor, lambda comm, stream: comm.gather_v(send, counts, out=recv, root=root, stream=stream),
                         opts, blocks_of, finish)

    def gather_single(self, output: Tensor, tensor: Tensor, opts: Any) -> Work:
        outputs = [list(output.view(self._size, -1))] if self._rank == opts.rootRank else []
        return self.gather(outputs, [tensor.view(-1)], opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Sequence[Tensors], opts: Any) -> Work:
        output, root = listed(outputs)[0], opts.rootRank
        (packed,), finish = packed_all([output])
        recv = moved(packed)
        if self._rank != root:
            return self._run(output, lambda comm, stream: comm.scatter_v(None, recv, root=root, stream=stream), opts,
                             [output], finish)
        parts = self._sized(inputs[0], "inputs")
        send, counts = moved(flat_input(parts)), blocks(parts, output)
        return self._run(output, lambda comm, stream: comm.scatter_v(send, recv, counts, root=root, stream=stream),
                         opts, [output], finish)

    def reduce_scatter(self, outputs: Any, inputs: Sequence[Any], opts: Any = None) -> Work:
        outputs = listed(outputs)
        if isinstance(inputs[0], Tensor):
            inputs = [inputs]
        return self._each([self._reduce_scatter_list(output, parts, opts) for output, parts in zip(outputs, inputs)])

    def _reduce_scatter_list(self, output: Tensor, parts: Tensors, opts: Any) -> Work:
        self._sized(parts, "inputs")
        reduction = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        (packed,), finish = packed_all([output])
        (send, op), (recv, _) = reduced(flat_input(parts), reduction), reduced(packed, reduction)
        factor = 2 if output.is_complex() else 1
        counts = [part.numel() * factor for part in parts]

        def body(comm: Any, stream: Any) -> Any:
            if min(counts) == max(counts):
                return comm.reduce_scatter(send, out=recv, op=op, stream=stream)
            return comm.reduce_scatter_v(send, counts, out=recv, op=op, stream=stream)
        return self._run(output, body, opts, [output], finish)

    def _reduce_scatter_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        reduction = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        (packed,), finish = packed_all([output])
        (send, op), (recv, _) = reduced(dense(tensor), reduction), reduced(packed, reduction)
        return self._run(output, lambda comm, stream: comm.reduce_scatter(send, out=recv, op=op, stream=stream), opts,
                         [output], finish)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._each([self._reduce_scatter_base(output, tensor, opts) for output, tensor in zip(outputs, inputs)])

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def alltoall_base(self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any = None) -> Work:
        send, recv = moved(tensor), moved(output)
        sent, got = rows(tensor, input_splits, self._size), rows(output, output_splits, self._size)
        return self._run(tensor, lambda comm, stream: comm.all_to_all_v(send, sent, got, out=recv, stream=stream),
                         opts, [output])

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        self._sized(outputs, "outputs")
        self._sized(inputs, "inputs")
        whole, finish = flat_output(outputs)
        send, recv = moved(flat_input(inputs)), moved(whole)
        sent, got = blocks(inputs, inputs[0]), blocks(outputs, outputs[0])
        return self._run(outputs[0], lambda comm, stream: comm.all_to_all_v(send, sent, got, out=recv, stream=stream),
                         opts, outputs, finish)

    def barrier(self, opts: Any = None) -> Work:
        device = getattr(opts, "device", None) or torch.device("cpu")
        like, limit = torch.empty(0, device=device), getattr(opts, "timeout", None)
        limited = limit is not None and limit.total_seconds() > 0  # otherwise, the caller has passed no limit
        if limited:
            self._lane(like.device, limit_of(limit))
        work = self._run(like, lambda comm, stream: comm.barrier(stream=stream), None if limited else opts, [],
                         holds_host=True)
        if limited and waits(opts):
            work.wait(limit)
        return work

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """Waits until all ranks have come. If some do not, the first rank names one, or all with `wait_all_ranks`."""
        self._monitored.wait(self._seconds if timeout is None else timeout.total_seconds(), wait_all_ranks)

    def _sized(self, tensors: Any, name: str) -> Any:
        """Refuses a list that does not have one entry for each rank."""
        if len(tensors) != self._size:
            raise InvalidArgument(f"{name} has {len(tensors)} entries, not one for each of the {self._size} ranks")
        return tensors

    # Messages:

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        target = self._other(dst)
        return self._message(tensors, lambda tensor: self._messages.send(target, tag, moved(tensor)))

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        source = self._other(src)
        return self._message(tensors, lambda tensor: self._messages.receive(source, tag, moved(tensor), [tensor]))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        if self._size == 1 or len(listed(tensors)) != 1:
            raise InvalidArgument(f"a receive from any rank needs one tensor, not {len(listed(tensors))}, and another "
                                  f"rank in the group, which has {self._size}")
        return self._message(tensors, lambda tensor: self._messages.receive_any(tag, moved(tensor), [tensor]))

    recvAnysource = recv_anysource

    def _other(self, peer: int) -> int:
        """Refuses a number that is not another rank."""
        if peer == self._rank or not 0 <= peer < self._size:
            raise InvalidArgument(f"rank {peer} is not another rank of this group of {self._size}")
        return peer

    def _message(self, tensors: Any, post: Callable[[Tensor], Work]) -> Work:
        tensors = listed(tensors)
        if tensors[0].device.type != "cpu":
            raise UnsupportedError("messages need tensors on the CPU in this version: use a collective, or "
                                   "libnccl.so.2")
        works = [post(tensor) for tensor in tensors]
        if self._window.works is not None:
            self._window.works.extend(works)
        return self._each(works)
