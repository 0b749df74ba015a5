"""Kernels: single operations of PyTorch.

RMS norm is `torch.nn.functional.rms_norm`, whose result is rounded once, as in Mantissa. In transformers' LLaMA, RMS norm consists of several
operations, each of which rounds its result.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F

from mantissa_torch.setting import UnsupportedSetting

# Epsilons of layer norm (that of DistilBERT) and RMS norm (that of LLaMA), as in Mantissa.
EPSILON, RMS_EPSILON = 1e-12, 1e-5


class Kernel(NamedTuple):
    # Selects the arguments of a launch from the operands by name.
    select_operands: callable
    # Computes the result of a launch.
    compute: callable
    # True if `fusion=on` compiles the kernel with `torch.compile`. Optimizers are not compiled.
    compiles: bool = True


def select(*names):
    """Returns a function that returns the operands with these names, in this order."""
    return lambda operands: [operands[name] for name in names]


def kernel(fields, setting):
    """Returns the kernel of a cell under its setting."""
    [(kind, shape)] = fields.items()
    match kind:
        case "matmul":
            return Kernel(select("lhs", "rhs"), torch.matmul)
        case "convolution":
            stride, padding = shape["stride"], shape["padding"]
            return Kernel(select("images", "filters"), lambda images, filters: F.conv2d(images, filters, None, stride, padding))
        case "attention":
            fused = setting.attention == "sdpa"
            return Kernel(select("queries", "keys", "values"), F.scaled_dot_product_attention if fused else eager_attention)
        case "gelu":
            if setting.gelu not in ("exact", "tanh"):
                raise UnsupportedSetting(f"PyTorch does not support `gelu={setting.gelu}`")
            approximation = {"exact": "none", "tanh": "tanh"}[setting.gelu]
            return Kernel(select("values"), lambda values: F.gelu(values, approximate=approximation))
        case "softmax":
            return Kernel(select("values"), lambda values: F.softmax(values, -1))
        case "layer-norm":
            norm = lambda values, scale, shift: F.layer_norm(values, scale.shape, scale, shift, EPSILON)  # noqa: E731
            return Kernel(select("values", "scale", "shift"), norm)
        case "rms-norm":
            return Kernel(select("values", "scale"), lambda values, scale: F.rms_norm(values, scale.shape, scale, RMS_EPSILON))
        case "cast":
            return Kernel(select("values"), lambda values: values.to(setting.compute_dtype))
        case "adamw":
            if setting.param_dtype != torch.float32:
                raise UnsupportedSetting("PyTorch's gradients have the format of the parameters, but Mantissa's AdamW kernel reads gradients in f32")
            return Kernel(adamw_after_first_step, adamw_step, compiles=False)
    raise UnsupportedSetting(f"the PyTorch peer does not support the kernel `{kind}`")


def eager_attention(queries, keys, values):
    """Computes attention as transformers' `eager` does."""
    scores = torch.matmul(queries, keys.transpose(2, 3)) / math.sqrt(queries.shape[-1])
    weights = F.softmax(scores, -1, dtype=torch.float64 if scores.dtype == torch.float64 else torch.float32)
    return torch.matmul(weights.to(queries.dtype), values)


def adamw_after_first_step(operands):
    """Returns AdamW after its first step, with gradients for the second one, and the parameters. The first step creates the moments."""
    parameters = torch.nn.Parameter(operands["parameters"])
    optimizer = torch.optim.AdamW([parameters], lr=1e-3, eps=1e-8, weight_decay=0.01, fused=True)
    parameters.grad = operands["first"]
    optimizer.step()
    parameters.grad = operands["second"]
    return optimizer, parameters


def adamw_step(optimizer, parameters):
    optimizer.step()
    return parameters.detach()
