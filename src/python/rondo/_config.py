# SPDX-License-Identifier: Apache-2.0
"""This module makes the configuration of a communicator from keyword arguments."""

from __future__ import annotations

import math
from ctypes import byref, sizeof
from enum import IntEnum
from typing import Any, Type

from ._errors import InvalidArgument, check
from ._interface import Algorithm, DeviceExecutor, Kernel, Protocol, rondo_config_t
from ._library import C

ENUMS = {"algorithm": Algorithm, "protocol": Protocol, "kernel": Kernel, "device_executor": DeviceExecutor}
SECONDS = {"timeout": "timeout_ms", "init_timeout": "init_timeout_ms"}
FIELDS = {field[0] for field in rondo_config_t._fields_} - {"size", "reserved", *SECONDS.values()}
BITS = {name: 8 * sizeof(kind) for name, kind, *_ in rondo_config_t._fields_}
OPTIONS = sorted(FIELDS | set(SECONDS))
LONGEST_S = (2 ** 32 - 1) / 1000  # 49.7 days: the longest time limit


def enumerator(kind: Type[IntEnum], value: Any) -> int:
    """Returns the number of an enumerator. `value` may also be its name.

    >>> enumerator(Algorithm, "ring")
    1
    """
    try:
        return int(kind[value.upper()] if isinstance(value, str) else kind(value))
    except (KeyError, ValueError):
        names = ", ".join(each.name.lower() for each in kind)
        raise InvalidArgument(f"{value!r} is no {kind.__name__.lower()}. There are: {names}") from None


def milliseconds(seconds: float) -> int:
    """Converts a time limit in seconds to milliseconds, rounded up."""
    if not 0 < seconds <= LONGEST_S:
        raise InvalidArgument(f"a time limit is above 0 s and at most {LONGEST_S:.0f} s, not {seconds!r}")
    return math.ceil(seconds * 1000)


def whole(name: str, value: Any) -> int:
    """Returns a number that the field `name` can hold."""
    least, most = (-1, 2 ** 31) if name == "device" else (0, 2 ** BITS[name])
    if not isinstance(value, int) or not least <= value < most:
        raise InvalidArgument(f"the option {name} is a whole number from {least} to {most - 1}, not {value!r}")
    return value


def configuration(**options: Any) -> rondo_config_t:
    """Returns the configuration of these options. An option that is None has its default."""
    config = rondo_config_t()
    check(C.rondo_config_default(byref(config), sizeof(config)))
    for name, value in options.items():
        if value is None:
            continue
        if name in SECONDS:
            setattr(config, SECONDS[name], milliseconds(value))
        elif name not in FIELDS:
            raise TypeError(f"a communicator has no option {name!r}. There are: {', '.join(OPTIONS)}")
        elif name in ENUMS:
            setattr(config, name, enumerator(ENUMS[name], value))
        elif name == "network_interface":
            config.network_interface = value.encode()
        else:
            setattr(config, name, whole(name, value))
    return config
