# SPDX-License-Identifier: Apache-2.0
"""Makes several hosts on one machine. Each is a set of namespaces (network, name, IPC, processes, mounts). A bridge
in another namespace joins them. This needs root. All that is made ends with the test; nothing else is touched."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

PREFIX = "10.201."  # the next number is 17 for the first rail
MANY = 24  # hosts; each learns the addresses of all others, and 1,024 are kept (net.ipv4.neigh.default.gc_thresh3)
HEADERS = 14 + 20 + 32  # bytes of Ethernet, IPv4, and TCP with timestamps
SEGMENT = 1500 - 20 - 32  # payload bytes of a full segment
NFT = shutil.which("nft", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")  # None if it is not installed


def why_not():
    """Returns None if hosts can be made here, otherwise what is missing."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"no {program}"
    probe = subprocess.run(["unshare", "-n", "-u", "-i", "-p", "-m", "-f", "--mount-proc",
                            "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
                           capture_output=True, text=True, timeout=120)
    return None if probe.returncode == 0 else "no namespaces with veth here: " + probe.stderr.strip()


def innermost(pid):
    """Returns the innermost process that hosts.start() or a program like unshare has started. The processes above it
    only lead to it."""
    while True:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        if not children:
            return pid
        pid = int(children[0])


class Hosts:
    """Makes hosts: `with Hosts(2) as hosts:` then hosts.start(0, [program, ...], env=...). Each rail is an interface
    of each host, and a bridge that joins these. Methods without a rail work on the first one, eth0."""

    def __init__(self, count, rails=1):
        self.count, self.rails = count, rails
        self.holders, self.inner = [], []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="rondo-hosts-")
        try:
            self._hold(["switch", *(f"host{host}" for host in range(self.count))])
            self._batch(0, self._cables())
            for host in range(self.count):
                self._batch(1 + host, self._interfaces(host))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # If the first process of a namespace of processes ends, all other processes of the namespace end, too.
        for pid in self.inner:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for holder in self.holders:
            holder.kill()
            holder.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _hold(self, names):
        """Starts a process for each of the names that keeps the namespaces open: the switch's first, then the hosts'.
        Appends to `inner` the ids of the processes that are inside of them."""
        for number, name in enumerate(names):
            unshare = ["unshare", "-n", *(["-u", "-i", "-p", "-m", "-f", "--mount-proc", "--kill-child"] if number else
                       [])]
            own = f"echo h{number - 1} > /proc/sys/kernel/hostname && " if number else ""
            script = f'{own}echo ready > "{self.folder}/{name}" && exec sleep infinity'
            self.holders.append(subprocess.Popen([*unshare, "sh", "-c", script], stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 120
        for name, holder in zip(names, self.holders):
            while not os.path.exists(os.path.join(self.folder, name)):
                if time.monotonic() > deadline or holder.poll() is not None:
                    raise RuntimeError(f"the namespaces of {name} could not be made")
                time.sleep(0.002)
            self.inner.append(int(innermost(holder.pid)))

    def _inside(self, which, command, **options):
        subprocess.run(["nsenter", "-t", str(self.inner[which]), "-n", *command], check=True, capture_output=True,
                       timeout=120, **options)

    def _batch(self, which, lines):
        """Runs the lines as commands of one program ip."""
        self._inside(which, ["ip", "-batch", "-"], input="\n".join(lines), text=True)

    def _cables(self):
        """Yields what makes each rail's bridge, and a cable from it to each host. Both ends are made in the switch's
        namespace. So a host's interface has a high index there, and tests may make one with a lower index."""
        for rail in range(self.rails):
            yield f"link add br{rail} type bridge"
            yield f"link set br{rail} up"
            for host in range(self.count):
                yield f"link add p{host}r{rail} type veth peer name q{host}r{rail}"
                yield f"link set q{host}r{rail} netns {self.inner[1 + host]}"
                yield f"link set p{host}r{rail} master br{rail} up"

    def _interfaces(self, own):
        """Yields what gives a host its addresses. If there are many, each host also gets the others' hardware
        addresses, because the kernel learns a limited number for all namespaces together."""
        yield "link set lo up"
        for rail in range(self.rails):
            yield f"link set q{own}r{rail} name eth{rail} address {self.hardware(own, rail)}"
            yield f"addr add {self.address(own, rail)}/24 dev eth{rail}"
            yield f"link set eth{rail} up"
            for host in range(self.count if self.count > MANY else 0):
                if host != own:
                    yield (f"neigh replace {self.address(host, rail)} lladdr {self.hardware(host, rail)} dev eth{rail} "
                           "nud permanent")

    @staticmethod
    def hardware(host, rail=0):
        return f"02:00:00:00:{rail:02x}:{host:02x}"

    @staticmethod
    def address(host, rail=0):
        return f"{PREFIX}{17 + rail}.{host + 1}"

    def command(self, host, words):
        """Returns the command that runs the words on the host, in this folder."""
        return ["nsenter", "-t", str(self.inner[1 + host]), "-n", "-u", "-i", "-p", "-m", f"--wd={os.getcwd()}", "--",
                *words]

    def start(self, host, command, **options):
        """Starts a process on the host. Its standard output and standard error are one pipe."""
        return subprocess.Popen(self.command(host, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **options)

    def limit(self, rate):
        """Limits the rate at which each host sends, such as "200mbit". None removes the limit."""
        for host in range(self.count):
            self._inside(1 + host, ["tc", "qdisc", "replace", "dev", "eth0", "root",
                                    *(["noqueue"] if rate is None else
                                      ["tbf", "rate", rate, "burst", "128kb", "latency", "50ms"])])

    def _sent(self, host, rail):
        """Returns what the host's interface of this rail has sent since it was made. Bytes include all headers. A
        large packet counts its headers once, though it becomes many frames."""
        told = subprocess.run(["nsenter", "-t", str(self.inner[1 + host]), "-n", "ip", "-s", "-j", "link", "show",
                               f"eth{rail}"], check=True, capture_output=True, text=True, timeout=120).stdout
        return json.loads(told)[0]["stats64"]["tx"]

    def sent_bytes(self, host, rail=0):
        return self._sent(host, rail)["bytes"]

    def sent_payload(self, host):
        """Returns the bytes that the host's only rail has sent, without headers, and without what TCP sent again.
        TCP also sends again if an acknowledgement is late, though nothing was lost. Nearly all of these segments
        are full."""
        with open(f"/proc/{self.inner[1 + host]}/net/snmp", encoding="ascii") as file:
            names, values = (line.split() for line in file if line.startswith("Tcp:"))
        sent = self._sent(host, 0)
        return sent["bytes"] - HEADERS * sent["packets"] - SEGMENT * int(values[names.index("RetransSegs")])

    def cut(self, host, rail=0):
        """Makes a host's cable lose all packets in both directions."""
        self._inside(0, ["ip", "link", "set", f"p{host}r{rail}", "nomaster"])

    def heal(self, host, rail=0):
        self._inside(0, ["ip", "link", "set", f"p{host}r{rail}", "master", f"br{rail}"])

    def part(self, away, rail=0):
        """Moves the cables of these hosts to another bridge, without a notice to the interfaces."""
        self._inside(0, ["ip", "link", "add", f"away{rail}", "type", "bridge"])
        self._inside(0, ["ip", "link", "set", f"away{rail}", "up"])
        for host in away:
            self._inside(0, ["ip", "link", "set", f"p{host}r{rail}", "master", f"away{rail}"])

    def take_down(self, host, rail=0):
        """Takes the interface itself down, as an administrator or a driver does."""
        self._inside(1 + host, ["ip", "link", "set", f"eth{rail}", "down"])

    def cut_one_way(self, host):
        """Drops all packets that the host sends. Packets to the host still arrive."""
        # The host gets wrong hardware addresses for its neighbours, so no host accepts its frames.
        for other in range(self.count):
            if other != host:
                self._inside(1 + host, ["ip", "neigh", "replace", self.address(other), "lladdr", "02:00:00:00:00:99",
                                        "dev", "eth0", "nud", "permanent"])

    def lose(self, percent):
        """Drops this percentage of the packets that each host receives, at random."""
        rules = ("add table ip lost; add chain ip lost in { type filter hook input priority 0; }; "
                 f"add rule ip lost in iifname != lo numgen random mod 100 < {percent} drop")
        for host in range(self.count):
            self._inside(1 + host, [NFT, rules])

    def change_packets(self, host):
        """Changes a byte in each larger TCP packet that the host sends, as an attacker between the hosts would do it.
        The checksums of TCP still match. Returns False if nft or the kernel cannot."""
        rules = ("add table ip changed; add chain ip changed out { type filter hook output priority 0; }; "
                 "add rule ip changed out ip length > 1200 meta l4proto tcp @ih,8000,8 set 0x55")
        try:
            self._inside(1 + host, [NFT, rules])
        except subprocess.CalledProcessError:
            return False
        return True

    def kill(self, host):
        """Kills every process of the host, at once."""
        os.kill(self.inner[1 + host], signal.SIGKILL)
