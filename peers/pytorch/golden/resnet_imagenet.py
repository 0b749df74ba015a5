#!/usr/bin/env python3
"""Reference numbers for tiny ImageNet ResNets, computed by PyTorch and torchvision's own class.

Writes crates/workloads/tests/golden/resnet18-tiny.{safetensors,json} and resnet50-tiny.{safetensors,json}. Nothing in
them comes from Mantissa.

Computation of the reference, by `ResNet` of torchvision 0.29.2 (models/resnet.py) with fewer than 64 channels.
`reference_outputs` below reimplements it in plain functions, and the script checks that both agree:

Stem         conv1 7x7, stride 2, padding 3, 3 -> w channels; bn1; ReLU; max pool 3x3, stride 2, padding 1 (its padding
             is -inf).
Stages       layer1 ... layer4 with planes = w, 2w, 4w, 8w; the first block of stages 2, 3 and 4 has stride 2, all others 1.
             Blocks per stage: 2, 2, 2, 2 (ResNet-18, basic) and 3, 4, 6, 3 (ResNet-50, bottleneck).
Basic        conv1 3x3 (the block's stride, padding 1), bn1, ReLU, conv2 3x3 (stride 1, padding 1), bn2; + shortcut;
             ReLU. The output has `planes` channels.
Bottleneck   version 1.5: conv1 1x1 (stride 1) to planes, bn1, ReLU, conv2 3x3 (the block's stride, padding 1), bn2,
             ReLU, conv3 1x1 to 4 * planes, bn3; + shortcut; ReLU. The output has 4 * planes channels.
Shortcut     the block's input if the output has the same shape. Otherwise downsample.0, a 1x1 convolution with the
             block's stride and no padding, then downsample.1, a batch norm, without ReLU. ResNet-18 has a downsample
             in the first blocks of stages 2, 3 and 4; ResNet-50 also in stage 1, with stride 1, for more channels.
Head         mean over all positions, then fc, with bias.
Convolutions have no bias anywhere. A layer of stride 2 reduces an odd edge n to (n + 1) / 2: 33, 17, 9, 5, 3, 2.
Batch norm   eps 1e-5, inside the square root. In training: mean and biased variance of batch and positions; afterwards
             running = 0.9 * running + 0.1 * statistics of the batch, with the unbiased variance (n / (n - 1)). In evaluation: the
             running statistics. No layer starts at weight 0 here (`zero_init_residual` is off).
Loss         mean cross-entropy.

The weights file contains every tensor under torchvision's name, including running_mean and running_var. The values are stored
as f16, which is exact here and keeps the file small. The file of ResNet-50 contains num_batches_tracked (I64, no shape), as
in newer files of torchvision. That of ResNet-18 does not, as in the oldest files. The running statistics are from other images,
with an offset.

All numbers of the JSON are f64, except "float32":

  images           integers in units of 1/4, [image, channel, row, column] flattened
  evaluation       logits with the running statistics of the file
  training         logits and loss of all images at once, with the batch's own statistics; norm and sum of the gradient of
                   each parameter (for fc, the sum is 0 in exact arithmetic, so it is rounding noise); running means and
                   variances after that one pass, to 12 decimals, concatenated over all norms in the order of "norms"
  float32          logits of evaluation and training, and the loss, by PyTorch in f32, to show the effect of rounding
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import load_file, save
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

OUT = Path(__file__).resolve().parents[3] / "crates/workloads/tests/golden"
SEED = 20250311
EDGE, CLASSES, IMAGES = 33, 5, 3
LABELS = [3, 0, 4]
MODELS = {  # depth: block, blocks per stage, width, True if the file contains num_batches_tracked
    18: (BasicBlock, [2, 2, 2, 2], 3, False),
    50: (Bottleneck, [3, 4, 6, 3], 2, True),
}


def new_model(depth, dtype=torch.float32, weights=None):
    block, layers, width, _ = MODELS[depth]

    class Tiny(ResNet):
        def _make_layer(self, block, planes, *rest, **named):
            if planes == 64:
                self.inplanes = width
            return super()._make_layer(block, planes * width // 64, *rest, **named)

    model = Tiny(block, layers, num_classes=CLASSES)
    model.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(width)
    model.fc = nn.Linear(8 * width * block.expansion, CLASSES)
    if weights is not None:
        lacks = model.load_state_dict(weights, strict=False)
        assert not lacks.unexpected_keys and all("num_batches" in name for name in lacks.missing_keys)
    return model.to(dtype)


def norms(model):
    return [(name, module) for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]


def quarters(generator):
    return torch.randn((IMAGES, 3, EDGE, EDGE), generator=generator).mul(4).round().clamp(-9, 9)


def spread_weights(depth):
    """Draws norms that differ from the usual 1 and 0, and running statistics of other images with offsets of means and variances.
    A missing norm, bias or statistic then changes the results. The weight of the last norm of each block is around 0.3. Otherwise, gradients
    would grow from block to block, and rounding that switches a ReLU would change them too much. All values are representable in f16."""
    generator = torch.Generator().manual_seed(SEED + depth)
    model = new_model(depth)
    last = "bn2.weight" if MODELS[depth][0] is BasicBlock else "bn3.weight"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 4:
                parameter.copy_(noise * (2 / parameter[0].numel()) ** 0.5)
            elif name == "fc.weight":
                parameter.copy_(0.5 * noise)
            else:
                usual = 0.0 if name.endswith("bias") else 0.3 if name.endswith(last) else 1.0
                parameter.copy_(0.2 * noise + usual)
        for _, norm in norms(model):
            norm.momentum = 1.0
        model.train()(quarters(generator) / 4)
        for _, norm in norms(model):
            off = torch.randn((2, norm.num_features), generator=generator)
            norm.running_mean += 0.3 * off[0] * norm.running_var.sqrt()
            norm.running_var *= torch.exp(0.3 * off[1])
            norm.num_batches_tracked.fill_(7)
    counted = MODELS[depth][3]
    weights = {name: value.half() if value.is_floating_point() else value for name, value in model.state_dict().items()}
    return {name: value for name, value in weights.items() if counted or "num_batches" not in name}


def reference_outputs(depth, weights, x, training):
    """Reimplements the model in plain functions. Returns logits and, in training, the updated statistics of each norm, by name."""
    block, layers, _, _ = MODELS[depth]
    updated_statistics = {}

    def conv(x, name, stride=1, padding=0):
        return F.conv2d(x, weights[f"{name}.weight"], None, stride, padding)

    def norm(x, name):
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
        if training:
            count = x.numel() / x.shape[1]
            batch = x.mean((0, 2, 3))
            biased = (x - batch[:, None, None]).square().mean((0, 2, 3))
            updated_statistics[name] = 0.9 * mean + 0.1 * batch, 0.9 * variance + 0.1 * biased * count / (count - 1)
            mean, variance = batch, biased
        x = (x - mean[:, None, None]) / (variance[:, None, None] + 1e-5).sqrt()
        return x * weights[f"{name}.weight"][:, None, None] + weights[f"{name}.bias"][:, None, None]

    x = F.relu(norm(conv(x, "conv1", 2, 3), "bn1"))
    x = F.pad(x, (1, 1, 1, 1), value=-torch.inf).unfold(2, 3, 2).unfold(3, 3, 2).amax((4, 5))
    for stage, blocks in enumerate(layers):
        for number in range(blocks):
            at, stride = f"layer{stage + 1}.{number}", 2 if stage and not number else 1
            if block is BasicBlock:
                y = F.relu(norm(conv(x, f"{at}.conv1", stride, 1), f"{at}.bn1"))
                y = norm(conv(y, f"{at}.conv2", 1, 1), f"{at}.bn2")
            else:
                y = F.relu(norm(conv(x, f"{at}.conv1"), f"{at}.bn1"))
                y = F.relu(norm(conv(y, f"{at}.conv2", stride, 1), f"{at}.bn2"))
                y = norm(conv(y, f"{at}.conv3"), f"{at}.bn3")
            if f"{at}.downsample.0.weight" in weights:
                x = norm(conv(x, f"{at}.downsample.0", stride), f"{at}.downsample.1")
            else:
                assert x.shape == y.shape and (number or not stage)
            x = F.relu(y + x)
    assert x.shape[2:] == (2, 2)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"], updated_statistics


def run_model(depth, dtype, weights, images, labels):
    """Returns logits in evaluation, logits and loss in training, and the model with that loss's gradients."""
    model = new_model(depth, dtype, weights)
    with torch.no_grad():
        evaluation = model.eval()(images.to(dtype))
    training = model.train()(images.to(dtype))
    loss = F.cross_entropy(training, labels)
    loss.backward()
    return evaluation, training.detach(), loss.item(), model


def format_json(value, depth=0):
    """Formats JSON with the repr of each f64, and a line for each list of numbers or strings and each object of a list."""
    pad = "  " * (depth + 1)
    if isinstance(value, dict) and any(isinstance(x, (dict, list)) for x in value.values()):
        parts = (f"{pad}{json.dumps(key)}: {format_json(x, depth + 1)}" for key, x in value.items())
        return "{\n" + ",\n".join(parts) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + json.dumps(x) for x in value) + "\n" + "  " * depth + "]"
    separators = (",", ":") if isinstance(value, list) else None
    return json.dumps(value, separators=separators)


def write(depth):
    file = OUT / f"resnet{depth}-tiny.safetensors"
    file.write_bytes(save(spread_weights(depth)))
    # The reference starts from the file's values, widened exactly, like any reader of the file.
    weights = {name: value.double() for name, value in load_file(file).items() if value.is_floating_point()}
    counts = quarters(torch.Generator().manual_seed(SEED))
    images, labels = counts.double() / 4, torch.tensor(LABELS)
    evaluation, training, loss, model = run_model(depth, torch.float64, weights, images, labels)

    # Check the claims of the module docstring.
    error = 0.0
    for model_logits, train in [(evaluation, False), (training, True)]:
        logits, updated_statistics = reference_outputs(depth, weights, images, train)
        error = max(error, ((logits - model_logits).abs().max() / model_logits.abs().max()).item())
    assert sorted(updated_statistics) == sorted(name for name, _ in norms(model))
    for name, norm in norms(model):
        torch.testing.assert_close(updated_statistics[name][0], norm.running_mean, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(updated_statistics[name][1], norm.running_var, rtol=1e-11, atol=1e-11)
    assert error < 1e-12, error
    gradients = {
        name: {"norm": parameter.grad.norm().item(), "sum": parameter.grad.sum().item()}
        for name, parameter in model.named_parameters()
    }
    assert all(row["norm"] > 1e-6 for row in gradients.values()), gradients
    for name, row in gradients.items():
        assert (abs(row["sum"]) < 1e-12 * row["norm"]) == name.startswith("fc."), (name, row)
    assert not any(isinstance(module, nn.Conv2d) and module.bias is not None for module in model.modules())
    assert (evaluation - training).abs().max() > 0.1

    outputs32 = run_model(depth, torch.float32, weights, images, labels)
    golden = {
        "generated": "by peers/pytorch/golden/resnet_imagenet.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0], "torchvision": torchvision.__version__.split("+")[0]},
        "seed": SEED,
        "config": {"depth": depth, "width": MODELS[depth][2], "edge": EDGE, "classes": CLASSES, "images": IMAGES},
        "images": counts.int().flatten().tolist(),
        "labels": LABELS,
        "evaluation": {"logits": evaluation.flatten().tolist()},
        "training": {
            "logits": training.flatten().tolist(),
            "loss": loss,
            "gradients": gradients,
            "norms": [name for name, _ in norms(model)],
            "means": [round(x, 12) for _, norm in norms(model) for x in norm.running_mean.tolist()],
            "variances": [round(x, 12) for _, norm in norms(model) for x in norm.running_var.tolist()],
        },
        "float32": {
            "evaluation": outputs32[0].flatten().tolist(), "training": outputs32[1].flatten().tolist(), "loss": outputs32[2],
        },
    }
    (OUT / f"resnet{depth}-tiny.json").write_text(format_json(golden) + "\n")

    drift = [((a - b).abs().max() / b.abs().max()).item() for a, b in zip(outputs32[:2], (evaluation, training))]
    wrong = [
        ((mine.grad - theirs.grad).norm() / theirs.grad.norm()).item()
        for mine, theirs in zip(outputs32[3].parameters(), model.parameters(), strict=True)
    ]
    print(f"resnet{depth}: reference within {error:.1e}; f32 logits within {drift[0]:.1e} in evaluation and "
          f"{drift[1]:.1e} in training, gradients within {max(wrong):.1e} (norm, of the worst parameter)")
    print(f"  loss {loss:.6f}, logits to {evaluation.abs().max():.3f} and {training.abs().max():.3f}, gradients' norms "
          f"{min(row['norm'] for row in gradients.values()):.1e} to {max(row['norm'] for row in gradients.values()):.1e}")


def main():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    torch.use_deterministic_algorithms(True)
    OUT.mkdir(parents=True, exist_ok=True)
    for depth in MODELS:
        write(depth)


if __name__ == "__main__":
    main()
