"""Matmuls of layers and of their gradients under a setting. Mantissa passes operands to them that reveal the executed precision."""

import numpy
import torch
import torch.nn.functional as F

EDGE = 128
# Number of rows, and inner dimension, of a matmul with few rows.
FEW_ROWS, INNER = 8, 1024


def multiply(setting, name, operands, result):
    """Computes `lhs · rhsᵀ` with the pass `name`, and writes it to the file `result`. The file `operands` contains both operands,
    `[EDGE, EDGE]` each, one after the other."""
    values = torch.from_numpy(numpy.fromfile(operands)).to(setting.device, setting.param_dtype)
    lhs, rhs = values.view(2, EDGE, EDGE)
    with torch.enable_grad():
        product = PASSES[name](setting, lhs, rhs)
    numpy.asarray(product.detach().cpu().double()).tofile(result)


def gradient(setting, argument, grad_output, layer, *others):
    """Returns the gradient with respect to the first argument of a layer."""
    argument = argument.requires_grad_()
    with setting.context():
        output = layer(argument, *others)
    output.backward(grad_output.to(output.dtype))
    return argument.grad


def forward(setting, layer, *operands):
    with setting.context():
        return layer(*operands)


def few_rows(setting, lhs, rhs):
    padded = [F.pad(rows, (0, INNER - EDGE)) for rows in (lhs, rhs)]
    return torch.cat([forward(setting, F.linear, rows, padded[1]) for rows in padded[0].split(FEW_ROWS)])


def windows(matrix):
    """Reshapes rows to images or filters of 2 × 2 pixels, so that their convolution has one window."""
    return matrix.reshape(EDGE, EDGE // 4, 2, 2)


def with_bias(input, weight):
    return F.linear(input, weight, weight.new_zeros(EDGE))


def by_weight(layer):
    """Returns the same layer with its weight as the first argument."""
    return lambda weight, input: layer(input, weight)


PASSES = {
    "forward": lambda setting, lhs, rhs: forward(setting, torch.matmul, lhs, rhs.T),
    "backward": lambda setting, lhs, rhs: gradient(setting, torch.zeros_like(lhs), lhs, lambda x, w: x @ w.T, rhs.T),
    "linear": lambda setting, lhs, rhs: forward(setting, with_bias, lhs, rhs),
    "weight's gradient": lambda setting, lhs, rhs: gradient(
        setting, torch.zeros_like(rhs), lhs.T.contiguous(), by_weight(with_bias), rhs.T.contiguous()
    ),
    "few rows": few_rows,
    "convolution": lambda setting, lhs, rhs: forward(setting, F.conv2d, windows(lhs), windows(rhs)),
    "images' gradient": lambda setting, lhs, rhs: gradient(
        setting, torch.zeros_like(windows(lhs)), lhs.reshape(EDGE, EDGE, 1, 1), F.conv2d, windows(rhs.T)
    ).flatten(1),
    "filters' gradient": lambda setting, lhs, rhs: gradient(
        setting, torch.zeros_like(windows(rhs)), lhs.T.contiguous().view(EDGE, EDGE, 1, 1), by_weight(F.conv2d), windows(rhs.T)
    ).flatten(1),
}
