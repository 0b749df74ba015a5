#!/usr/bin/env python3
"""Reference numbers for DistilBERT training, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/distilbert-tiny.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, from transformers 5.23.0 (models/distilbert/modeling_distilbert.py,
masking_utils.py, activations.py):

Embeddings   word + learned position (0, 1, 2, ..., whatever the mask), then LayerNorm, then dropout(`dropout`).
             No token types. `padding_idx` is `pad_token_id` (0): that row of the word table never gets a gradient.
Attention    softmax(Q K^T * (dim / n_heads)^-0.5 + mask) V. This script uses eager attention, which scales the scores
             after Q K^T and before the mask. (SDPA's math path, and transformers 4, which scaled Q, differ only by
             rounding.) Dropout(`attention_dropout`) on the probabilities, without renormalization. Q, K, V and the
             output projection (`out_lin`) have biases. No dropout after `out_lin`.
Mask         bidirectional, [batch, 1, query, key], added to the scores: 0 where the key is a real token, and
             finfo(dtype).min (not -inf) where it is padding. This gives a probability of exactly 0, so padding does not
             affect real tokens. Only keys are masked: padded queries attend to the real keys in every layer, but their
             results are not used. Without padding, the mask is omitted.
Block        post-norm: x = sa_layer_norm(attention(x) + x); x = output_layer_norm(ffn(x) + x).
             ffn = lin2(gelu(lin1(x))), then dropout(`dropout`), before the residual sum.
LayerNorm    eps 1e-12 (all five here), biased variance, with weight and bias. In f32, adding eps 1e-12 has no effect on a
             variance of 2^-15 or more; in f16, 1e-12 is 0.
GELU         `activation: gelu` is torch's exact x * Phi(x) by erf, not the tanh approximation.
Head         output of the last block at the first position -> pre_classifier -> ReLU -> dropout(`seq_classif_dropout`) -> classifier.
             No tanh, no pooler.
Loss         mean cross-entropy over the batch, the logits in the model's dtype.

Facts for tests: the gradient of every `k_lin.bias` is 0 in exact arithmetic, because this bias shifts all scores of a query
alike. Its recorded values and its entry "largest" are rounding noise. Unused rows of the position table have gradient 0.

Optimizers   torch.optim.SGD / Adam / AdamW with default betas (0.9, 0.999) and eps 1e-8, eps outside the square root:
             m_hat / (sqrt(v_hat) + eps). SGD's momentum buffer is initially the first gradient, dampening 0, no Nesterov.
             AdamW's decay is decoupled, scaled by lr, and applied before the step to every parameter, including biases,
             norms and unused rows. Lars and Lamb are those of timm 1.0.31, with vectors (biases, norms) in a group
             without weight decay, for which timm does not use the layer-wise scale either. clip_grad_norm_ before the
             step if a run has a `clip_norm`.
"""

import json
from pathlib import Path

import timm
import torch
import transformers
from safetensors.torch import load_file, save
from timm.optim import Lamb, Lars
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from transformers import DistilBertConfig, DistilBertForSequenceClassification

OUT = Path(__file__).resolve().parents[3] / "crates/workloads/tests/golden"
SEED = 20240527
CONFIG = {
    "vocab_size": 40, "max_position_embeddings": 16, "sinusoidal_pos_embds": False, "n_layers": 2, "n_heads": 4,
    "dim": 16, "hidden_dim": 32, "activation": "gelu", "dropout": 0.0, "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0, "pad_token_id": 0, "num_labels": 2,
}
LENGTHS = [12, 9, 5, 12, 7, 3]  # real tokens per example: two full rows, four padded ones
SEQUENCE = 12
LABELS = [0, 1, 1, 0, 1, 1]  # the micro-batches have different mean losses, so that a mean of means is detected
MICRO_BATCHES = [4, 2]  # unequal on purpose
STEPS = 6
ACCUMULATION_STEPS = 4
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.0}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": 5e-3, "betas": (0.9, 0.999), "eps": 1e-8}),
    "adamw": (torch.optim.AdamW, {"lr": 5e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}),
    "lars": (Lars, {"lr": 0.5, "momentum": 0.9, "eps": 1e-8, "weight_decay": 0.01}),
    "lamb": (Lamb, {"lr": 5e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "max_grad_norm": None}),
    "adam-clipped": (torch.optim.Adam, {"lr": 5e-3, "betas": (0.9, 0.999), "eps": 1e-8, "clip_norm": 0.5}),
}


def new_model(dtype, weights=None):
    model = DistilBertForSequenceClassification(DistilBertConfig(**CONFIG, attn_implementation="eager"))
    if weights is not None:
        model.load_state_dict(weights, strict=True)
    return model.to(dtype).train()  # dropout is 0, so training mode only changes what autograd saves


def spread_weights():
    """Draws weights with a spread larger than DistilBERT's 0.02, biases and norms that differ from the usual 0 and 1, and a padding
    row that is not zero, so that a missing bias, norm, mask or scale changes the loss."""
    generator = torch.Generator().manual_seed(SEED)
    weights = {}
    for name, like in new_model(torch.float32).state_dict().items():
        noise = torch.randn(like.shape, generator=generator, dtype=torch.float32)
        norm = "LayerNorm" in name or "layer_norm" in name
        if norm and name.endswith("weight"):
            weights[name] = 1.0 + 0.2 * noise
        elif name.endswith("bias"):
            weights[name] = 0.1 * noise
        else:
            weights[name] = 0.3 * noise
    return weights


def batch():
    generator = torch.Generator().manual_seed(SEED + 1)
    ids = torch.randint(1, CONFIG["vocab_size"], (len(LENGTHS), SEQUENCE), generator=generator)
    mask = (torch.arange(SEQUENCE) < torch.tensor(LENGTHS)[:, None]).long()
    return ids * mask, mask, torch.tensor(LABELS)


def summed_loss(model, ids, mask, labels):
    logits = model(input_ids=ids, attention_mask=mask).logits
    return cross_entropy(logits, labels, reduction="sum")


def train(optimizer, dtype, weights, data, steps=STEPS, micro_batches=None, autocast=False):
    """Returns the loss before each update, and the loss after the last one. The loss of a step is the mean cross-entropy over the
    examples of all its micro-batches."""
    model = new_model(dtype, weights)
    kind, options = OPTIMIZERS[optimizer]
    options = dict(options)
    clip_norm = options.pop("clip_norm", None)
    parameters = list(model.parameters())
    if kind in (Lars, Lamb):
        matrices, vectors = ([p for p in parameters if (p.ndim > 1) == wide] for wide in (True, False))
        groups_of = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    else:
        groups_of = parameters
    optimizer = kind(groups_of, **options, foreach=False)
    groups = list(zip(*(part.split(micro_batches or [len(LABELS)]) for part in data)))

    def backward_loss():
        total = 0.0
        for group in groups:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = summed_loss(model, *group) / len(LABELS)
            loss.backward()  # gradients add up
            total += loss.item()
        return total

    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(backward_loss())
        if clip_norm:
            assert clip_grad_norm_(parameters, clip_norm, foreach=False) > clip_norm, "the gradients are not clipped"
        optimizer.step()
    return losses + [backward_loss()]


def gradients(model):
    rows = []
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        at = torch.unravel_index(gradient.abs().argmax(), gradient.shape)
        rows.append({
            "name": name, "shape": list(gradient.shape), "norm": gradient.norm().item(),
            "largest": {"index": [int(i) for i in at], "value": gradient[at].item()},
        })
    return rows


def run(losses):
    return {"losses": losses[:-1], "after": losses[-1]}


def pretty(value):
    """Formats JSON with the repr of each f64 and a line for each short list or object."""
    def write(value, indent):
        flat = json.dumps(value)
        if len(flat) + indent <= 118 or not isinstance(value, (dict, list)):
            return flat
        pad = " " * (indent + 2)
        if isinstance(value, dict):
            lines = [f"{pad}{json.dumps(k)}: {write(v, indent + 2)}" for k, v in value.items()]
            return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
        return "[\n" + ",\n".join(pad + write(v, indent + 2) for v in value) + "\n" + " " * indent + "]"
    return write(value, 0) + "\n"


def main():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    torch.use_deterministic_algorithms(True)
    OUT.mkdir(parents=True, exist_ok=True)

    # The reference starts from the file's f32 values, widened exactly, like any reader of the file.
    file = OUT / "distilbert-tiny.safetensors"
    file.write_bytes(save(spread_weights()))
    weights = load_file(file)
    data = ids, mask, labels = batch()

    model = new_model(torch.float64, weights)
    output = model(input_ids=ids, attention_mask=mask, labels=labels)
    output.loss.backward()
    rows = gradients(model)

    # Check the claims of the module docstring.
    for row in rows:
        noise = row["name"].endswith("k_lin.bias")
        assert (row["norm"] < 1e-13) if noise else (row["norm"] > 1e-4), row
    assert model.distilbert.embeddings.word_embeddings.weight.grad[0].abs().max() == 0
    scrambled = torch.where(mask == 1, ids, 7)
    assert torch.equal(model(input_ids=scrambled, attention_mask=mask).logits, output.logits)
    assert abs(summed_loss(model, *data).item() / len(LABELS) - output.loss.item()) < 1e-15

    f64 = {name: train(name, torch.float64, weights, data) for name in OPTIMIZERS}
    whole = train("adam", torch.float64, weights, data, ACCUMULATION_STEPS)
    parts = train("adam", torch.float64, weights, data, ACCUMULATION_STEPS, MICRO_BATCHES)
    difference = max(abs(a - b) for a, b in zip(whole, parts, strict=True))
    assert difference < 1e-12, difference
    f32 = train("adam", torch.float32, weights, data)
    autocast = train("adam", torch.float32, weights, data, autocast=True)

    golden = {
        "generated": "by peers/pytorch/golden/distilbert.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                     "timm": timm.__version__},
        "seed": SEED,
        "config": CONFIG,
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist(),
        "float64": {
            "logits": output.logits.tolist(),
            "loss": output.loss.item(),
            "gradients": rows,
            "training": [
                {"optimizer": name, **options, **run(f64[name])} for name, (_, options) in OPTIMIZERS.items()
            ],
            "accumulation": {"optimizer": "adam", "micro_batches": MICRO_BATCHES, **run(parts)},
        },
        "float32": {"optimizer": "adam", **run(f32)},
        "bfloat16_autocast": {"optimizer": "adam", **run(autocast)},
    }
    (OUT / "distilbert-tiny.json").write_text(pretty(golden))

    print(f"accumulated and whole batch differ by at most {difference:.1e}")
    for name in OPTIMIZERS:
        single = train(name, torch.float32, weights, data)
        drift = max(abs(a - b) for a, b in zip(single, f64[name], strict=True))
        print(f"{name:13} f64 losses {' '.join(f'{x:.6f}' for x in f64[name])}; f32 within {drift:.1e}")
    print(f"adam bf16 autocast losses {' '.join(f'{x:.6f}' for x in autocast)}")


if __name__ == "__main__":
    main()
