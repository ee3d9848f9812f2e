#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the peer of `rondo train`: PyTorch's DistributedDataParallel over Gloo, one thread a rank, on the same model,
corpus and batch. training.py runs it, and PyTorch must be installed. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
describe the ranks; without them it is one rank. Steps with the all-reduce of gradients and steps without (no_sync) take
turns. Both kinds end with the optimizer, so their difference is what communication costs a step. A step without the
all-reduce makes the ranks' models differ. Rank 0 prints one line of JSON, and writes it to the file of --json.

With --device cuda, which is for one rank, products have bfloat16 operands, and weights are float32."""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch
import torch.distributed
from torch import nn
from torch.nn import functional

SHAPES = {"nano": (64, 4, 4, 128), "tiny": (192, 6, 6, 256), "small": (512, 8, 8, 256),
          "gpt2": (768, 12, 12, 1024)}  # width, layers, heads, context
STEPS_A_TURN = 5
WARM_UP_STEPS = 3


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        split = self.query_key_value(self.before_attention(x)).split(width, dim=2)
        heads = [part.view(batch, context, self.heads, -1).transpose(1, 2) for part in split]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.mlp_out(functional.gelu(self.mlp_in(self.before_mlp(x))))


class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        width, layers, heads, self.context = SHAPES[name]
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(self.context, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.last = nn.LayerNorm(width)
        for matrix in self.parameters():
            if matrix.dim() > 1:
                nn.init.normal_(matrix, std=0.02)

    def forward(self, bytes_in, bytes_out):
        x = self.layers(self.token(bytes_in) + self.position.weight)
        logits = functional.linear(self.last(x), self.token.weight)
        return functional.cross_entropy(logits.view(-1, 256), bytes_out.reshape(-1))


class Training:
    def __init__(self, options, rank, ranks):
        self.device, self.batch, self.ranks = options.device, options.batch, ranks
        self.model = Model(options.model).to(self.device)
        self.run = self.model
        if ranks > 1:
            self.run = nn.parallel.DistributedDataParallel(self.model, bucket_cap_mb=options.bucket_mb)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        text = b"".join(path.read_bytes() for path in sorted(Path(options.corpus).iterdir()) if path.is_file())
        self.corpus = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.random = torch.Generator().manual_seed(100 + rank)

    def passes(self, samples):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            loss = self.run(samples[:, :-1], samples[:, 1:])
        loss.backward()

    def step(self, summed):
        """Makes a step, and returns its time in seconds. Drawing the samples is not timed."""
        length = self.model.context + 1
        begins = torch.randint(len(self.corpus) - length, (self.batch,), generator=self.random)
        samples = torch.stack([self.corpus[begin:begin + length] for begin in begins]).to(self.device)
        self.synchronize()
        begin = time.perf_counter()
        if summed or self.ranks == 1:
            self.passes(samples)
        else:
            with self.run.no_sync():
                self.passes(samples)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.synchronize()
        return time.perf_counter() - begin

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="nano", choices=SHAPES)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bucket-mb", type=float, default=25)
    parser.add_argument("--corpus", default="/usr/share/common-licenses")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    training = Training(options, rank, ranks)
    for _ in range(WARM_UP_STEPS):
        training.step(True)
    summed, bare = [], []
    while len(summed) < options.steps:
        summed += [training.step(True) for _ in range(STEPS_A_TURN)]
        bare += [training.step(False) for _ in range(STEPS_A_TURN)] if ranks > 1 else []
    step_ms = 1e3 * statistics.median(summed)
    if rank == 0:
        line = json.dumps({"torch": torch.__version__, "step_ms": step_ms,
                           "exposed_ms": step_ms - 1e3 * statistics.median(bare) if bare else 0.0,
                           "samples_per_second": ranks * options.batch / step_ms * 1e3,
                           "parameters": sum(p.numel() for p in training.model.parameters())})
        print(line, flush=True)
        options.json.write_text(line + "\n", encoding="utf-8")
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
