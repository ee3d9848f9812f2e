# SPDX-License-Identifier: Apache-2.0
"""This program trains a small network data-parallel: the Python twin of data_parallel.c, with NumPy.

Each rank has its own samples. The gradients of a layer are averaged on a stream, while the gradients of the layer
before it are computed.

    $ rondo run -n 2 python3 data_parallel.py
    2 ranks, 4 buckets: the loss fell below half
    all ranks have the same parameters, with overlap and without
"""
import hashlib
import sys

import numpy as np

import rondo

LAYERS, WIDTH, BATCH, STEPS, RATE = 4, 64, 16, 80, 0.2


class Network:
    """The layers. Their parameters are one array, and so are their gradients: matrices, with the biases as last rows.
    """

    def __init__(self):
        self.parameters = np.zeros((LAYERS, WIDTH + 1, WIDTH), np.float32)
        self.gradients = rondo.empty(self.parameters.shape, np.float32)  # peers read it in place
        self.inputs = []

    def reset(self):
        """Begins again, with equal parameters on all ranks."""
        random = np.random.default_rng(1)
        self.parameters[:, :WIDTH] = random.uniform(-0.2, 0.2, (LAYERS, WIDTH, WIDTH))
        self.parameters[:, WIDTH] = 0

    def forward(self, x):
        """Computes the output, and keeps the input of each layer."""
        self.inputs = []
        for at, layer in enumerate(self.parameters):
            self.inputs.append(x)
            x = x @ layer[:WIDTH] + layer[WIDTH]
            if at < LAYERS - 1:
                x = np.where(x > 0, x, np.float32(0.5) * x)
        return x

    def backward(self, at, errors):
        """Computes the gradients of layer `at`, and returns the errors of the layer before it."""
        self.gradients[at, :WIDTH] = self.inputs[at].T @ errors / BATCH
        self.gradients[at, WIDTH] = errors.sum(axis=0) / BATCH
        below = errors @ self.parameters[at, :WIDTH].T
        return np.where(self.inputs[at] > 0, below, np.float32(0.5) * below)


def train(comm, network, stream, overlap):
    """Trains from the same start, and returns the last loss divided by the loss of the first step."""
    network.reset()
    losses = []
    for step in range(STEPS):
        random = np.random.default_rng([step, comm.rank])  # samples of this rank and step
        x = random.uniform(-1, 1, (BATCH, WIDTH)).astype(np.float32)
        errors = network.forward(x) - x[:, ::-1]  # the network learns to reverse its input
        losses.append(float((errors ** 2).mean()))
        works = []
        for at in reversed(range(LAYERS)):  # the last layer's gradients are complete first
            errors = network.backward(at, errors)
            works.append(comm.all_reduce(network.gradients[at], op="avg", stream=stream))
            if not overlap:
                works[-1].wait()
        for at, work in zip(reversed(range(LAYERS)), works):  # the update, in the order of the calls
            work.wait()
            network.parameters[at] -= RATE * network.gradients[at]
    return losses[-1] / losses[0]


def agreed_hash(comm, network):
    """Returns a hash of the parameters' bits, or None if a rank has another one."""
    digest = hashlib.sha256(network.parameters.tobytes()).digest()
    return digest if all(bytes(each) == digest for each in
                         comm.all_gather(np.frombuffer(digest, np.uint8))) else None


def main():
    with rondo.init() as comm, rondo.Stream() as stream:
        network = Network()
        train(comm, network, stream, overlap=False)
        plain = agreed_hash(comm, network)
        before = comm.statistics().total
        ratio = train(comm, network, stream, overlap=True)
        after = comm.statistics().total
        same = plain is not None and plain == agreed_hash(comm, network)
        if comm.rank == 0:
            print(f"{comm.size} ranks, {LAYERS} buckets: the loss fell {'below' if ratio < 0.5 else 'not below'} half")
            print("all ranks have the same parameters, with overlap and without" if same else "the parameters differ")
            print(f"{(after.in_flight_ns - before.in_flight_ns) / STEPS / 1e3:.0f} us a step in flight, "
                  f"{(after.exposed_ns - before.exposed_ns) / STEPS / 1e3:.0f} us of it waited for", file=sys.stderr)
    return 0 if same and ratio < 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
