# SPDX-License-Identifier: Apache-2.0
"""Lists what is compared: settings, and the runs of which each is made.

A run is one contender at one size; it belongs to every setting that shows it, so peers are measured once for private
and for mapped buffers.
"""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
SIZES_BYTES = [8] + [16 << step for step in range(0, 25, 2)]  # 8 B, then 16 B to 256 MiB, each four times the last
TIE_RATIO = 1.1  # between two ranks, ours / best above 1 and up to this is a tie
UNITS = {"K": KIB, "M": MIB, "G": 1 << 30}


@dataclass(frozen=True)
class Run:
    """One measurement; equal runs of different rounds are samples of the same thing."""
    contender: str
    ranks: int
    in_place: bool
    bytes: int
    type: str = "float32"
    create: bool = False
    hosts: int = 1
    rate: str | None = None     # what each host may send; None: no limit


@dataclass(frozen=True)
class Series:
    """A line of a plot, a column of a table."""
    label: str
    contender: str
    type: str = "float32"


@dataclass(frozen=True)
class Setting:
    name: str
    title: str
    ours: tuple
    ranks: int = 2
    in_place: bool = True
    metric: str = "median_us"   # or back_to_back_us
    sizes_min: int = 8
    sizes_max: int = 256 * MIB
    against_peers: bool = True
    reference: tuple = ()       # what ours are compared with, if not with the peers
    create: bool = False
    bar_ratio: float | None = None  # the most that ours / best may be, at each size
    bar_us: float | None = None     # the most that ours may take
    bar_mean: float | None = None   # the most that the mean of the ratios may be, from bar_mean_from up
    bar_mean_from: int = 0
    bar_floor: float | None = None  # the most that ours / floor may be, from bar_floor_from up
    bar_floor_from: int = 0
    bar_floor_to: int | None = None
    hosts: int = 1
    rate: str | None = None

    def series(self, peers):
        """Returns our contenders, and the peers or references with which they are compared."""
        against = tuple(Series(peer, peer) for peer in peers) if self.against_peers else self.reference
        return self.ours, against

    def sizes(self, wanted):
        return [0] if self.create else [size for size in wanted if self.sizes_min <= size <= self.sizes_max]

    def run(self, series, size):
        in_place = self.in_place and series.contender != RAW
        return Run(series.contender, self.ranks, in_place, size, series.type, self.create, self.hosts, self.rate)


RAW = "raw"  # an exchange of as many bytes by sockets: the floor between two hosts of a rank each
PRIVATE = (Series("rondo", "rondo"),)
MAPPED = (Series("rondo alloc", "rondo-alloc"), Series("rondo registered", "rondo-registered"))
HALF = (Series("bfloat16", "rondo", "bfloat16"), Series("float16", "rondo", "float16"))

SETTINGS = (
    Setting("private-in-place", "2 ranks, private buffers, in place", PRIVATE, bar_ratio=TIE_RATIO, bar_mean=0.75),
    Setting("private-out-of-place", "2 ranks, private buffers, out of place", PRIVATE, in_place=False,
            bar_ratio=TIE_RATIO, bar_mean=0.75),
    Setting("mapped-in-place", "2 ranks, buffers that peers can map, in place", MAPPED, bar_ratio=TIE_RATIO,
            bar_mean=0.5, bar_mean_from=256 * KIB, bar_floor=1.5, bar_floor_from=64 * MIB),
    Setting("mapped-out-of-place", "2 ranks, buffers that peers can map, out of place", MAPPED, in_place=False,
            bar_ratio=TIE_RATIO, bar_mean=0.5, bar_mean_from=256 * KIB, bar_floor=1.5, bar_floor_from=MIB),
    Setting("ranks-4", "4 ranks, back to back, in place", PRIVATE, ranks=4, metric="back_to_back_us",
            sizes_max=64 * MIB, bar_ratio=1.0, bar_mean=0.8),
    Setting("ranks-8", "8 ranks, back to back, in place", PRIVATE, ranks=8, metric="back_to_back_us",
            sizes_max=64 * MIB, bar_ratio=1.0, bar_mean=0.8),
    Setting("ranks-4-mapped", "4 ranks, buffers that peers can map, back to back, in place", MAPPED, ranks=4,
            metric="back_to_back_us", sizes_max=64 * MIB, bar_ratio=1.0, bar_mean=0.6),
    Setting("ranks-8-mapped", "8 ranks, buffers that peers can map, back to back, in place", MAPPED, ranks=8,
            metric="back_to_back_us", sizes_max=64 * MIB, bar_ratio=1.0, bar_mean=0.6),
    Setting("half", "2 ranks, time of half-width types by that of float32 for as many bytes", HALF,
            sizes_min=64 * KIB, against_peers=False, reference=(Series("float32", "rondo"),), bar_ratio=1.0),
    Setting("create", "a communicator of 8 processes made and destroyed", PRIVATE, ranks=8, create=True,
            against_peers=False, bar_us=100e3),
    Setting("hosts-2", "2 hosts of a rank each, over TCP, no limit, in place", PRIVATE, hosts=2, sizes_max=64 * MIB,
            bar_ratio=TIE_RATIO, bar_mean=0.95, bar_floor=1.2, bar_floor_to=64 * KIB),
    Setting("hosts-2-200mbit", "2 hosts of a rank each, over TCP, 200 Mbit/s, in place", PRIVATE, hosts=2,
            rate="200mbit", sizes_min=16 * MIB, sizes_max=64 * MIB, bar_ratio=TIE_RATIO, bar_floor=1 / 0.98),
    Setting("hosts-2x2-200mbit", "2 hosts of two ranks each, over TCP, 200 Mbit/s, in place: by a ring in rank order",
            PRIVATE, ranks=4, hosts=2, rate="200mbit", metric="back_to_back_us", sizes_min=4 * MIB,
            sizes_max=16 * MIB, against_peers=False, reference=(Series("ring", "rondo-ring"),), bar_ratio=0.7),
)


def parse_size(text):
    """Parses a size such as '64K', which is 65536. Raises ValueError for any other text."""
    number, unit = (text[:-1], UNITS[text[-1].upper()]) if text[-1:].upper() in UNITS else (text, 1)
    size = int(number) * unit
    if size < 4 or size % 4 != 0:
        raise ValueError(f"{text}: a size is a multiple of 4 bytes")
    return size


def format_size(size):
    for unit, factor in reversed(UNITS.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
