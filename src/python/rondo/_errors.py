# SPDX-License-Identifier: Apache-2.0
"""This module has the exceptions, and makes them from errors of the C API."""

from __future__ import annotations

import builtins
from ctypes import byref, sizeof
from typing import Any, Optional, Tuple

from ._interface import Status, rondo_error_t
from ._library import C


class Error(RuntimeError):
    """A call of Rondo failed. The message says what happened, where, and what to do.

    Attributes: `status` is the rondo.Status. `rank` is the rank that noticed the failure first. `peer` is the rank that
    the failure is about. `operation` is the operation's number on its communicator, from 1. Each of these three may be
    None.

    >>> import rondo
    >>> try:
    ...     rondo.Communicator(rondo.unique_id(), rank=3, size=2)
    ... except rondo.Error as error:
    ...     print(error.status.name)
    INVALID_ARGUMENT
    """

    default_status = Status.INTERNAL

    def __init__(self, message: str, status: Optional[Status] = None, rank: Optional[int] = None,
                 peer: Optional[int] = None, operation: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = self.default_status if status is None else status
        self.rank, self.peer, self.operation = rank, peer, operation

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.status, self.rank, self.peer, self.operation)


class NotReadyError(Error):
    """The communicator is being made, or a device still uses a buffer. Call again later."""

    default_status = Status.NOT_READY


class InvalidArgument(Error, ValueError):
    """An argument was refused. Nothing was done, and the communicator is usable."""

    default_status = Status.INVALID_ARGUMENT


class InvalidHandle(Error, ValueError):
    """The communicator, stream, event or registration was destroyed before."""

    default_status = Status.INVALID_HANDLE


class UnsupportedError(Error, NotImplementedError):
    """This version knows the request, but it is not available here."""

    default_status = Status.UNSUPPORTED


class OutOfResourcesError(Error, MemoryError):
    """Memory, descriptors or threads ran out. Refused, or the operation failed."""

    default_status = Status.OUT_OF_RESOURCES


class SystemCallError(Error):
    """A call to the operating system failed. The message has its name and errno."""

    default_status = Status.SYSTEM


class AuthenticationError(Error):
    """The other end of a connection did not prove that it knows the secret."""

    default_status = Status.AUTHENTICATION


class TimeoutError(Error, builtins.TimeoutError):  # pylint: disable=redefined-builtin
    """A deadline passed. The communicator has failed. Only shrink(), abort() and destroy() still work."""

    default_status = Status.TIMEOUT


class RemoteError(Error):
    """Another rank died or left. `peer` is that rank. The communicator has failed."""

    default_status = Status.REMOTE


class MismatchError(Error):
    """Ranks disagree on an operation. The communicator has failed."""

    default_status = Status.MISMATCH


class AbortedError(Error):
    """This or another rank called abort(). Only destroy() still works."""

    default_status = Status.ABORTED


class CommFailedError(Error):
    """The communicator failed in an earlier operation, which is the `__cause__` of this exception."""

    default_status = Status.COMM_FAILED


class InternalError(Error):
    """Rondo has a defect. Please report it with the message."""

    default_status = Status.INTERNAL


class InvalidUsage(Error):
    """The call does not fit the calls before it, such as a message to this rank outside of a group."""

    default_status = Status.INVALID_USAGE


class RevokedError(Error):
    """A rank revoked the communicator. Only shrink(), flush(), abort() and destroy() still work."""

    default_status = Status.REVOKED


CLASSES = {kind.default_status: kind for kind in (
    NotReadyError, InvalidArgument, InvalidHandle, UnsupportedError, OutOfResourcesError, SystemCallError,
    AuthenticationError, TimeoutError, RemoteError, MismatchError, AbortedError, CommFailedError, InternalError,
    InvalidUsage, RevokedError)}


def known_status(number: int) -> Status:
    """Returns the status. For a status of a later version of the library, returns INTERNAL."""
    try:
        return Status(number)
    except ValueError:
        return Status.INTERNAL


def told(error: rondo_error_t) -> Error:
    """Returns the exception of a filled rondo_error_t."""
    status = known_status(error.status)
    return CLASSES.get(status, Error)(error.message.decode("utf-8", "replace"), status,
                                      error.rank if error.rank >= 0 else None,
                                      error.peer if error.peer >= 0 else None, error.operation or None)


def failure(number: int, comm: Optional[int] = None) -> Error:
    """Returns the exception of a call that returned the status `number`. The library describes the error."""
    status = known_status(number)
    error = rondo_error_t()
    error.size = sizeof(error)
    if C.rondo_comm_last_error(comm, byref(error)) != 0 or error.status == 0:
        return CLASSES.get(status, Error)(C.rondo_status_string(number).decode(), status)
    first = told(error)
    if status is Status.COMM_FAILED and first.status is not status:
        later = CommFailedError(f"the communicator failed earlier: {first}", status, first.rank, first.peer,
                                first.operation)
        later.__cause__ = first
        return later
    if first.status is not status:  # the library has kept an earlier refusal of this thread
        return CLASSES.get(status, Error)(C.rondo_status_string(number).decode(), status)
    return first


def check(number: int, comm: Optional[int] = None) -> None:
    """Raises an exception if the status is not RONDO_OK."""
    if number:
        raise failure(number, comm)
