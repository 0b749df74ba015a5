#!/usr/bin/env python3
"""Training of the tiny DistilBERT on several ranks, by PyTorch in f64 with the backend gloo of `torch.distributed`.

Writes crates/workloads/tests/golden/ranks.json: losses, and the reduced gradients of the first step. Weights and data are those of
golden/distilbert.py.

Ranks        Each rank is a process with the whole model. Micro-batch j of a step belongs to rank N - 1 - (j mod N). Their sizes differ, so that
             a mean of means is detected. With four ranks and three micro-batches, rank 0 has none.
Loss         summed over the micro-batches of all ranks, divided by the number of labels of the whole step.
Reduction    Each rank accumulates its gradients in f64. Once per step, `all_reduce` sums them, in one buffer in `reduce_format`, before they are
             clipped and applied. gloo rounds each addition to that format. A rank without micro-batches contributes -0.
Order        gloo adds in a ring, so the order differs between the blocks of the buffer. A narrow format therefore has two ranks, for which the
             order does not matter. In f64, the order changes only the last digits.

The script asserts that the parameters of all ranks have the same bits, and that reductions in f64 train like one rank with the whole batch.
"""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import transformers
from safetensors.torch import load_file
from torch.nn.utils import clip_grad_norm_

from distilbert import LABELS, OPTIMIZERS, OUT, STEPS, batch, gradients, new_model, pretty, run, summed_loss, train

MICRO_BATCHES = [[0, 2], [2, 3], [3, 6]]  # the first example of each, and one past the last
FORMATS = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Adam's first step depends on the signs of gradients. Those that are 0 in exact arithmetic have another sign in each implementation, which
# matters if a narrow format makes other gradients as small. Narrow formats therefore use SGD.
RUNS = [
    (2, "f64", "sgd-momentum"), (3, "f64", "adam-clipped"), (4, "f64", "adamw"), (2, "f32", "sgd-momentum"), (2, "bf16", "sgd-momentum"),
    (2, "f16", "sgd-momentum"),
]


def rounded(values, format):
    """Rounds f64 values once. PyTorch rounds them to f32 first, which changes about one value in 2^13 in f16, and one in 2^16 in bf16."""
    if format == torch.float16:
        return torch.from_numpy(values.numpy().astype(np.float16))
    return values.to(format)


def reduce(parameters, format):
    buffer = torch.cat([
        rounded((torch.full_like(parameter, -0.0) if parameter.grad is None else parameter.grad).flatten(), format) for parameter in parameters
    ])
    dist.all_reduce(buffer)
    for parameter, part in zip(parameters, buffer.split([parameter.numel() for parameter in parameters]), strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype)


def train_rank(rank, size, format, optimizer, folder):
    """Writes the losses and gradients of a rank, and its final parameters."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    model = new_model(torch.float64, load_file(OUT / "distilbert-tiny.safetensors"))
    parameters = list(model.parameters())
    kind, options = OPTIMIZERS[optimizer]
    options = dict(options)
    clip_norm = options.pop("clip_norm", None)
    optimizer = kind(parameters, **options, foreach=False)
    own = [MICRO_BATCHES[j] for j in range(len(MICRO_BATCHES)) if size - 1 - j % size == rank]

    def backward_loss():
        total = torch.zeros((), dtype=torch.float64)
        for first, end in own:
            loss = summed_loss(model, *(part[first:end] for part in batch())) / len(LABELS)
            loss.backward()
            total += loss.detach()
        dist.all_reduce(total)
        reduce(parameters, FORMATS[format])
        return total.item()

    losses, rows = [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(backward_loss())
        rows = rows or gradients(model)
        if clip_norm:
            assert clip_grad_norm_(parameters, clip_norm, foreach=False) > clip_norm, "the gradients are not clipped"
        optimizer.step()
    losses.append(backward_loss())
    result = {"losses": losses, "gradients": rows, "parameters": [parameter.flatten().tolist() for parameter in parameters]}
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    weights, data, runs = load_file(OUT / "distilbert-tiny.safetensors"), batch(), []
    for size, format, optimizer in RUNS:
        with TemporaryDirectory() as folder:
            mp.spawn(train_rank, (size, format, optimizer, folder), nprocs=size)
            first, *others = (json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(size))
        assert all(other == first for other in others), "the ranks differ"
        whole = train(optimizer, torch.float64, weights, data)
        difference = max(abs(a - b) for a, b in zip(whole, first["losses"], strict=True))
        print(f"{size} ranks, {format:4} {optimizer:12}: losses differ from those of the whole batch by at most {difference:.1e}")
        bounds = {"f64": (0, 1e-12), "f32": (1e-10, 1e-6), "f16": (1e-7, 1e-2), "bf16": (1e-6, 1e-1)}
        assert bounds[format][0] <= difference <= bounds[format][1], difference
        options = OPTIMIZERS[optimizer][1]
        runs.append({
            "ranks": size, "reduce_format": format, "optimizer": optimizer, **options, **run(first["losses"]), "gradients": first["gradients"],
        })
    golden = {
        "generated": "by peers/pytorch/golden/ranks.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "micro_batches": MICRO_BATCHES,
        "runs": runs,
    }
    (OUT / "ranks.json").write_text(pretty(golden))


if __name__ == "__main__":
    main()
