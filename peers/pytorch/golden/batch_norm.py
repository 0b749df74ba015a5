#!/usr/bin/env python3
"""Reference numbers for batch norm of small images in training and evaluation, computed by PyTorch.

Writes crates/precision/tests/training/numbers/batch_norm.json: three batches of images with values that every format
represents exactly, a scale, a shift, and weights. The loss is the weighted sum of the outputs. For f64, f32, f16 and bf16
images, with parameters in f32 (in f64 for f64), the file contains:

  outputs    of every batch in training
  running    mean and variance after every batch, initially 0 and 1, with a momentum of 0.1
  evaluated  the first batch, normalized with the last running statistics
  gradients  with respect to the first batch, the scale and the shift

A channel of the second batch is constant, so its variance is 0. A channel of the third batch is far from 0.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

OUT = Path(__file__).resolve().parents[3] / "crates/precision/tests/training/numbers/batch_norm.json"
SHAPE = [3, 2, 2, 3]
EPSILON, MOMENTUM = 1e-5, 0.1
FORMATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def flat(tensor):
    return tensor.double().flatten().tolist()


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(20241121)
    draw = lambda *shape: torch.randn(*shape, generator=generator).bfloat16().float()
    batches = [draw(*SHAPE) for _ in range(3)]
    batches[1][:, 1] = 0.75
    batches[2][:, 0] += 64.0
    batches[2] = batches[2].bfloat16().float()
    scale, shift, weights = draw(SHAPE[1]), draw(SHAPE[1]), draw(*SHAPE)

    formats = {}
    for name, dtype in FORMATS.items():
        wide = torch.float64 if name == "f64" else torch.float32
        parameters = [tensor.to(wide, copy=True).requires_grad_() for tensor in (scale, shift)]
        mean, variance = torch.zeros(SHAPE[1], dtype=wide), torch.ones(SHAPE[1], dtype=wide)
        outputs, running = [], []
        for index, batch in enumerate(batches):
            images = batch.to(dtype, copy=True).requires_grad_()
            output = F.batch_norm(images, mean, variance, *parameters, training=True, momentum=MOMENTUM, eps=EPSILON)
            assert output.dtype == dtype
            outputs.append(flat(output.detach()))
            running.append({"mean": flat(mean), "variance": flat(variance)})
            if index == 0:
                (output * weights.to(dtype)).sum().backward()
                gradients = [flat(images.grad), *(flat(parameter.grad) for parameter in parameters)]
        first = batches[0].to(dtype)
        with torch.no_grad():
            evaluated = F.batch_norm(first, mean, variance, *parameters, training=False, eps=EPSILON)
        formats[name] = {
            "outputs": outputs,
            "running": running,
            "evaluated": flat(evaluated),
            "gradients": dict(zip(["images", "scale", "shift"], gradients, strict=True)),
        }
    content = {
        "shape": SHAPE,
        "epsilon": EPSILON,
        "momentum": MOMENTUM,
        "batches": [flat(batch) for batch in batches],
        "scale": flat(scale),
        "shift": flat(shift),
        "weights": flat(weights),
        "formats": formats,
    }
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    version = torch.__version__.split("+")[0]
    OUT.write_text(
        f'{{\n  "generated": "by peers/pytorch/golden/batch_norm.py; do not edit",\n  "versions": {{"torch": "{version}"}},\n{lines}\n}}\n'
    )


if __name__ == "__main__":
    main()
