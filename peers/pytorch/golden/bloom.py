#!/usr/bin/env python3
"""Reference numbers for BLOOM, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/bloom-{lm,classes}.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, from transformers 5.23.0 (models/bloom/modeling_bloom.py, masking_utils.py,
loss/loss_utils.py). The script checks it against `last_hidden`, `lm` and `classes`, which reimplement it without
transformers:

Embeddings   word, then LayerNorm (`word_embeddings_layernorm`). No positions, no dropout, no padding index.
Block        pre-norm: x = x + attention(input_layernorm(x)); x = x + mlp(post_attention_layernorm(x)). A last norm
             (`ln_f`). With `apply_residual_connection_post_layernorm` (false here, as in the published models) the
             residual would be added to the norms' outputs.
LayerNorm    eps `layer_norm_epsilon` (1e-5), biased variance, with weight and bias.
Attention    query_key_value is fused by head: its output, viewed as [heads, 3, head_dim], contains Q, K and V of the
             first head, then Q, K and V of the second, and so on. softmax(Q K^T * head_dim^-0.5 + alibi + mask) V, then
             dense. Both layers have biases; weights are [out, in]. Dropout(`attention_dropout`) on the probabilities,
             `hidden_dropout` on what is added to the residual.
ALiBi        slope of the head * position of the key, where the position is (cumsum(mask) - 1) * mask: 0, 1, 2, ... over
             the real tokens, 0 on padding. The position of the key is equivalent to its distance from the query, because
             softmax ignores a constant that all keys of a query share. ALiBi is not scaled by head_dim.
Slopes       with P the largest power of two not above the number of heads: 2^(-8 i / P) for i = 1..P, then
             2^(-4 j / P) for j = 1, 3, 5, ... for the other heads. Three heads: 2^-4, 2^-8, 2^-2.
Mask         [batch, 1, query, key], added to the scores after ALiBi: 0 where the key is a real token not after the
             query, and finfo(dtype).min elsewhere, which leaves a probability of exactly 0. With padding on the right,
             the padding mask does not affect real queries.
MLP          dense_4h_to_h(gelu(dense_h_to_4h(x))), 4 hidden_size wide, with biases.
GELU         0.5 x (1 + tanh(0.79788456 x (1 + 0.044715 x^2))), sqrt(2 / pi) truncated to eight digits. Its gradient is
             written by hand, with 0.1070322243 for the product of the constants. It differs by at most 2e-12 from
             automatic differentiation.
LM           the embedding table (`lm_head.weight` is `transformer.word_embeddings.weight`, stored once), no bias.
             Position t's logits against label t + 1, mean over the labels that are not -100 (of the whole batch, not of
             each row). The labels written here are not shifted: the model does it.
Classes      `score`, without bias, at the last position whose token id is not `pad_token_id`; the attention mask is not
             used. (A row of padding only would take position 0; without a `pad_token_id` only one row is allowed, and
             its last position is taken.) Mean cross-entropy over the batch.

For a model in f64, transformers computes the slopes and ALiBi, the softmax, and the loss of the LM (not that of the classes)
in f32. This script computes its float64 numbers entirely in f64; otherwise their error would be 4e-7. GELU and its gradient also
use sqrt(2 / pi) with all digits, as in GPT-2. The eight digits make no difference in f32, but change f64 logits by 1e-9. The
float32 logits are those of unmodified transformers.

Fact for tests: the gradient of K's part of every `query_key_value.bias` is 0 in exact arithmetic.
"""

import math
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy, layer_norm, pad
from transformers import BloomForCausalLM, BloomForSequenceClassification
from transformers.models.bloom import modeling_bloom

import tiny

SEED = 20240635  # with this seed, the greedy tokens vary; with most others, one token repeats
COMMON = {
    "model_type": "bloom", "vocab_size": 43, "hidden_size": 21, "n_layer": 2, "n_head": 3, "layer_norm_epsilon": 1e-5,
    "apply_residual_connection_post_layernorm": False, "hidden_dropout": 0.0, "attention_dropout": 0.0,
    "pretraining_tp": 1, "slow_but_exact": False, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 3,
}
LM = {**COMMON, "tie_word_embeddings": True}
CLASSES = {**COMMON, "num_labels": 3}
LENGTHS = [8, 5, 3]  # real tokens per row
LABELS = [2, 0, 1]
PROMPT = [17, 4, 31, 9, 26]


def full_root():
    """Context in which transformers' GELU and its gradient use the full sqrt(2 / pi)."""
    def full(x):
        return torch.nn.functional.gelu(x, approximate="tanh")
    return patch.object(modeling_bloom.GeLUFunction, "apply", full)


def slopes(heads):
    """Returns ALiBi's slope of each head, by the module docstring."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    return first + [2.0 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]


def last_hidden(weights, config, ids, mask):
    """Computes the hidden states after the last norm of the module docstring without transformers."""
    w = {name.removeprefix("transformer."): value.double() for name, value in weights.items()}
    width, heads = config["hidden_size"], config["n_head"]
    rows, length = ids.shape

    def norm(x, name):
        return layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], config["layer_norm_epsilon"])

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))

    places = (mask.cumsum(-1) - 1) * mask
    alibi = torch.tensor(slopes(heads), dtype=torch.float64)[:, None, None] * places[:, None, None, :]
    allowed = torch.ones(length, length, dtype=torch.bool).tril() & mask[:, None, None, :].bool()
    x = norm(w["word_embeddings.weight"][ids], "word_embeddings_layernorm")
    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        fused = linear(norm(x, p + "input_layernorm"), p + "self_attention.query_key_value")
        q, k, v = fused.view(rows, length, heads, 3, width // heads).permute(3, 0, 2, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (width // heads) ** -0.5 + alibi
        context = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
        x = x + linear(context.transpose(1, 2).reshape(rows, length, width), p + "self_attention.dense")
        h = gelu(linear(norm(x, p + "post_attention_layernorm"), p + "mlp.dense_h_to_4h"))
        x = x + linear(h, p + "mlp.dense_4h_to_h")
    return norm(x, "ln_f")


def lm(weights, config, ids, mask):
    return last_hidden(weights, config, ids, mask) @ weights["transformer.word_embeddings.weight"].double().T


def classes(weights, config, ids, mask):
    scores = last_hidden(weights, config, ids, mask) @ weights["score.weight"].double().T
    last = [max(i for i, token in enumerate(row) if token != config["pad_token_id"]) for row in ids.tolist()]
    return scores[torch.arange(len(last)), last]


def case(name, kind, config, seed, reference_logits):
    weights = tiny.store_weights(name, tiny.spread_weights(kind, config, seed))
    assert "lm_head.weight" not in weights
    vocabulary, heads, padding = config["vocab_size"], config["n_head"], config["pad_token_id"]
    causal_lm = kind is BloomForCausalLM
    ids, mask = tiny.batch(seed + 1, vocabulary, LENGTHS, padding)
    labels = torch.where(mask == 1, ids, -100) if causal_lm else torch.tensor(LABELS)
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    with full_root():
        model, output, rows = tiny.backward(kind, config, weights, **inputs)

    # Check the claims of the module docstring.
    assert tiny.max_difference(reference_logits(weights, config, ids, mask), output.logits) < 1e-13
    wanted = pad(labels, (0, 1), value=-100)[:, 1:] if causal_lm else labels
    assert tiny.max_difference(cross_entropy(output.logits.flatten(0, -2), wanted.flatten()), output.loss) < 1e-15
    moved = tiny.scrambled(ids, mask, vocabulary)
    real = mask == 1
    with full_root(), tiny.computing_in_float64(), torch.no_grad():
        hidden, other = (model.transformer(i, attention_mask=mask).last_hidden_state for i in (ids, moved))
        alone = model.transformer(ids).last_hidden_state  # without a padding mask: the causal mask hides padding on the right
    assert torch.equal(other[real], hidden[real]) and not torch.equal(other, hidden)
    assert tiny.max_difference(alone[real], hidden[real]) < 1e-13
    with full_root():
        other = tiny.float64_logits(model, input_ids=moved, attention_mask=mask)
    if causal_lm:
        assert torch.equal(other[real], output.logits[real])
    else:  # the last token is found by its id, not by the mask
        assert torch.equal(other[0], output.logits[0]) and tiny.max_difference(other[1:], output.logits[1:]) > 1e-3
    state = dict(model.named_parameters())
    for row in rows:
        assert row["norm"] > 1e-4, row
    for layer in range(config["n_layer"]):
        gradient = state[f"transformer.h.{layer}.self_attention.query_key_value.bias"].grad
        assert gradient.view(heads, 3, -1)[:, 1].abs().max() < 1e-13
    written, cut, _ = tiny.backward(kind, config, weights, **inputs)  # with the eight digits and the handwritten gradient
    cut_off = tiny.max_difference(cut.logits, output.logits)
    assert 1e-11 < cut_off < 1e-8, cut_off
    with patch.object(modeling_bloom.GeLUFunction, "apply", modeling_bloom.bloom_gelu_forward):
        automatic, _, _ = tiny.backward(kind, config, weights, **inputs)
    state = dict(written.named_parameters())
    by_hand = max(tiny.max_difference(p.grad, state[n].grad) for n, p in automatic.named_parameters())
    assert 0 < by_hand < 1e-8, by_hand
    logits, loss = tiny.unpatched_outputs(kind, config, weights, **inputs)
    assert 1e-9 < tiny.max_difference(logits, output.logits) < 1e-5
    assert loss.dtype == (torch.float32 if causal_lm else torch.float64)

    f32, f32_rows = tiny.float32_logits(kind, config, weights, **inputs)
    content = {
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist(),
        "float64": {
            "logits": output.logits.tolist(), "loss": output.loss.item(), "gradients": rows, "slopes": slopes(heads),
        },
        "float32": {"logits": f32_rows},
    }
    note = ""
    if causal_lm:
        with full_root():
            tokens, steps = tiny.greedy(model, PROMPT)
        content["prompt"] = PROMPT
        content["float64"].update(greedy=tokens, steps=steps)
        note = f"; greedy {tokens}"
    tiny.write_json(name, "bloom.py", seed, config, content)
    print(f"{name}: loss {output.loss.item():.6f}; f32 logits within {tiny.max_difference(f32, output.logits):.1e}; f32 inside "
          f"f64 costs {tiny.max_difference(logits, output.logits):.1e}; the GELU's digits {cut_off:.1e}, its own gradient "
          f"{by_hand:.1e}{note}")


def main():
    tiny.set_up()
    case("bloom-lm", BloomForCausalLM, LM, SEED, lm)
    case("bloom-classes", BloomForSequenceClassification, CLASSES, SEED + 10, classes)


if __name__ == "__main__":
    main()
