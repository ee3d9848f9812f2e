# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal, as a person watches it."""

import os
import pty
import subprocess


def watched(command, *, output=False, **popen):
    """Returns the exit status, and the text on a terminal. That is standard error and, with `output`, also standard
    output."""
    mine, its = pty.openpty()
    shown = b""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stderr=its,
                          stdout=its if output else subprocess.DEVNULL, **popen) as running:
        os.close(its)
        try:
            while part := os.read(mine, 4096):
                shown += part
        except OSError:  # EIO: the other end is closed
            pass
        os.close(mine)
    return running.returncode, shown.decode()
