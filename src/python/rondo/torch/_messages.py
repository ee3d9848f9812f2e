# SPDX-License-Identifier: Apache-2.0
"""This module has messages between two ranks.

A communicator runs its operations one after another, but isend() and irecv() may be waited for in any order. So the
messages from one rank to another with one tag have a communicator and a stream of their own. Both are made in the
background when the first message is posted, because the other rank may post its end later."""

from __future__ import annotations

import threading
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch

from .._any_source import AnySource
from .._buffers import Buffer
from .._communicator import Communicator
from .._errors import AbortedError, Error
from .._streams import Stream
from ._failures import Names
from ._store import rendezvous
from ._work import Completer, Separate, Work


def key_of(source: int, target: int, tag: int) -> str:
    """Returns the key under which the sender publishes the id of a channel, when it posts its first message."""
    return f"message/{source}/{target}/{tag}"


class Channel:
    """The messages in one direction between this rank and another rank, with one tag."""

    def __init__(self, store: Any, source: int, target: int, tag: int, sends: bool, names: Names, seconds: float,
                 options: Mapping[str, Any]) -> None:
        self.source, self.names = source, names
        self._sends = sends
        self.completer = Completer()  # messages of other channels may end in another order
        self._lock = threading.Lock()
        self._pending: List[Tuple[Buffer, Work]] = []
        self._comm: Optional[Communicator] = None
        self._stream: Optional[Stream] = None
        self._error: Optional[BaseException] = None
        arguments = (store, key_of(source, target, tag), 0 if sends else 1, 2, seconds, None, options)
        threading.Thread(target=self._connect, args=arguments, name="rondo messages", daemon=True).start()

    def post(self, buffer: Buffer, work: Work) -> Work:
        """Enqueues a message, or keeps it until the other rank has joined."""
        with self._lock:
            self._post(buffer, work)
        return work

    def take(self, buffer: Buffer, work: Work, begun: bool) -> bool:
        """Receives a message that was already sent, or returns False. `begun` says that the first message was sent."""
        with self._lock:
            if self._error is not None:
                raise self.names.explained(self._error)
            try:
                sent = begun and not self._pending if self._comm is None else self._comm.probe(0) > 0
            except Error as error:
                raise self.names.explained(error) from error
            if sent:
                work._match(self.source, self.names)
                self._post(buffer, work)
        return sent

    def _post(self, buffer: Buffer, work: Work) -> None:
        if self._error is not None:
            work._fail(work._names.explained(self._error))
        elif self._comm is None:
            self._pending.append((buffer, work))
        else:
            self._enqueue(buffer, work)

    def _enqueue(self, buffer: Buffer, work: Work) -> None:
        assert self._comm is not None
        call = self._comm.send if self._sends else self._comm.recv
        try:
            work._start(call(buffer, 1 if self._sends else 0, stream=self._stream))
        except Exception as error:  # pylint: disable=broad-except
            work._fail(work._names.explained(error))

    def _connect(self, *arguments: Any) -> None:
        """Waits for the other rank, then enqueues the messages that were posted in the meantime."""
        comm, stream, failed = None, None, None
        try:
            comm = rendezvous(*arguments)
            stream = Stream()
        except Exception as error:  # pylint: disable=broad-except
            failed = error
        with self._lock:
            self._error = self._error or failed  # the channel may have been closed meanwhile
            if self._error is not None:
                if comm is not None:
                    comm.abort()
                    if stream is not None:
                        stream.destroy()
                    comm.destroy()
                self._fail_pending()
                return
            self._comm, self._stream = comm, stream
            for buffer, work in self._pending:
                self._enqueue(buffer, work)
            self._pending = []

    def _fail_pending(self) -> None:
        """Ends the messages that wait for the other rank."""
        assert self._error is not None
        for _, work in self._pending:
            work._fail(work._names.explained(self._error))
        self._pending = []

    def close(self, abort: bool) -> None:
        """Ends the channel: after its messages, or at once."""
        probed = self._comm
        if abort and probed is not None:
            probed.abort()  # take() may wait for an answer with the lock
        with self._lock:
            comm, stream = self._comm, self._stream
            self._error = self._error or AbortedError("the process group was shut down")
            self._comm = self._stream = None
            self._fail_pending()  # the other rank may never join
        if comm is not None and stream is not None:
            if abort:
                comm.abort()
            try:
                stream.destroy()
            except Error:
                pass  # each Work has its failure
            finally:
                comm.destroy()


class Channels:
    """All channels of a process group."""

    def __init__(self, store: Any, rank: int, ranks: List[int], seconds: float, options: Mapping[str, Any]) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks
        self.seconds, self._options = seconds, options  # `seconds` is the timeout of later channels
        self._channels: dict[Tuple[int, int, int], Channel] = {}
        self._lock = threading.Lock()
        self._any = AnySource(rank, ranks)
        self._separate = Separate()  # for receives from any rank, whose channels are unknown
        self._closed = False

    def get(self, source: int, target: int, tag: int) -> Channel:
        """Returns the channel. The first call makes it."""
        key = source, target, tag
        with self._lock:
            if self._closed:
                raise AbortedError("the process group was shut down")
            found = self._channels.get(key)
            if found is None:
                ends = [self._ranks[source], self._ranks[target]]
                names = Names(ends, f"a message from rank {ends[0]} to rank {ends[1]}")
                found = self._channels[key] = Channel(self._store, source, target, tag, source == self._rank, names,
                                                      self.seconds, self._options)
        return found

    def send(self, target: int, tag: int, buffer: Buffer) -> Work:
        """Posts a send."""
        channel = self.get(self._rank, target, tag)
        return channel.post(buffer, Work(channel.names, [], channel.completer, source=self._rank))

    def receive(self, source: int, tag: int, buffer: Buffer, result: Sequence[torch.Tensor]) -> Work:
        """Posts a receive. It waits for earlier receives from any rank with the same tag."""
        channel = self.get(source, self._rank, tag)
        work = Work(channel.names, result, channel.completer, source=source)
        self._any.post(tag, source, lambda *_: bool(channel.post(buffer, work)), work._fail, self.seconds)
        return work

    def receive_any(self, tag: int, buffer: Buffer, result: Sequence[torch.Tensor]) -> Work:
        """Posts a receive from any rank."""
        work = Work(Names(self._ranks), result, self._separate)

        def take(source: int, asks: bool) -> bool:
            key = source, self._rank, tag
            begun = key not in self._channels  # if true, its first message is not received yet
            if begun and not (asks and self._store.check([key_of(*key)])):
                return False
            return self.get(*key).take(buffer, work, begun)
        self._any.post(tag, None, take, work._fail, self.seconds)
        return work

    def close(self, abort: bool) -> None:
        """Ends all channels."""
        self._any.close()
        with self._lock:
            self._closed = True
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close(abort)
