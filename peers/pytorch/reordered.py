"""Runs the PyTorch peer with DistilBERT's hidden units and heads in another order, so that the same sums are rounded differently. Two
frameworks cannot agree more closely than the losses with and without this reordering.

    mantissa run SUITE --peer 'python3 peers/pytorch/reordered.py 7'        draws the order with the seed 7
"""

import sys

import torch

from mantissa_torch import models
from mantissa_torch.__main__ import main


def reorder(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model.distilbert.transformer.layer:
            inner, outer = layer.ffn.lin1, layer.ffn.lin2
            units = torch.randperm(inner.out_features, generator=generator)
            inner.weight.copy_(inner.weight[units])
            inner.bias.copy_(inner.bias[units])
            outer.weight.copy_(outer.weight[:, units])
            attention = layer.attention
            heads = torch.randperm(attention.n_heads, generator=generator)
            rows = torch.arange(attention.dim).view(attention.n_heads, -1)[heads].flatten()
            for projection in [attention.q_lin, attention.k_lin, attention.v_lin]:
                projection.weight.copy_(projection.weight[rows])
                projection.bias.copy_(projection.bias[rows])
            attention.out_lin.weight.copy_(attention.out_lin.weight[:, rows])
    return model


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        sys.exit(__doc__)
    build, seed = models.build, int(sys.argv[1])
    models.build = lambda *arguments: reorder(build(*arguments), seed)
    main()
