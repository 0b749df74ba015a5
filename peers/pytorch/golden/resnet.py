#!/usr/bin/env python3
"""Reference numbers for a tiny CIFAR ResNet in PyTorch: logits, gradients and a few accumulated steps, in f64 and f32.

Writes crates/workloads/tests/golden/resnet-tiny.safetensors (initial weights, f32) and resnet-tiny.json:

  images, labels   six images with an odd edge, f32 numbers
  gradients        of the mean loss of all six images in one batch, in f64: norm and sum by parameter
  logits           of all six images in one batch, in training mode and f64
  steps            SGD with momentum, each step over two micro-batches of three images, whose summed losses are divided by
                   six. For each format, and each momentum of the running statistics (`keep`: 0.1 per micro-batch;
                   `scaled`: 1 - 0.9 ** (1/2)): mean loss of each step; after the last step, the logits in evaluation and
                   the concatenated running means and variances of all batch norms

The architecture is that of arXiv 1512.03385, section 4.2, with shortcuts of option A and the parameter names of
akamaster/pytorch_resnet_cifar10.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

OUT = Path(__file__).resolve().parents[3] / "crates/workloads/tests/golden"
SEED = 20241122
DEPTH, WIDTH, EDGE, CLASSES, IMAGES, STEPS = 14, 4, 9, 10, 6, 4
RATE, MOMENTUM = 0.05, 0.9


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.narrows, self.more = stride == 2, outer - inner

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.narrows:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return F.relu(y + x)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = (DEPTH - 2) // 6
        self.conv1, self.bn1 = nn.Conv2d(3, WIDTH, 3, 1, 1, bias=False), nn.BatchNorm2d(WIDTH)
        inner = WIDTH
        for stage in range(3):
            outer = WIDTH << stage
            layers = []
            for number in range(blocks):
                layers.append(Block(inner, outer, 2 if stage and not number else 1))
                inner = outer
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.linear = nn.Linear(inner, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def flat(tensors):
    return [x for tensor in tensors for x in tensor.detach().double().flatten().tolist()]


def build(dtype, weights, momentum=0.1):
    model = ResNet()
    model.load_state_dict(weights, strict=False)
    model.to(dtype)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum
    return model


def steps(dtype, weights, images, labels, momentum):
    model = build(dtype, weights, momentum)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for part in torch.arange(IMAGES).chunk(2):
            loss = F.cross_entropy(model(images[part].to(dtype)), labels[part], reduction="sum") / IMAGES
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    model.eval()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        logits = model(images.to(dtype))
    return {
        "losses": losses,
        "logits": flat([logits]),
        "means": flat(norm.running_mean for norm in norms),
        "variances": flat(norm.running_var for norm in norms),
    }


def main():
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    start = ResNet()
    for name, parameter in start.named_parameters():
        if "bn" in name:
            nn.init.normal_(parameter, 1.0 if name.endswith("weight") else 0.0, 0.2)
    weights = {name: parameter.detach().clone() for name, parameter in start.named_parameters()}
    images, labels = torch.randn(IMAGES, 3, EDGE, EDGE), torch.randint(CLASSES, (IMAGES,))

    whole = build(torch.float64, weights)
    logits = whole(images.double())
    F.cross_entropy(logits, labels).backward()
    gradients = {
        name: {"norm": parameter.grad.norm().item(), "sum": parameter.grad.sum().item()}
        for name, parameter in whole.named_parameters()
    }
    momenta = {"keep": 0.1, "scaled": 1 - 0.9**0.5}
    runs = {
        name: {rule: steps(dtype, weights, images, labels, momentum) for rule, momentum in momenta.items()}
        for name, dtype in {"f64": torch.float64, "f32": torch.float32}.items()
    }
    for results in runs.values():
        assert results["keep"]["losses"] == results["scaled"]["losses"]
        assert results["keep"]["means"] != results["scaled"]["means"]

    OUT.mkdir(parents=True, exist_ok=True)
    save_file(weights, OUT / "resnet-tiny.safetensors")
    content = {
        "generated": "by peers/pytorch/golden/resnet.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0]},
        "config": {"depth": DEPTH, "width": WIDTH, "edge": EDGE, "classes": CLASSES},
        "rates": {"learning_rate": RATE, "momentum": MOMENTUM},
        "images": flat([images]),
        "labels": labels.tolist(),
        "logits": flat([logits]),
        "gradients": gradients,
        "steps": runs,
    }
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    (OUT / "resnet-tiny.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
