# SPDX-License-Identifier: Apache-2.0
"""Makes hosts (hosts.py) with logins. Each host runs a real sshd, with keys that are made for the test and removed
with it. For ssh, the hosts are called h0, h1, ..."""

import os
import shutil
import subprocess
import time

import hosts as net

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def why_not():
    """Returns None if such hosts can be made here, otherwise what is missing."""
    why = net.why_not()
    if why is not None:
        return why
    if SSHD is None:
        return "no sshd (openssh-server)"
    return next((f"no {program}" for program in ("ssh", "ssh-keygen") if shutil.which(program) is None), None)


class SshHosts(net.Hosts):
    def __enter__(self):
        super().__enter__()
        try:
            self._make_keys()
            self.servers = [self._serve(host) for host in range(self.count)]
            for host in range(self.count):
                self._wait_for_server(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *what):
        super().__exit__(*what)  # the servers end with their namespaces
        for server in getattr(self, "servers", []):
            server.wait()
            server.stdout.close()

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _make_keys(self):
        for name in ("user", "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._path(name)], check=True,
                           timeout=60)
        shutil.copy(self._path("user.pub"), self._path("authorized"))
        with open(self._path("host.pub")) as file:
            key = " ".join(file.read().split()[:2])
        with open(self._path("known"), "w") as file:
            file.writelines(f"{self.address(host)} {key}\n" for host in range(self.count))
        with open(self._path("sshd"), "w") as file:
            file.write(f"HostKey {self._path('host')}\nAuthorizedKeysFile {self._path('authorized')}\nStrictModes no\n"
                       "UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nMaxStartups 100\n")
        self.config = self._path("ssh")
        with open(self.config, "w") as file:
            for host in range(self.count):
                file.write(f"Host h{host}\n  HostName {self.address(host)}\n")
            file.write(f"Host *\n  User root\n  IdentityFile {self._path('user')}\n  IdentitiesOnly yes\n"
                       f"  UserKnownHostsFile {self._path('known')}\n  GlobalKnownHostsFile none\n"
                       "  StrictHostKeyChecking yes\n  LogLevel ERROR\n")
        self.ssh = f"ssh -F {self.config}"
        self.launcher_agent = self._path("agent")  # for launchers that take a program without arguments
        with open(self.launcher_agent, "w") as file:
            file.write(f'#!/bin/sh\nexec {self.ssh} "$@"\n')
        os.chmod(self.launcher_agent, 0o755)

    def _serve(self, host):
        # The host's own /run has the folder for sshd's privilege separation.
        return self.start(host, ["sh", "-c", "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && "
                                             f'exec {SSHD} -D -e -f "{self._path("sshd")}"'])

    def _wait_for_server(self, host):
        deadline = time.monotonic() + 120
        while True:
            probe = self.start(host, ["sh", "-c", f"{self.ssh} h{host} true"])
            said = probe.communicate(timeout=120)[0]
            if probe.returncode == 0:
                return
            if time.monotonic() > deadline or self.servers[host].poll() is not None:
                raise RuntimeError(f"the sshd of host {host} cannot be used: {said}")
            time.sleep(0.05)
