#!/usr/bin/env python3
"""Reference numbers for a tiny vision transformer, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/vit-tiny.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, by ViTForImageClassification of transformers 5.23.0 (models/vit/modeling_vit.py).
`reference_logits` below reimplements it in plain functions, and the script checks that both agree:

Patches      a convolution of kernel and stride `patch_size`, with bias, no padding: [n, channels, size, size] to
             [n, hidden, rows, columns]; its positions, row by row, are the tokens.
Embeddings   cls_token before all patches, then + position_embeddings [1, 1 + patches, hidden] (learned, the first row
             is the class token's), then dropout. No norm here.
Block        pre-norm: x = x + attention(layernorm_before(x)); x = x + ffn(layernorm_after(x)).
Attention    softmax(Q K^T * (hidden / heads)^-0.5) V, no mask, then output.dense. Q, K, V (`qkv_bias`) and the output
             projection have biases. Dropout on the probabilities and after output.dense, both 0 here. This script
             uses SDPA, because transformers' eager attention rounds the probabilities to f32 even in f64.
Feed-forward output.dense(gelu(intermediate.dense(x))), dropout after it; exact GELU x * Phi(x) by erf, not tanh.
LayerNorm    eps 1e-12, biased variance, with weight and bias; five of them here.
Head         vit.layernorm of every token after the last block, then `classifier` of the class token (the first one). No
             pooler, no tanh, no mean over patches.
Loss         mean cross-entropy over the batch.

The gradient of every key's bias is 0 in exact arithmetic, because this bias shifts all scores of a query alike. Its recorded
values and its "largest" are rounding noise.

The names in the file are those of published checkpoints (google/vit-base-patch16-224), independent of the module names in the
installed version of transformers. All numbers of the JSON are f64, except "float32":

  images           integers in units of 1/4, [image, channel, row, column] flattened
  logits, loss     with the weights of the file
  gradients        of the loss: norm of each parameter's gradient, and index and value of its largest element
  training         plain SGD: loss before each step, and after all of them
  float32          logits, loss and the losses of the training by PyTorch in f32, to show the effect of rounding
"""

import json
import re
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from resnet_imagenet import format_json
from safetensors.torch import load_file, save
from transformers import ViTConfig, ViTForImageClassification

OUT = Path(__file__).resolve().parents[3] / "crates/workloads/tests/golden"
SEED = 20250418
CONFIG = {
    "image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 20, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 37, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12, "qkv_bias": True, "num_labels": 3,
}
LABELS = [2, 0, 1]
RATE, STEPS = 0.05, 4
PUBLISHED = [  # names of modules in transformers 5, and names in checkpoints
    (r"^vit\.layers\.", "vit.encoder.layer."),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
]


def published(name):
    for ours, theirs in PUBLISHED:
        name = re.sub(ours, theirs, name)
    return name


def spread_weights():
    """Draws weights with a spread larger than ViT's 0.02, and biases and norms that differ from the usual 0 and 1. A missing bias,
    norm, class token or position then changes the logits."""
    generator = torch.Generator().manual_seed(SEED)
    weights = {}
    for name, like in ViTForImageClassification(ViTConfig(**CONFIG)).state_dict().items():
        noise = torch.randn(like.shape, generator=generator)
        if "layernorm" in name and name.endswith("weight"):
            noise = 1.0 + 0.2 * noise
        elif name.endswith("bias"):
            noise = 0.1 * noise
        else:
            noise = 0.3 * noise
        weights[published(name)] = noise
    return weights


def new_model(file, dtype):
    """Loads the model like a published checkpoint, so transformers maps the names to its modules."""
    with tempfile.TemporaryDirectory() as folder:
        ViTConfig(**CONFIG, architectures=["ViTForImageClassification"]).save_pretrained(folder)
        (Path(folder) / "model.safetensors").write_bytes(file.read_bytes())
        model, info = ViTForImageClassification.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
        )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.train()  # dropout is 0, so training mode only changes what autograd saves


def reference_logits(weights, images):
    """Reimplements the model in plain functions."""
    hidden, heads = CONFIG["hidden_size"], CONFIG["num_attention_heads"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + CONFIG["layer_norm_eps"]).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def split(x):
        return x.view(*x.shape[:2], heads, hidden // heads).transpose(1, 2)

    at, size = "vit.embeddings", CONFIG["patch_size"]
    patches = images.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    kernel = weights[f"{at}.patch_embeddings.projection.weight"].flatten(1)
    x = patches @ kernel.T + weights[f"{at}.patch_embeddings.projection.bias"]
    x = torch.cat((weights[f"{at}.cls_token"].expand(len(x), 1, hidden), x), 1) + weights[f"{at}.position_embeddings"]
    for number in range(CONFIG["num_hidden_layers"]):
        at = f"vit.encoder.layer.{number}"
        y = norm(x, f"{at}.layernorm_before")
        q, k, v = (split(linear(y, f"{at}.attention.attention.{which}")) for which in ("query", "key", "value"))
        y = ((q @ k.transpose(2, 3) * (hidden // heads) ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + linear(y, f"{at}.attention.output.dense")
        y = linear(norm(x, f"{at}.layernorm_after"), f"{at}.intermediate.dense")
        y = y * 0.5 * (1 + torch.erf(y / 2**0.5))
        x = x + linear(y, f"{at}.output.dense")
    return linear(norm(x, "vit.layernorm")[:, 0], "classifier")


def gradients(model):
    rows = []
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        at = torch.unravel_index(gradient.abs().argmax(), gradient.shape)
        rows.append({
            "name": published(name), "shape": list(gradient.shape), "norm": gradient.norm().item(),
            "largest": {"index": [int(i) for i in at], "value": gradient[at].item()},
        })
    return rows


def train(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixel_values=images).logits, labels)
        losses.append(loss.item())
        if step < STEPS:
            loss.backward()
            optimizer.step()
    return {"losses": losses[:-1], "after": losses[-1]}


def main():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.disable_progress_bar()
    OUT.mkdir(parents=True, exist_ok=True)

    # The reference starts from the file's f32 values, widened exactly, as any reader of the file does.
    file = OUT / "vit-tiny.safetensors"
    file.write_bytes(save(spread_weights()))
    weights = {name: value.double() for name, value in load_file(file).items()}
    generator = torch.Generator().manual_seed(SEED + 1)
    edge = CONFIG["image_size"]
    counts = torch.randn((len(LABELS), 3, edge, edge), generator=generator).mul(4).round().clamp(-9, 9)
    images, labels = counts.double() / 4, torch.tensor(LABELS)

    model = new_model(file, torch.float64)
    output = model(pixel_values=images, labels=labels)
    output.loss.backward()
    rows = gradients(model)

    # Check the claims of the module docstring.
    assert sorted(row["name"] for row in rows) == sorted(weights)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, weights[published(name)]), name
    with torch.no_grad():
        error = (reference_logits(weights, images) - output.logits).abs().max().item()
    assert error < 1e-13, error
    assert abs(F.cross_entropy(output.logits, labels).item() - output.loss.item()) < 1e-15
    for row in rows:
        noise = row["name"].endswith("key.bias")
        assert (row["norm"] < 1e-13) if noise else (row["norm"] > 1e-4), row

    training = train(model, images, labels)
    model = new_model(file, torch.float32)
    output32 = model(pixel_values=images.float(), labels=labels)
    golden = {
        "generated": "by peers/pytorch/golden/vit.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "seed": SEED,
        "config": CONFIG,
        "images": counts.int().flatten().tolist(),
        "labels": LABELS,
        "logits": output.logits.flatten().tolist(),
        "loss": output.loss.item(),
        "gradients": rows,
        "training": {"optimizer": "sgd", "lr": RATE, **training},
        "float32": {
            "logits": output32.logits.flatten().tolist(), "loss": output32.loss.item(),
            "training": train(model, images.float(), labels),
        },
    }
    (OUT / "vit-tiny.json").write_text(format_json(golden) + "\n")
    print(f"reference within {error:.1e}; f32 logits within {(output32.logits - output.logits).abs().max():.1e}")
    print(f"logits {output.logits.tolist()}, losses {training}")


if __name__ == "__main__":
    main()
