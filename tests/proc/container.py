# SPDX-License-Identifier: Apache-2.0
"""A process of this machine that shares neither memory nor processes with others, as if in its own container. A
network joins it to them."""

import os
import subprocess

CONTAINER = ["unshare", "-i", "-p", "-m", "-f", "--mount-proc", "--kill-child"]
# The program is not process 1 of its namespace, because process 1 ignores fatal signals that it sends itself.
MORTAL = [*CONTAINER, "sh", "-c", '"$@"; true', "sh"]


def why_not():
    """Returns None, or the reason why such a process cannot be started here."""
    if os.geteuid() != 0:
        return "not root"
    try:
        probe = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        return "no unshare"
    return None if probe.returncode == 0 else "no namespaces here: " + probe.stderr.strip()
