# SPDX-License-Identifier: Apache-2.0
"""This module has the results of a communicator's queries."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

from ._interface import Algorithm, DeviceExecutor, Kernel, Protocol


class OperationStatistics(NamedTuple):
    """The sums over all operations of one collective; times are in nanoseconds."""

    operations: int
    bytes: int
    in_flight_ns: int
    exposed_ns: int


class Statistics(NamedTuple):
    """The work of a communicator on this rank: the total, and sums for each collective that has run, by its name."""

    total: OperationStatistics
    collectives: Dict[str, OperationStatistics]
    waits_seen: bool


class Memory(NamedTuple):
    """The memory of a communicator on this host."""

    reserved_bytes: int
    used_bytes: int


class DeviceMemory(NamedTuple):
    """The memory of a communicator on this rank's device."""

    suspendable_bytes: int
    persistent_bytes: int
    suspended: bool


class Properties(NamedTuple):
    """The properties of a communicator."""

    rank: int
    rank_count: int
    device: Optional[int]
    local_rank_count: int
    core_count: int
    oversubscribed: bool
    mapped_buffers: bool
    cross_memory: bool
    shared_bytes: int
    device_executor: DeviceExecutor
    group_hash: int


class Plan(NamedTuple):
    """The plan of an operation."""

    algorithm: Algorithm
    protocol: Protocol
    channels: int
    kernel: Kernel
    chunk_bytes: int
