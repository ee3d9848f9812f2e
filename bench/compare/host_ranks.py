# SPDX-License-Identifier: Apache-2.0
"""Ranks of a job on several hosts, which are network namespaces (needs root)."""

import os
import secrets

PORTS = iter(range(28_500, 29_500))


class Ranks:
    """Ranks of a job on several hosts. They fill one host after another."""

    def __init__(self, made, ranks_a_host):
        self.made, self.layout = made, [host for host in range(made.count) for _ in range(ranks_a_host)]

    def run(self, command, timeout=300):
        base = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        base.update(WORLD_SIZE=str(len(self.layout)), MASTER_ADDR=self.made.address(0), MASTER_PORT=str(next(PORTS)),
                    RONDO_SECRET=secrets.token_hex(32))
        ranks = [self.made.start(host, command, env=dict(base, RANK=str(rank)))
                 for rank, host in enumerate(self.layout)]
        said = []
        try:
            for rank in ranks:
                said.append(rank.communicate(timeout=timeout)[0])
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
        if any(rank.returncode != 0 for rank in ranks):
            raise SystemExit(f"{' '.join(command)} failed:\n{''.join(said)}")
        return said[0]
