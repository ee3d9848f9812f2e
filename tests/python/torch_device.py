# SPDX-License-Identifier: Apache-2.0
"""Cases for torch_program.py that need no device: what rondo.torch asks of a CUDA device that is imitated here."""

import contextlib
import datetime
import threading
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist

import rondo
import rondo.torch
from rondo.torch import _failures, _lanes, _work
from torch_special import apart, equal, expect

DEVICE = torch.device("cuda", 0)


class Stream:
    """A stream of the imitated device. It counts the waits of the host, and lists the events for which it waits."""

    def __init__(self, device=None):
        self.cuda_stream, self.device, self.host_waits, self.awaited = 7, device, 0, []

    def wait_stream(self, other):
        self.awaited.append(other)

    def synchronize(self):
        self.host_waits += 1


class Event:
    """An event of the imitated device, which is done when the test says so."""

    made = []

    def __init__(self):
        self.is_done, self.queries = False, 0
        Event.made.append(self)

    def record(self, stream):
        assert isinstance(stream, Stream)

    def wait(self, stream):
        stream.awaited.append(self)

    def query(self):
        self.queries += 1
        return self.is_done


@contextlib.contextmanager
def imitated(captures=False):
    """Imitates a device, and yields the current stream and a lane, whose communicator counts calls."""
    current, Event.made = Stream(), []
    comm = mock.Mock(spec=rondo.Communicator, async_error=lambda: None)
    with mock.patch.multiple(torch.cuda, Stream=Stream, Event=Event, current_stream=lambda device: current,
                             stream=lambda stream: contextlib.nullcontext(),
                             is_current_stream_capturing=lambda: captures):
        yield current, _lanes.DeviceLane(comm, _failures.Names([0, 1]), DEVICE)


def device_waits(rank, size):
    """Waits for operations of an imitated device."""
    with imitated() as (current, lane):
        group = apart("device waits", rank, size)
        group._lane = lambda device: lane
        options = SimpleNamespace(device=torch.device("cpu"), asyncOp=True)
        work = group.barrier(options)
        assert current.host_waits == 0
        work.wait()
        assert current.host_waits == 1 and current.awaited == [work.event], "the host did not wait for a barrier"
        options.asyncOp = False
        group.barrier(options)
        assert current.host_waits == 2, "the host did not wait for a barrier"
        work = group.allreduce([torch.ones(1)])
        work.wait()
        assert current.host_waits == 2 and not work.is_completed(), "only the stream waits for a collective"
        group._start_coalescing(DEVICE)
        parts = [group.allreduce([torch.ones(1)]) for _ in range(2)]
        joined = group._end_coalescing(DEVICE)
        for _ in range(2):  # the second wait may be for another stream
            current.awaited.clear()
            joined.wait()
            assert current.awaited == [part.event for part in parts], current.awaited
        expect(rondo.TimeoutError, lambda: work.wait(datetime.timedelta(milliseconds=10)))
        work.event.is_done = True
        assert work.wait(datetime.timedelta(milliseconds=10))
        kept, lane.comm.all_reduce.side_effect = len(lane._running), rondo.RemoteError("rank 1 has ended", peer=1)
        expect(rondo.RemoteError, lambda: group.allreduce([torch.ones(1)]))
        assert len(lane._running) == kept + 1, "calls before the failed one may still run"
        lane.close(abort=False)
        assert not lane._running
        group.shutdown()


def completers(rank, size):
    """Sets a future in a thread, which ends when there is nothing more to do."""
    del rank, size
    before = threading.enumerate()
    with mock.patch.object(_work, "IDLE_S", 0.01):
        work = _work.Work(_failures.Names([0, 1]), [torch.ones(1)], _work.Completer())
        future = work.get_future()
        threads = [thread for thread in threading.enumerate() if thread not in before]
        work._start(None)
        equal(future.wait(), [torch.ones(1)])
        for thread in threads:
            thread.join(60)
        assert threads and not any(thread.is_alive() for thread in threads), threads


def captured(rank, size):
    """Runs an operation in a capture of an imitated device. That asks no event, and later operations do not ask its."""
    del rank, size
    body = mock.Mock()
    with imitated() as (_, lane):
        lane.run(body, False, [], None)
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
            queries = sum(event.queries for event in Event.made)
            work = lane.run(body, False, [], None)
            assert queries == sum(event.queries for event in Event.made), "an event was asked"
        assert work.kept[0] is body
        lane.run(body, False, [], None)
        assert not work.event.queries, "the event of a captured operation was asked"
        work.wait()
        assert work.kept is None


def other_backends(rank, size):
    """Refuses CUDA tensors in a group that was made for tensors on the CPU."""
    group = dist.new_group(list(range(size)), backend="cpu:rondo,cuda:gloo")
    error = expect(rondo.UnsupportedError, lambda: group._lane(DEVICE))
    assert 'as "cpu:rondo,cuda:gloo"' in str(error), error
    x = torch.ones(1)
    dist.all_reduce(x, group=group)
    equal(x, torch.full((1,), float(size)))
    for served in (dist.group.WORLD, apart("other backends", rank, size)):
        with mock.patch("rondo.torch._group.rendezvous", side_effect=LookupError):
            expect(LookupError, lambda: served._lane(DEVICE))  # pylint: disable=cell-var-from-loop


def windows(rank, size):
    """Collects calls of two threads in a window each."""
    group = apart("windows", rank, size)
    group._lane = lambda device: SimpleNamespace(run=lambda *_, **__: object())
    ends = []

    def window(inside):
        group._start_coalescing(None)
        work = group.allreduce([torch.ones(1)])
        inside()
        ends.append(group._end_coalescing(None) is work)

    def other():
        thread = threading.Thread(target=window, args=(lambda: None,))
        thread.start()
        thread.join()
    window(other)
    assert ends == [True, True], ends
