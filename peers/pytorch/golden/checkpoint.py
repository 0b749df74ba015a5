#!/usr/bin/env python3
"""Writes checkpoints with `torch.save`: an archive with the key `state_dict`, and a pickle of the format before PyTorch 1.6.

Writes crates/inputs/tests/golden/{archive,pickle}.pth. The tensor `half` is a transposed view, which is not contiguous.
Values are whole numbers, which every format represents exactly.
"""

from pathlib import Path

import torch

OUT = Path(__file__).resolve().parents[3] / "crates/inputs/tests/golden"


def main():
    numbers = torch.arange(6, dtype=torch.float32)
    weights = {
        "module.single": numbers.reshape(2, 3),
        "module.half": numbers.to(torch.float16).reshape(3, 2).T,
        "module.brain": numbers.to(torch.bfloat16) + 1,
        "module.double": numbers.to(torch.float64) + 2,
        "module.num_batches_tracked": torch.tensor(7),
    }
    torch.save({"epoch": 3, "state_dict": weights}, OUT / "archive.pth")
    torch.save(weights, OUT / "pickle.pth", _use_new_zipfile_serialization=False)
    for name in ["archive", "pickle"]:
        print(f"{name}.pth: {(OUT / name).with_suffix('.pth').stat().st_size} bytes")


if __name__ == "__main__":
    main()
