#!/usr/bin/env python3
"""Reference numbers for GPT-2, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/gpt2.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, from transformers 5.23.0 (models/gpt2/modeling_gpt2.py, pytorch_utils.py,
activations.py, masking_utils.py, loss/loss_utils.py). The script checks it against `reference_logits`, which reimplements it without
transformers:

Embeddings   word + learned position: 0, 1, 2, ..., independent of the mask. (`generate` counts only real tokens, which is
             equivalent with padding on the right.) Dropout(`embd_pdrop`). No norm, no padding index.
Block        pre-norm: x = x + attn(ln_1(x)); x = x + mlp(ln_2(x)). A last norm (`ln_f`) before the head.
LayerNorm    eps `layer_norm_epsilon` (1e-5), biased variance, with weight and bias.
Conv1D       c_attn, c_proj and c_fc store their weights as [in, out], the transpose of a Linear layer: x @ weight + bias.
Attention    the output of c_attn is the concatenation of Q, K and V: its first n_embd columns are Q, then K, then V, and each is
             the concatenation of its heads. softmax(Q K^T * head_dim^-0.5 + mask) V, then c_proj. Dropout(`attn_pdrop`) on the
             probabilities, Dropout(`resid_pdrop`) after both layers named c_proj.
Mask         [batch, 1, query, key], added to the scores: 0 where the key is a real token not after the query, and
             finfo(dtype).min elsewhere, which leaves a probability of exactly 0. With padding on the right, the padding
             mask does not affect real queries. Padded queries attend to the real keys, but their results are not used.
MLP          c_proj(gelu(c_fc(x))), of width n_inner, or 4 n_embd without n_inner.
GELU         `gelu_new`: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the root with all digits.
Head         the embedding table (`lm_head.weight` is `transformer.wte.weight`, stored once), no bias.
Loss         position t's logits against label t + 1, mean over the labels that are not -100 (of the whole batch, not of
             each row). The labels written here are not shifted: the model does it.

For a model in f64, transformers computes only the loss in f32. This script computes the loss in f64.

Facts for tests: the gradient of the middle third (K) of every `c_attn.bias` is 0 in exact arithmetic, so its values are
rounding noise. In `wpe`, the gradients of the last position (which does not have a target) and of later rows are 0.
"""

import math

import torch
from torch.nn.functional import cross_entropy, layer_norm, pad
from transformers import GPT2LMHeadModel

import tiny

SEED = 20240611
NAME = "gpt2"
CONFIG = {
    "model_type": "gpt2", "vocab_size": 43, "n_positions": 32, "n_embd": 20, "n_head": 4, "n_layer": 2, "n_inner": None,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    "resid_pdrop": 0.0, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None,
}
LENGTHS = [8, 3, 6]  # real tokens per row
PROMPT = [17, 4, 31, 9, 26]


def reference_logits(weights, config, ids, mask):
    """Computes the logits of the module docstring without transformers."""
    w = {name.removeprefix("transformer."): value.double() for name, value in weights.items()}
    width, heads = config["n_embd"], config["n_head"]
    rows, length = ids.shape

    def norm(x, name):
        return layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], config["layer_norm_epsilon"])

    def conv(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]  # weights are [in, out]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    allowed = torch.ones(length, length, dtype=torch.bool).tril() & mask[:, None, None, :].bool()
    x = w["wte.weight"][ids] + w["wpe.weight"][:length]
    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        qkv = conv(norm(x, p + "ln_1"), p + "attn.c_attn")
        q, k, v = (part.view(rows, length, heads, -1).transpose(1, 2) for part in qkv.split(width, -1))
        scores = (q @ k.transpose(-1, -2)) * (width // heads) ** -0.5
        context = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
        x = x + conv(context.transpose(1, 2).reshape(rows, length, width), p + "attn.c_proj")
        x = x + conv(gelu(conv(norm(x, p + "ln_2"), p + "mlp.c_fc")), p + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def main():
    tiny.set_up()
    weights = tiny.store_weights(NAME, tiny.spread_weights(GPT2LMHeadModel, CONFIG, SEED))
    assert "lm_head.weight" not in weights
    width, vocabulary = CONFIG["n_embd"], CONFIG["vocab_size"]
    assert weights["transformer.h.0.attn.c_attn.weight"].shape == (width, 3 * width)
    assert weights["transformer.h.0.mlp.c_fc.weight"].shape == (width, 4 * width)
    ids, mask = tiny.batch(SEED + 1, vocabulary, LENGTHS)
    labels = torch.where(mask == 1, ids, -100)
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    model, output, rows = tiny.backward(GPT2LMHeadModel, CONFIG, weights, **inputs)

    # Check the claims of the module docstring.
    assert tiny.max_difference(reference_logits(weights, CONFIG, ids, mask), output.logits) < 1e-13
    shifted = cross_entropy(output.logits.flatten(0, 1), pad(labels, (0, 1), value=-100)[:, 1:].flatten())
    assert tiny.max_difference(shifted, output.loss) < 1e-15
    real = mask == 1
    other = tiny.float64_logits(model, input_ids=tiny.scrambled(ids, mask, vocabulary), attention_mask=mask)
    assert torch.equal(other[real], output.logits[real]) and not torch.equal(other, output.logits)
    unmasked = tiny.float64_logits(model, input_ids=ids)  # without a padding mask: the causal mask hides padding on the right
    assert tiny.max_difference(unmasked[real], output.logits[real]) < 1e-13
    assert all(row["norm"] > 1e-4 for row in rows), rows
    state = dict(model.named_parameters())
    for layer in range(CONFIG["n_layer"]):
        gradient = state[f"transformer.h.{layer}.attn.c_attn.bias"].grad
        assert gradient[width:2 * width].abs().max() < 1e-13 < 1e-4 < gradient.norm()
    gradient = state["transformer.wpe.weight"].grad
    assert gradient[:max(LENGTHS) - 1].abs().amax(1).min() > 1e-6 and gradient[max(LENGTHS) - 1:].abs().max() == 0
    logits, loss = tiny.unpatched_outputs(GPT2LMHeadModel, CONFIG, weights, **inputs)
    assert torch.equal(logits, output.logits) and loss.dtype == torch.float32  # transformers uses f32 only in the loss

    tokens, steps = tiny.greedy(model, PROMPT)
    f32, f32_rows = tiny.float32_logits(GPT2LMHeadModel, CONFIG, weights, **inputs)
    tiny.write_json(NAME, "gpt2.py", SEED, CONFIG, {
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist(), "prompt": PROMPT,
        "float64": {
            "logits": output.logits.tolist(), "loss": output.loss.item(), "gradients": rows, "greedy": tokens,
            "steps": steps,
        },
        "float32": {"logits": f32_rows},
    })
    print(f"{NAME}: loss {output.loss.item():.6f}; f32 logits within {tiny.max_difference(f32, output.logits):.1e}; "
          f"greedy {tokens}")


if __name__ == "__main__":
    main()
