#!/usr/bin/env python3
"""Reference matmuls for the matmul precisions: seeded f32 operands, 24x40 times 40x8, multiplied in float64.

Writes crates/precision/tests/engine/numbers/matmul.json:

  left, right   the f32 operands, row by row, as the repr of their exact value (parsing as f32 or f64 is exact)
  exact         the matmul of the unrounded operands ("highest")
  tf32          the matmul of the operands rounded to TF32 ("high")
  bf16          the matmul of the operands rounded to bf16 ("medium")

Sums are in float64. A matmul that accumulates in f32 differs by its summation error, at most about 40 * 2^-24 times the sum
of |left| * |right|. This is some hundred times less than the effect of rounding the operands. Operands are rounded with exact
rational arithmetic, to nearest, ties to even (formats.py checks it against PyTorch).
"""

import json
import math
from pathlib import Path

import torch

from formats import FORMATS, round_exactly

OUT = Path(__file__).resolve().parents[3] / "crates/precision/tests/engine/numbers"
SEED = 7
ROWS, INNER, COLUMNS = 24, 40, 8


def rounded(matrix, name):
    values = [[round_exactly(value, *FORMATS[name]) for value in row] for row in matrix.tolist()]
    return torch.tensor(values, dtype=torch.float64)


def product(left, right):
    """Returns the product correctly rounded to float64, so the order of summation does not matter."""
    rows, columns = left.tolist(), right.T.tolist()
    return torch.tensor(
        [[math.fsum(a * b for a, b in zip(row, column)) for column in columns] for row in rows], dtype=torch.float64
    )


def main():
    generator = torch.Generator().manual_seed(SEED)
    left = torch.randn(ROWS, INNER, generator=generator).double()
    right = torch.randn(INNER, COLUMNS, generator=generator).double()
    assert torch.equal(rounded(left, "bf16"), left.float().bfloat16().double())

    exact = product(left, right)
    products = {name: product(rounded(left, name), rounded(right, name)) for name in ("tf32", "bf16")}
    torch.testing.assert_close(exact, left @ right, rtol=0, atol=1e-12)

    matrices = {"left": left, "right": right, "exact": exact, **products}
    body = ",\n".join(
        f'  "{name}": [\n' + ",\n".join("    " + json.dumps(row) for row in matrix.tolist()) + "\n  ]"
        for name, matrix in matrices.items()
    )
    OUT.mkdir(parents=True, exist_ok=True)
    version = torch.__version__.split("+")[0]
    (OUT / "matmul.json").write_text(
        '{\n  "generated": "by peers/pytorch/golden/matmul.py; do not edit",\n'
        f'  "versions": {{"torch": "{version}"}},\n  "seed": {SEED},\n{body}\n}}\n'
    )

    scale = left.abs() @ right.abs()
    single = (left.float() @ right.float()).double()
    for name, other in {"f32 accumulation": single, **products}.items():
        error = (other - exact).abs()
        print(f"{name}: largest error {error.max():.2e}, of the sum of magnitudes {(error / scale).max():.2e}")
        print(f"  relative Frobenius {((other - exact).norm() / exact.norm()):.2e}, smallest error {error.min():.1e}")


if __name__ == "__main__":
    main()
