"""Shared code of the references of small transformers, imported by llama.py, gpt2.py, bert.py and bloom.py.

Weights are drawn in f32, stored, read back and widened exactly, as any reader of the file does. The float64 numbers are
computed entirely in float64. By default, transformers computes some operations in f32, independent of the model's dtype (the
docstring of each script lists them); `computing_in_float64` makes it use f64. `OnlyFloat64` checks that no operation of such a
run, including the backward pass, returns another float type. The float32 numbers are from unmodified transformers.
"""

import json
import textwrap
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy
import torch
import transformers
from safetensors.torch import load_file, save
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import activations, modeling_rope_utils
from transformers.loss import loss_utils
from transformers.models.bert import modeling_bert
from transformers.models.bloom import modeling_bloom
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

OUT = Path(__file__).resolve().parents[3] / "crates/workloads/tests/golden"
MODULES = [activations, loss_utils, modeling_bert, modeling_bloom, modeling_gpt2, modeling_llama, modeling_rope_utils]
GENERATED = 12  # tokens after the prompt
STEPS = 5  # number of positions whose logits are written: after the prompt and after each of the first four tokens
WIDTH = 118


class Float64Torch:
    """Replacement of the module `torch` in which float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextmanager
def computing_in_float64():
    """Computes in f64 where transformers would force f32: `torch.float32`, `torch.float` and `Tensor.float()`."""
    patches = [patch.object(module, "torch", Float64Torch()) for module in MODULES if hasattr(module, "torch")]
    patches.append(patch.object(torch.Tensor, "float", torch.Tensor.double))
    for each in patches:
        each.start()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        for each in patches:
            each.stop()


class OnlyFloat64(TorchDispatchMode):
    """Dispatch mode that rejects operations that return floats of another type."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                assert leaf.dtype == torch.float64, operation
        return result


def set_up():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    OUT.mkdir(parents=True, exist_ok=True)


def new_model(kind, config, dtype, weights=None):
    """Returns a model. For f64, call this and run the model within `computing_in_float64`. Dropout is 0, so training mode only changes what
    autograd keeps. Each parameter is in the weights, or tied to one that is."""
    fields = deepcopy(config)  # transformers modifies its arguments
    model_type = fields.pop("model_type")
    made = kind.config_class(**fields, attn_implementation="eager")
    assert made.model_type == model_type and made._attn_implementation == "eager"
    model = kind(made).to(dtype).train()
    if weights is not None:
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected, unexpected
        state = model.state_dict()
        loaded = {state[name].data_ptr() for name in weights}
        assert all(state[name].data_ptr() in loaded for name in missing), missing  # tied to a loaded parameter
    return model


def spread_weights(kind, config, seed):
    """Draws weights by the names under which `save_pretrained` stores them, once each. Their spread is larger than the usual
    0.02, biases and norms differ from the usual 0 and 1, and rows of padding are not zero, so that a missing bias, norm,
    mask or scale changes the loss."""
    model = new_model(kind, config, torch.float32)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = set(load_file(Path(folder) / "model.safetensors"))
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, like in model.state_dict().items():
        if name not in saved:
            continue
        noise = torch.randn(like.shape, generator=generator, dtype=torch.float32)
        if like.ndim == 1 and name.endswith("weight"):  # the weight of a norm
            weights[name] = 1.0 + 0.2 * noise
        elif name.endswith("bias"):
            weights[name] = 0.1 * noise
        else:
            weights[name] = 0.3 * noise
    assert set(weights) == saved
    return weights


def store_weights(name, weights):
    """Writes the weights, and returns them as read back."""
    file = OUT / f"{name}.safetensors"
    file.write_bytes(save(weights))
    return load_file(file)


def batch(seed, vocabulary, lengths, padding=0):
    """Returns token ids padded on the right with `padding`, and their mask. Real tokens do not have the id `padding`."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocabulary - 1, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.where(mask == 1, ids + (ids >= padding), padding), mask


def scrambled(ids, mask, vocabulary):
    """Replaces the content of the padding."""
    return torch.where(mask == 1, ids, (ids + 5) % vocabulary)


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


def backward(kind, config, weights, **inputs):
    """Returns a float64 model after one backward pass, its output, and the rows of its gradients."""
    with computing_in_float64():
        model = new_model(kind, config, torch.float64, weights)
        with OnlyFloat64():
            output = model(**inputs)
            output.loss.backward()
        rows = gradients(model)
    assert {row["name"] for row in rows} == set(weights)  # each tied parameter has one row, under its stored name
    return model, output, rows


def float64_logits(model, **inputs):
    with computing_in_float64(), torch.no_grad():
        return model(**inputs).logits


def unpatched_outputs(kind, config, weights, **inputs):
    """Returns logits and loss of the float64 model as unmodified transformers computes them, partly in f32."""
    output = new_model(kind, config, torch.float64, weights)(**inputs)
    return output.logits, output.loss


def float32_logits(kind, config, weights, **inputs):
    """Returns the logits in f32, as the shortest decimals that parse to the same f32."""
    def shorten(values):
        if isinstance(values, list):
            return [shorten(value) for value in values]
        short = float(str(numpy.float32(values)))
        assert numpy.float32(short) == values
        return short
    with torch.no_grad():
        logits = new_model(kind, config, torch.float32, weights)(**inputs).logits
    assert logits.dtype == torch.float32
    return logits, shorten(logits.tolist())


def greedy(model, prompt):
    """Returns the tokens after the prompt and the logits of the first few, computed with the cache: the prompt in one pass, then
    one token at a time. Asserts that results without a cache and `generate` agree, and that no choice is close."""
    model.eval()
    whole = step = torch.tensor([prompt])
    cache, steps, margin = None, [], float("inf")
    with computing_in_float64(), torch.no_grad(), OnlyFloat64():
        for _ in range(GENERATED):
            output = model(input_ids=step, past_key_values=cache, use_cache=True)
            cache, last = output.past_key_values, output.logits[0, -1]
            without = model(input_ids=whole, use_cache=False).logits[0, -1]
            assert (last - without).abs().max() < 1e-12
            best = last.topk(2).values
            margin = min(margin, (best[0] - best[1]).item())
            steps.append(last.tolist())
            step = last.argmax().view(1, 1)
            whole = torch.cat([whole, step], 1)
            assert cache.get_seq_length() == whole.shape[1] - 1
    with computing_in_float64(), torch.no_grad():
        generated = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=GENERATED, do_sample=False, use_cache=True, eos_token_id=None, pad_token_id=0,
        )
    assert torch.equal(generated, whole), (generated, whole)
    tokens = whole[0, len(prompt):].tolist()
    assert margin > 1e-2, margin  # f32 chooses the same tokens
    assert len(set(tokens)) > 3, tokens  # more than three distinct tokens
    model.train()
    return tokens, steps[:STEPS]


def max_difference(a, b):
    return (a - b).abs().max().item()


def pretty(value):
    """Formats JSON with the repr of each f64, a line for each short list or object, and long lists of numbers wrapped."""
    def write(value, indent):
        flat = json.dumps(value)
        if len(flat) + indent <= WIDTH or not isinstance(value, (dict, list)):
            return flat
        pad = " " * (indent + 2)
        if isinstance(value, dict):
            lines = [f"{pad}{json.dumps(k)}: {write(v, indent + 2)}" for k, v in value.items()]
            return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
        if all(isinstance(v, (int, float)) for v in value):
            lines = textwrap.fill(flat[1:-1], WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False,
                                  break_long_words=False)
            return "[\n" + lines + "\n" + " " * indent + "]"
        return "[\n" + ",\n".join(pad + write(v, indent + 2) for v in value) + "\n" + " " * indent + "]"
    return write(value, 0) + "\n"


def write_json(name, script, seed, config, content):
    """Writes the JSON next to the weights."""
    golden = {
        "generated": f"by peers/pytorch/golden/{script}; do not edit",
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "seed": seed,
        "config": config,
        **content,
    }
    text = pretty(golden)
    assert json.loads(text) == golden
    (OUT / f"{name}.json").write_text(text)
    for file in (OUT / f"{name}.json", OUT / f"{name}.safetensors"):
        assert file.stat().st_size < 60_000, (file, file.stat().st_size)
