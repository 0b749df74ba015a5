#!/usr/bin/env python3
"""Twenty training steps of the tiny DistilBERT (two blocks) in f32, bf16-mixed and 16-mixed, by PyTorch on the CPU.

Writes crates/workloads/tests/golden/mixed-precision.{json,safetensors}: losses, loss scales and final weights. Initial weights
and data are those of golden/distilbert.py.

Autocast     Autocast on the CPU does not cast the input of softmax and layer norm, but autocast on CUDA does. The script
             therefore casts the input of softmax, layer norm and loss by `.float()`. The other operations (matmuls in the
             16-bit format, GELU and ReLU in the format of their input, additions in the wider format) do not differ.
Loss scale   torch.amp.GradScaler with `growth_interval=3`. In step INF_STEP, a gradient is set to inf. That step is skipped
             and the scale is halved. The scale grows before and after it. The script asserts that rounding cannot change which steps
             overflow: the same steps are finite with twice and with half the scale.
Optimizer    SGD with momentum. Adam's update does not depend on the scale of its gradients, so it would hide missing
             unscaling. clip_grad_norm_ is called after unscaling. It clips some steps but not all.

Another correct implementation may add in another order, so that a sum near the midpoint of two 16-bit numbers is rounded the
other way. To measure this effect, PyTorch trains again with examples, heads, hidden units and the features of the residual
stream permuted, which changes only the order of sums. There are REORDERED such runs. Two distances of each run from the first
one are computed: that of the losses, and that of the final weights (Frobenius norm of the difference, divided by that of the
change from start to end). `spread` is the largest value of each distance. `format` is the distance from the f64 run that skips the same
steps. `planted` are the distances of runs with an implementation error.
"""

import contextlib
import json

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch.nn.utils import clip_grad_norm_

from distilbert import CONFIG, LABELS, OUT, batch, new_model, pretty

STEPS = 20
LEARNING_RATE, MOMENTUM, CLIP_NORM = 0.005, 0.9, 3.0
GROWTH_INTERVAL = 3
INITIAL_SCALE = 1024.0  # low enough that no step overflows by itself, because that could depend on the order of a sum
INF_STEP = 7  # counted from 0
REORDERED = 32
SETTINGS = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


@contextlib.contextmanager
def autocast(dtype):
    """Applies CPU autocast, with softmax, layer norm and loss as in the CUDA list."""
    if dtype is None:
        yield
        return
    wide = ["softmax", "layer_norm", "cross_entropy"]
    own = {name: getattr(F, name) for name in wide}
    for name in wide:
        setattr(F, name, lambda x, *args, function=own[name], **options: function(x.float(), *args, **options))
    try:
        with torch.autocast("cpu", dtype=dtype):
            yield
    finally:
        for name, function in own.items():
            setattr(F, name, function)


def backward(model, data, lower, scaled=lambda loss: loss):
    """Returns the mean loss. Accumulates the gradients of `scaled(loss)`."""
    ids, mask, labels = data
    for parameter in model.parameters():
        parameter.grad = None
    with autocast(lower):
        logits = model(input_ids=ids, attention_mask=mask).logits
        loss = F.cross_entropy(logits, labels, reduction="sum") / len(LABELS)
    scaled(loss).backward()
    return loss.item()


def finite(model):
    return all(parameter.grad.isfinite().all() for parameter in model.parameters())


def train(weights, data, lower, dtype=torch.float32, skip=None, check=False, fault=None):
    """Returns the losses before each update and after the last one, the scale after each step, the skipped steps, and the final weights.
    `skip` lists the steps that a run without a scaler skips."""
    model = new_model(dtype, weights)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, foreach=False)
    enabled = lower == torch.float16
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=INITIAL_SCALE, growth_interval=GROWTH_INTERVAL, enabled=enabled
    )
    losses, scales, skipped, clipped = [], [], [], 0
    for step in range(STEPS):
        scale = scaler.get_scale()
        if check:
            outcomes = set()
            for factor in [0.5, 1.0, 2.0]:
                backward(model, data, lower, lambda loss: loss * scale * factor)
                outcomes.add(finite(model))
            assert len(outcomes) == 1, f"step {step} is a close decision"
        losses.append(backward(model, data, lower, scaler.scale))
        if scaler.is_enabled() and step == INF_STEP:
            parameters[0].grad[1, 0] = float("inf")
        if fault == "no unscaling":
            if finite(model):
                clip_grad_norm_(parameters, CLIP_NORM, foreach=False)
                optimizer.step()
            continue
        if fault == "clipping before unscaling":
            clip_grad_norm_(parameters, CLIP_NORM, foreach=False)
        scaler.unscale_(optimizer)
        if fault != "clipping before unscaling":
            clipped += bool(clip_grad_norm_(parameters, CLIP_NORM, foreach=False) > CLIP_NORM)
        if step not in (skip or []):
            scaler.step(optimizer)
        scaler.update()
        if scaler.is_enabled():
            scales.append(scaler.get_scale())
            if scales[-1] < scale:
                skipped.append(step)
        if fault == "f16 master weights":
            for parameter in parameters:
                parameter.data = parameter.data.half().float()
    assert fault or 0 < clipped < STEPS - 1, clipped
    losses.append(backward(model, data, lower))
    final = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    return {"losses": losses, "scales": scales, "skipped": skipped, "final": final}


def orders(seed):
    """Returns a function from a parameter's name to the order of each of its dimensions (None: unchanged)."""
    generator = torch.Generator().manual_seed(seed)
    dim, heads = CONFIG["dim"], CONFIG["n_heads"]
    width = dim // heads
    shuffled = lambda n: torch.randperm(n, generator=generator)
    residual, pooled, layers = shuffled(dim), shuffled(dim), []
    for _ in range(CONFIG["n_layers"]):
        head = shuffled(heads)
        within = lambda: torch.cat([h * width + shuffled(width) for h in head])
        scores, values = within(), within()
        layers.append({
            "q_lin": (scores, residual), "k_lin": (scores, residual), "v_lin": (values, residual),
            "out_lin": (residual, values), "hidden": shuffled(CONFIG["hidden_dim"]),
        })

    def order_of(name):
        part = name.split(".")[-2]
        if part.endswith("embeddings"):
            return (None, residual)
        if part == "pre_classifier":
            pair = (pooled, residual)
        elif part == "classifier":
            pair = (None, pooled)
        elif "norm" in part.lower():
            pair = (residual,)
        else:
            layer = layers[int(name.split("layer.")[1].split(".")[0])]
            hidden = layer["hidden"]
            pair = {"lin1": (hidden, residual), "lin2": (residual, hidden), **layer}[part]
        return pair if name.endswith("weight") else pair[:1]
    return order_of


def reorder(weights, order_of, back=False):
    result = {}
    for name, tensor in weights.items():
        for dimension, order in enumerate(order_of(name)):
            if order is not None:
                tensor = tensor.index_select(dimension, torch.argsort(order) if back else order)
        result[name] = tensor.contiguous()
    return result


def distance(run, reference, weights):
    """Returns the largest distance of the losses, and the distance of the final weights relative to their total change."""
    losses = max(abs(a - b) for a, b in zip(run["losses"], reference["losses"]))
    square = lambda a, b: sum(((a[name].double() - b[name].double()) ** 2).sum().item() for name in weights)
    change = square(reference["final"], weights)
    return {"loss": losses, "weights": (square(run["final"], reference["final"]) / change) ** 0.5}


def spread(weights, data, lower, reference):
    distances = []
    for seed in range(REORDERED):
        order_of = orders(seed)
        shuffled = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(seed))
        run = train(reorder(weights, order_of), tuple(part[shuffled] for part in data), lower)
        run["final"] = reorder(run["final"], order_of, back=True)
        assert run["scales"] == reference["scales"]
        distances.append(distance(run, reference, weights))
    return {name: max(d[name] for d in distances) for name in ["loss", "weights"]}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    weights = load_file(OUT / "distilbert-tiny.safetensors")
    data = batch()
    runs, tensors = [], {}
    for name, lower in SETTINGS.items():
        run = train(weights, data, lower, check=lower == torch.float16)
        wide = train(weights, data, None, torch.float64, skip=run["skipped"])
        faults = ["f16 master weights", "no unscaling", "clipping before unscaling"] if lower == torch.float16 else []
        planted = {fault: distance(train(weights, data, lower, fault=fault), run, weights) for fault in faults}
        row = {
            "precision": name, "losses": run["losses"][:-1], "after": run["losses"][-1], "scales": run["scales"],
            "spread": spread(weights, data, lower, run), "format": distance(run, wide, weights),
            "planted": planted,
        }
        if lower == torch.float16:
            assert run["skipped"] == [INF_STEP] and max(run["scales"]) > INITIAL_SCALE
        for fault in planted.values():
            assert fault["weights"] > 4 * row["spread"]["weights"], (row["spread"], planted)
        runs.append(row)
        tensors |= {f"{name}/{key}": value for key, value in run["final"].items()}
        print(name, json.dumps({key: row[key] for key in ["spread", "format", "planted"]}, indent=1))

    golden = {
        "generated": "by peers/pytorch/golden/mixed_precision.py; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0]},
        "learning_rate": LEARNING_RATE, "momentum": MOMENTUM, "clip_norm": CLIP_NORM,
        "initial_scale": INITIAL_SCALE, "growth_interval": GROWTH_INTERVAL, "inf_step": INF_STEP, "reordered": REORDERED, "runs": runs,
    }
    (OUT / "mixed-precision.json").write_text(pretty(golden))
    (OUT / "mixed-precision.safetensors").write_bytes(save(tensors))


if __name__ == "__main__":
    main()
