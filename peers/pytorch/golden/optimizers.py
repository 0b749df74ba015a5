#!/usr/bin/env python3
"""Parameters after every step of PyTorch's and timm's optimizers, from given gradients.

Writes crates/precision/tests/training/numbers/optimizers.json: initial values and gradients (f32 numbers, so that every format
starts from the same values), the learning rate of each step, and for each optimizer the parameters after each step, computed in
f64, f32, f16 and bf16.

On the CPU, PyTorch rounds the factor of `a.add_(b, alpha=factor)` to the tensors' format, but not on CUDA, where 16-bit training
usually runs. This script computes the operation as on CUDA: in f32, rounded once. Norms and their ratios also stay in f32,
whereas timm rounds norms and ratios to 16 bits (a norm above 65504 would be infinite in f16).

NaN is written as null. It occurs in f16 for the element whose first gradient is 0: Adam's epsilon is 0 in f16, so Adam divides
0 by 0.

Edge cases: a matrix of zeros (LARS and LAMB divide by its norm); an element whose first gradient is 0 (Adam divides 0 by
epsilon); a parameter without a gradient in one step (timm's LAMB counts this step, Adam does not); gradients of 1e-4 next to
gradients of 10; a changing learning rate. For LARS and LAMB, vectors are in a group without weight decay, as in
distilbert.py.
"""

import json
import math
from pathlib import Path

import timm
import torch
from timm.optim import Lamb, Lars
from torch.utils._python_dispatch import TorchDispatchMode

OUT = Path(__file__).resolve().parents[3] / "crates/precision/tests/training/numbers/optimizers.json"
SEED = 20240601
SHAPES = {"matrix": [2, 3], "vector": [3], "zeros": [2, 2], "late": [2]}
STEPS = 10
RATES = [0.1 * (1 - step / 20) for step in range(STEPS)]
MISSING_GRADIENT = ("late", 3)  # no gradient for this parameter in this step, counted from 0
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"momentum": 0.0}),
    "sgd-momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {"eps": 1e-8}),
    "adamw": (torch.optim.AdamW, {"eps": 1e-8, "weight_decay": 0.02}),
    "lars": (Lars, {"momentum": 0.9, "eps": 1e-8, "weight_decay": 0.02}),
    "lamb": (Lamb, {"eps": 1e-8, "weight_decay": 0.02, "max_grad_norm": None}),
}


class FactorsInF32(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        aten, kwargs = torch.ops.aten, kwargs or {}
        if args and isinstance(args[0], torch.Tensor) and args[0].dtype in (torch.float16, torch.bfloat16):
            into = args[0]
            if function is aten.add_.Tensor and "alpha" in kwargs:
                factor = torch.tensor(kwargs["alpha"], dtype=torch.float32)
                return into.copy_(into.float() + args[1].float() * factor)
            if function is aten.mul_.Tensor and getattr(args[1], "dtype", None) == torch.float32:
                return into.copy_(into.float() * args[1])
            if function in (aten.linalg_vector_norm.default, aten.norm.Scalar):
                return function(into.float(), *args[1:], **kwargs)
        return function(*args, **kwargs)


def initial_values():
    generator = torch.Generator().manual_seed(SEED)
    values = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    values["zeros"].zero_()
    gradients = []
    for step in range(STEPS):
        scale = 10.0 ** (1 - 5 * step / (STEPS - 1))
        row = {name: scale * torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        if step == 0:
            row["vector"][1] = 0.0
        if step == MISSING_GRADIENT[1]:
            row[MISSING_GRADIENT[0]] = None
        gradients.append(row)
    return values, gradients


def run(name, dtype, values, gradients):
    kind, options = OPTIMIZERS[name]
    parameters = {key: torch.nn.Parameter(value.to(dtype, copy=True)) for key, value in values.items()}
    groups = list(parameters.values())
    if kind in (Lars, Lamb):
        wide, flat = ([p for p in groups if (p.ndim > 1) == matrix] for matrix in (True, False))
        groups = [{"params": wide}, {"params": flat, "weight_decay": 0.0}]
    optimizer = kind(groups, lr=RATES[0], **options, foreach=False)
    after = []
    for rate, row in zip(RATES, gradients, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for key, parameter in parameters.items():
            parameter.grad = None if row[key] is None else row[key].to(dtype, copy=True)
        with FactorsInF32():
            optimizer.step()
        values = [x for parameter in parameters.values() for x in parameter.flatten().tolist()]
        after.append([None if math.isnan(x) else x for x in values])
    return after


def main():
    torch.set_num_threads(1)
    values, gradients = initial_values()
    flat = lambda tensor: None if tensor is None else tensor.flatten().tolist()
    lines = [
        '  "generated": "by peers/pytorch/golden/optimizers.py; do not edit"',
        f'  "versions": {json.dumps({"torch": torch.__version__.split("+")[0], "timm": timm.__version__})}',
        f'  "shapes": {json.dumps(SHAPES)}',
        f'  "values": {json.dumps({name: flat(value) for name, value in values.items()})}',
        f'  "learning_rates": {json.dumps(RATES)}',
        '  "gradients": [\n'
        + ",\n".join("    " + json.dumps({name: flat(g) for name, g in row.items()}) for row in gradients)
        + "\n  ]",
    ]
    for dtype in [torch.float64, torch.float32, torch.float16, torch.bfloat16]:
        runs = []
        for name, (_, options) in OPTIMIZERS.items():
            rows = ",\n".join("      " + json.dumps(row) for row in run(name, dtype, values, gradients))
            runs.append(f'    {{"optimizer": {json.dumps(name)}, "options": {json.dumps(options)}, "after": [\n{rows}\n    ]}}')
        lines.append(f'  "{str(dtype).split(".")[1]}": [\n' + ",\n".join(runs) + "\n  ]")
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    for name in OPTIMIZERS:
        wide, single = (torch.tensor(run(name, dtype, values, gradients)) for dtype in [torch.float64, torch.float32])
        difference = ((wide - single).abs() / wide.abs().clamp_min(1e-30)).max().item()
        print(f"{name:13} f32 within {difference:.1e} of f64, relative to each element")


if __name__ == "__main__":
    main()
