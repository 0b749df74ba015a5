#!/usr/bin/env python3
"""Prints the predictions of a trained ResNet for CIFAR-10 in PyTorch, in f32 and f64, as JSON to stdout.

  cifar.py CHECKPOINT.safetensors IMAGES.bin

Does not write into the repository, because the images do not have a licence.

CHECKPOINT   parameters and running statistics with the names of akamaster/pytorch_resnet_cifar10 and shortcuts of option A.
             The network is that of resnet.py in this folder, in evaluation mode, with the depth and width of the file.
IMAGES       CIFAR-10's binary records: one byte of label, then 3 x 32 x 32 bytes, channel, row, column.
Inputs       (x / 255 - mean) / deviation by channel, mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225, each
             operation in the format of the network. No cropping, no flipping.

Prints, by format, the number of correct predictions, every prediction (the first of the largest logits), and the margin
between the two largest logits: with a small margin, rounding can change the prediction.
"""

import json
import sys

import numpy as np
import resnet
import torch
from safetensors.torch import load_file

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 250


def network(weights, dtype):
    blocks = len({name.split(".")[1] for name in weights if name.startswith("layer1.")})
    resnet.DEPTH, resnet.WIDTH = 6 * blocks + 2, weights["conv1.weight"].shape[0]
    resnet.CLASSES = weights["linear.weight"].shape[0]
    model = resnet.ResNet()
    keys = model.load_state_dict(weights, strict=False)
    assert not keys.unexpected_keys and all("num_batches" in name for name in keys.missing_keys), keys
    return model.to(dtype).eval()


def predictions(weights, images, labels, dtype):
    model = network(weights, dtype)
    mean, deviation = (torch.tensor(x, dtype=dtype).view(3, 1, 1) for x in (MEAN, DEVIATION))
    with torch.no_grad():
        logits = torch.cat([model((part.to(dtype) / 255 - mean) / deviation) for part in images.split(BATCH)])
    best = logits.topk(2)
    predicted = logits.argmax(1)
    return {
        "right": (predicted == labels).sum().item(),
        "smallest_margin": (best.values[:, 0] - best.values[:, 1]).min().item(),
        "first_logits": logits[:4].tolist(),
        "predicted": predicted.tolist(),
        "margins": (best.values[:, 0] - best.values[:, 1]).tolist(),
    }


def main():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    checkpoint, file = sys.argv[1:]
    weights = load_file(checkpoint)
    records = torch.from_numpy(np.fromfile(file, np.uint8)).view(-1, 1 + 3 * 32 * 32)
    labels, images = records[:, 0].long(), records[:, 1:].view(-1, 3, 32, 32)
    formats = {"f32": torch.float32, "f64": torch.float64}
    by_format = {name: predictions(weights, images, labels, dtype) for name, dtype in formats.items()}
    differ = [a != b for a, b in zip(*(results["predicted"] for results in by_format.values()), strict=True)]
    content = {"depth": resnet.DEPTH, "count": len(labels), "differ": sum(differ), "labels": labels.tolist(), **by_format}
    print("{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()) + "\n}")


if __name__ == "__main__":
    main()
