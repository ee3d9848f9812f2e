# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with an RDMA device in software (Soft-RoCE: the kernel's rdma_rxe), for tests of the transport over
verbs. Everything comes from Debian packages, which are fetched and unpacked into a folder of the build; nothing is
installed, and no root is needed. The guest sees this machine's files read-only, so that programs run in it as they are.

The guest's kernel and modules come from linux-image-amd64. If qemu-system-x86, busybox-static or iproute2 are not
installed, they are fetched with their dependencies. QEMU emulates the processor (TCG), so it runs in containers."""

import gzip
import hashlib
import lzma
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import time

PACKAGES = ("busybox-static", "iproute2")
QEMU_PACKAGE, QEMU = "qemu-system-x86", "qemu-system-x86_64"
KERNEL_PACKAGE = "linux-image-amd64"
MODULES = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay", "crc32_generic", "crc32_pclmul", "ib_uverbs",
           "rdma_rxe", "sch_netem", "sch_ingress", "cls_u32", "act_gact")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
NETWORKS = ("10.202.18.", "10.202.19.")  # by interface
OWN_HOST = "unshare -fp --kill-child --mount-proc"  # before a rank's command: the rank counts as one of another host

INIT = r"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /lower /upper /host
for program in $(/bin/busybox --list); do [ -e /bin/$program ] || /bin/busybox ln -s busybox /bin/$program; done
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
value() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
while read -r module; do insmod /modules/$module || echo "init: $module is not loaded"; done < /modules/order
share=$(value rondo_share)
node=$(value rondo_node)
hostname "vm$node"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /lower || echo "init: no host files"
mount -t tmpfs tmpfs /upper
mkdir -p /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /host
for place in proc sys dev; do mount -o bind /$place /host/$place; done
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /host/run
mkdir -p /host$share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /host$share || echo "init: no shared folder"
# rxe works in softirq; ranks that spin would starve it.
for thread in $(ps | sed -n "s/^ *\([0-9]*\) .*ksoftirqd.*/\1/p"); do renice -n -20 -p $thread > /dev/null 2>&1; done
chroot /host /bin/sh $share/job.sh > /host$share/output.$node 2>&1
echo $? > /host$share/status.$node
sync
reboot -f
"""


class Missing(Exception):
    """Something that the image needs, and that cannot be had here."""


def call(command, seconds=300, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, **options)


def packages_to_fetch(more):
    """Returns the wanted packages and their dependencies that are not installed, followed by the kernel's package."""
    wanted = [*PACKAGES, *more, *([] if shutil.which(QEMU) else [QEMU_PACKAGE])]
    plan = call(["apt-get", "-s", "install", "--no-install-recommends", *wanted])
    if plan.returncode != 0:
        raise Missing("apt-get does not know " + ", ".join(wanted) + " (apt-get update?): " + plan.stderr.strip())
    depends = call(["apt-cache", "depends", KERNEL_PACKAGE]).stdout
    kernel = re.search(r"Depends: (linux-image-\S+)", depends)
    if kernel is None:
        raise Missing(f"apt-get does not know {KERNEL_PACKAGE} (apt-get update?)")
    return re.findall(r"^Inst (\S+)", plan.stdout, re.MULTILINE) + [kernel[1]]


def fetch_packages(root, cache, more):
    for name in packages_to_fetch(more):
        if not list(cache.glob(f"{name}_*.deb")):
            try:
                fetched = call(["apt-get", "-qq", "download", name], cwd=cache)
            except subprocess.TimeoutExpired:
                raise Missing(f"the package {name} did not come within 300 s") from None
            if fetched.returncode != 0:
                raise Missing(f"the package {name} cannot be fetched: {fetched.stderr.strip()}")
        for package in cache.glob(f"{name}_*.deb"):
            call(["dpkg-deb", "-x", package, root], check=True)


def unpack(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        raise Missing(f"{path.name} is compressed by zstd, which this test cannot read")
    return data


def kernel_of(compressed):
    """Returns the decompressed kernel, which QEMU starts at once. The guest would take seconds to decompress it."""
    start = compressed.find(b"\xfd7zXZ\0")
    return lzma.LZMADecompressor().decompress(compressed[start:]) if start > 0 else compressed


def find_modules(root):
    """Returns the files of MODULES and of their dependencies in loading order. Modules without a file are built in."""
    files = {re.sub(r"\.ko.*", "", path.name).replace("-", "_"): path
             for path in root.glob("**/lib/modules/**/*.ko*") if path.is_file()}
    ordered = {}

    def add(name):
        path = files.get(name.replace("-", "_"))
        if path is None or f"{path.stem}.ko" in ordered:
            return
        content = unpack(path)
        needs = re.search(rb"\0depends=([^\0]*)\0", content)
        for need in (needs[1].decode().split(",") if needs else []):
            add(need)
        ordered[f"{path.stem}.ko"] = content

    for module in MODULES:
        add(module)
    if "rdma_rxe.ko" not in ordered:
        raise Missing("the kernel's package has no module rdma_rxe")
    return ordered


class Archive:
    """A cpio archive (newc), as kernels take it."""

    def __init__(self):
        self.parts, self.count = [], 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.count += 1
        encoded = name.encode() + b"\0"
        fields = (self.count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        self.parts.append(self.padded(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded))
        self.parts.append(self.padded(content))

    @staticmethod
    def padded(data):
        return data + b"\0" * (-len(data) % 4)

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return gzip.compress(b"".join(self.parts), 1)


def initial_files(root):
    archive = Archive()
    for folder in ("bin", "dev", "modules"):
        archive.add(folder, 0o040755)
    archive.add("dev/console", 0o020600, device=(5, 1))
    archive.add("bin/busybox", 0o100755, busybox(root).read_bytes())
    modules = find_modules(root)
    for name, content in modules.items():
        archive.add(f"modules/{name}", 0o100644, content)
    archive.add("modules/order", 0o100644, "".join(f"{name}\n" for name in modules).encode())
    archive.add("init", 0o100755, INIT.encode())
    return archive.bytes()


def busybox(root):
    for place in (root / "bin/busybox", root / "usr/bin/busybox", pathlib.Path("/bin/busybox")):
        if place.is_file():
            return place
    raise Missing("the package busybox-static has no busybox")


class Image:
    """Kernel, initial files and QEMU in `folder`, and programs of packages `more`. Raises Missing if one is missing."""

    def __init__(self, folder, more=()):
        self.folder, self.more = pathlib.Path(folder).absolute(), tuple(more)
        self.root = self.folder / "root"
        self.kernel, self.files = self.folder / "kernel", self.folder / "files"
        stamp = self.folder / "complete"
        version = hashlib.sha256(repr((INIT, MODULES, PACKAGES + self.more)).encode()).hexdigest()
        if not stamp.is_file() or stamp.read_text() != version:
            self.build()
            stamp.write_text(version)
        self.qemu = shutil.which(QEMU) or str(self.root / "usr/bin" / QEMU)
        if not os.access(self.qemu, os.X_OK):
            raise Missing(f"{QEMU} has gone; remove {self.folder} to fetch it")

    def build(self):
        if platform.machine() != "x86_64":
            raise Missing(f"the image is for x86_64, and this machine is {platform.machine()}")
        if None in (shutil.which("apt-get"), shutil.which("apt-cache"), shutil.which("dpkg-deb")):
            raise Missing("no apt-get, apt-cache or dpkg-deb")
        cache = self.folder / "packages"
        for folder in (self.root, cache):
            folder.mkdir(parents=True, exist_ok=True)
        cache.chmod(0o777)  # if it is root, apt-get fetches as another user
        fetch_packages(self.root, cache, self.more)
        kernels = sorted(self.root.glob("boot/vmlinuz-*"))
        if not kernels:
            raise Missing("the kernel's package has no kernel")
        self.kernel.write_bytes(kernel_of(kernels[-1].read_bytes()))
        self.files.write_bytes(initial_files(self.root))
        for spent in (cache, self.root / "boot", self.root / "lib/modules", self.root / "usr/lib/modules"):
            shutil.rmtree(spent, ignore_errors=True)  # half a gigabyte

    def environment(self):
        """Returns where programs of unpacked packages find their libraries, for QEMU here and for programs in the
        guest."""
        folders = [str(self.root / LIBRARIES), str(self.root / "lib/x86_64-linux-gnu")]
        return {"LD_LIBRARY_PATH": ":".join(folders), "QEMU_MODULE_DIR": str(self.root / LIBRARIES / "qemu")}

    def programs(self):
        """Returns PATH for the guest."""
        return ":".join(str(self.root / place) for place in ("usr/sbin", "usr/bin", "sbin", "bin"))


class Outcome:
    def __init__(self, status, output, console):
        self.status, self.output, self.console = status, output, console

    def __repr__(self):
        return f"status {self.status}\n{self.output}\nconsole:\n{self.console}"


def run(image, job, machines=1, seconds=400, processors=2, memory_mib=1024):
    """Boots 1 or 2 guests, which two cables join, and runs the shell script `job` in each. Returns an Outcome for
    each. A guest that outlives `seconds` is ended, with status None. The script finds NODE (from 0), `address
    NODE INTERFACE`, and `tool PROGRAM` for ip, tc and rdma. The RDMA device rxe0 is on eth0. eth1 is for the
    control plane or for another device."""
    with tempfile.TemporaryDirectory(prefix="rondo-soft-roce-") as folder:
        share = pathlib.Path(folder)
        (share / "job.sh").write_text(prelude(image) + job)
        guests = []
        try:
            for node in range(machines):
                guests.append(start(image, share, node, machines, processors, memory_mib))
            deadline = time.monotonic() + seconds
            for guest in guests:
                try:
                    guest.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
        finally:
            for guest in guests:
                if guest.poll() is None:
                    guest.kill()
                guest.wait()
        return [outcome(share, node) for node in range(machines)]


def outcome(share, node):
    def text(name):
        path = share / f"{name}.{node}"
        return path.read_text(errors="replace") if path.is_file() else ""
    status = text("status").strip()
    return Outcome(int(status) if status else None, text("output"), text("console") + text("qemu"))


def prelude(image):
    libraries = image.environment()["LD_LIBRARY_PATH"]
    return f"""
export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{image.programs()}"
NODE=$(sed -n 's/.*rondo_node=\\([0-9]*\\).*/\\1/p' /proc/cmdline)
cd "$(dirname "$0")" || exit 1
tool() {{ LD_LIBRARY_PATH={libraries} "$@"; }}
address() {{ case $2 in eth0) echo {NETWORKS[0]}$(($1 + 1)) ;; *) echo {NETWORKS[1]}$(($1 + 1)) ;; esac; }}
tool ip link set lo up
for interface in eth0 eth1; do
  [ -e /sys/class/net/$interface ] || continue
  tool ip addr add "$(address $NODE $interface)"/24 dev $interface
  tool ip link set $interface up
done
tool rdma link add rxe0 type rxe netdev eth0 || exit 97
"""


def start(image, share, node, machines, processors, memory_mib):
    cables = []
    for number in range(2):  # with one machine, the cables lead nowhere
        end = f"hubport,id=net{number},hubid={number}"
        if machines == 2:
            path = share / f"cable{number}"
            end = f"stream,id=net{number},server={'on' if node == 0 else 'off'},addr.type=unix,addr.path={path}"
            deadline = time.monotonic() + 60
            while node == 1 and not path.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        cables += ["-netdev", end, "-device",
                   f"virtio-net-pci,netdev=net{number},mac=52:54:00:00:{number:02}:0{node + 1},romfile="]
    arguments = ["-M", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off",
                 "-smp", str(processors), "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-no-reboot",
                 "-display", "none", "-serial", f"file:{share}/console.{node}",
                 "-kernel", str(image.kernel), "-initrd", str(image.files),
                 "-append", "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off random.trust_cpu=1 "
                            f"net.ifnames=0 rondo_node={node} rondo_share={share}",
                 *cables,
                 "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
                 "-virtfs", f"local,path={share},mount_tag=share,security_model=none,multidevs=remap"]
    environment = dict(os.environ)
    if image.qemu.startswith(str(image.root)):
        environment.update(image.environment())
        for place in ("qemu", "seabios"):
            arguments += ["-L", str(image.root / "usr/share" / place)]
    with open(share / f"qemu.{node}", "w", encoding="utf-8") as said:
        return subprocess.Popen([image.qemu, *arguments], stdin=subprocess.DEVNULL, stdout=said,
                                stderr=subprocess.STDOUT, env=environment)
