#!/usr/bin/env python3
"""Reference numbers for Llama, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/llama-{grouped,tied}.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, from transformers 5.23.0 (models/llama/modeling_llama.py, modeling_rope_utils.py,
masking_utils.py, loss/loss_utils.py). The script checks it against `reference_logits`, which reimplements it without transformers:

Embeddings   word only, not scaled. Positions are encoded by rotation, in every layer.
RMSNorm      weight * (x / sqrt(mean(x^2) + eps)), eps inside the root (`rms_norm_eps`), no mean subtracted, no bias. The
             weight is applied last.
Block        pre-norm: x = x + attention(input_layernorm(x)); x = x + mlp(post_attention_layernorm(x)). A last norm
             (`model.norm`) before the head. Only the attention probabilities have dropout.
Attention    Linear maps without biases, stored [out, in]. Head h is rows h * head_dim .. (h + 1) * head_dim of q_proj.
             With fewer key-value heads than heads, head h reads key-value head h / (heads / kv heads), rounded down.
             `head_dim` is hidden_size / heads if the config does not contain it. heads * head_dim may differ from the
             hidden size; o_proj maps back to it. softmax(Q K^T * head_dim^-0.5 + mask) V.
Rotation     of Q and K, after the projection, before the cache; not of V. Dimension i of a head rotates with dimension
             i + head_dim / 2 (halves, not neighbours): (a, b) -> (a cos - b sin, b cos + a sin) by the angle
             position * frequency_i, where frequency_i = theta^(-2 i / head_dim). Positions are 0, 1, 2, ..., independent of
             the mask. (`generate` counts only real tokens, which is equivalent with padding on the right.)
Llama 3      `rope_type: llama3` reduces each frequency to keep * frequency + (1 - keep) * frequency / factor, where
             keep = (waves - low_freq_factor) / (high_freq_factor - low_freq_factor) clamped to 0..1, and
             waves = original_max_position_embeddings * frequency / (2 pi). This does not depend on the sequence
             length. cos and sin are not scaled.
Mask         [batch, 1, query, key], added to the scores: 0 where the key is a real token not after the query, and
             finfo(dtype).min elsewhere, which leaves a probability of exactly 0. With padding on the right, the padding
             mask does not affect real queries. Padded queries attend to the real keys, but their results are not used.
MLP          down_proj(silu(gate_proj(x)) * up_proj(x)), no biases.
Head         lm_head without bias. With `tie_word_embeddings`, it is the embedding table, whose gradient is then the sum of both.
Loss         position t's logits against label t + 1, mean over the labels that are not -100 (of the whole batch, not of
             each row). The labels written here are not shifted: the model does it.

For a model in f64, transformers computes RMSNorm (except the multiplication by the weight), the frequencies, angles, cos and
sin, the softmax, and the loss in f32. This script computes its float64 numbers entirely in f64; otherwise their error would be
2e-6. The float32 logits are those of unmodified transformers.

`rope_theta` and `rope_scaling` are written as in published config.json files. transformers 5 itself writes them as one
object, `rope_parameters` {rope_theta, rope_type, factor, ...}.
"""

import math
from copy import deepcopy

import torch
from torch.nn.functional import cross_entropy, pad, silu
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import tiny

SEED = 20240601
COMMON = {
    "model_type": "llama", "vocab_size": 43, "num_hidden_layers": 2, "hidden_act": "silu", "attention_bias": False,
    "mlp_bias": False, "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}
CASES = {
    "llama-grouped": {
        **COMMON, "hidden_size": 24, "intermediate_size": 37, "num_attention_heads": 6, "num_key_value_heads": 2,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None,
        "tie_word_embeddings": False,
    },
    "llama-tied": {
        **COMMON, "hidden_size": 20, "intermediate_size": 37, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 6, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        "tie_word_embeddings": True,
    },
}
# Llama 3 changes all frequencies of the tiny case: the longest unchanged wavelength is 16 / 4 = 4, below 2 pi. The
# configuration of Llama 3.1 8B has frequencies that are unchanged, interpolated and divided by the factor.
LLAMA_3_1 = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
LENGTHS = [8, 5, 3]  # real tokens per row
PROMPT = [17, 4, 31, 9, 26]


def inverse_frequencies(config):
    """Returns one frequency for each pair of dimensions of a head, by the module docstring."""
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    scaling = config["rope_scaling"]
    result = []
    for pair in range(head_dim // 2):
        frequency = 1.0 / config["rope_theta"] ** (2 * pair / head_dim)
        if scaling:
            waves = scaling["original_max_position_embeddings"] / (2 * math.pi / frequency)
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            keep = min(max((waves - low) / (high - low), 0.0), 1.0)
            frequency = (1 - keep) * frequency / scaling["factor"] + keep * frequency
        result.append(frequency)
    return result


def reference_logits(weights, config, ids, mask):
    """Computes the logits of the module docstring without transformers."""
    w = {name: value.double() for name, value in weights.items()}
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rows, length = ids.shape

    angles = torch.arange(length)[:, None] * torch.tensor(inverse_frequencies(config), dtype=torch.float64)

    def norm(x, name):
        return w[name] * (x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt())

    def split(x, count):
        return x.view(rows, length, count, head_dim).transpose(1, 2)

    def rotate(x):
        a, b = x.chunk(2, -1)  # dimension i rotates with dimension i + head_dim / 2
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    allowed = torch.ones(length, length, dtype=torch.bool).tril() & mask[:, None, None, :].bool()
    embedding = w["model.embed_tokens.weight"]
    x = embedding[ids]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(x, p + "input_layernorm.weight")
        q = rotate(split(h @ w[p + "self_attn.q_proj.weight"].T, heads))
        k = rotate(split(h @ w[p + "self_attn.k_proj.weight"].T, groups)).repeat_interleave(heads // groups, 1)
        v = split(h @ w[p + "self_attn.v_proj.weight"].T, groups).repeat_interleave(heads // groups, 1)
        scores = (q @ k.transpose(-1, -2)) * head_dim ** -0.5
        context = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
        x = x + context.transpose(1, 2).reshape(rows, length, -1) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, p + "post_attention_layernorm.weight")
        gate, up = (h @ w[p + f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w.get("lm_head.weight", embedding).T


def case(name, config, seed):
    weights = tiny.store_weights(name, tiny.spread_weights(LlamaForCausalLM, config, seed))
    assert ("lm_head.weight" in weights) == (not config["tie_word_embeddings"])
    ids, mask = tiny.batch(seed + 1, config["vocab_size"], LENGTHS)
    labels = torch.where(mask == 1, ids, -100)
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    model, output, rows = tiny.backward(LlamaForCausalLM, config, weights, **inputs)

    # Check the claims of the module docstring.
    frequencies = torch.tensor(inverse_frequencies(config), dtype=torch.float64)
    assert tiny.max_difference(model.model.rotary_emb.inv_freq / frequencies, torch.ones(())) < 1e-15
    assert model.model.rotary_emb.attention_scaling == 1.0
    assert tiny.max_difference(reference_logits(weights, config, ids, mask), output.logits) < 1e-13
    shifted = cross_entropy(output.logits.flatten(0, 1), pad(labels, (0, 1), value=-100)[:, 1:].flatten())
    assert tiny.max_difference(shifted, output.loss) < 1e-15
    other = tiny.float64_logits(model, input_ids=tiny.scrambled(ids, mask, config["vocab_size"]), attention_mask=mask)
    real = mask == 1
    assert torch.equal(other[real], output.logits[real]) and not torch.equal(other, output.logits)
    unmasked = tiny.float64_logits(model, input_ids=ids)  # without a padding mask: the causal mask hides padding on the right
    assert tiny.max_difference(unmasked[real], output.logits[real]) < 1e-13
    assert all(row["norm"] > 1e-4 for row in rows), rows
    logits, loss = tiny.unpatched_outputs(LlamaForCausalLM, config, weights, **inputs)
    assert 1e-9 < tiny.max_difference(logits, output.logits) < 1e-5 and loss.dtype == torch.float32

    tokens, steps = tiny.greedy(model, PROMPT)
    f32, f32_rows = tiny.float32_logits(LlamaForCausalLM, config, weights, **inputs)
    tables = {"inverse_frequencies": frequencies.tolist()}
    if config["rope_scaling"]:
        with tiny.computing_in_float64():
            rotary = LlamaConfig(**{k: v for k, v in deepcopy(LLAMA_3_1).items() if k != "model_type"})
            table, _ = ROPE_INIT_FUNCTIONS["llama3"](rotary, "cpu")
        assert table.dtype == torch.float64
        reference_table = torch.tensor(inverse_frequencies(LLAMA_3_1), dtype=torch.float64)
        assert tiny.max_difference(reference_table / table, torch.ones(())) < 1e-15
        tables["llama_3_1_8b"] = {"config": LLAMA_3_1, "inverse_frequencies": reference_table.tolist()}
    tiny.write_json(name, "llama.py", seed, config, {
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist(), "prompt": PROMPT,
        "float64": {
            "logits": output.logits.tolist(), "loss": output.loss.item(), "gradients": rows, "greedy": tokens,
            "steps": steps, **tables,
        },
        "float32": {"logits": f32_rows},
    })
    print(f"{name}: loss {output.loss.item():.6f}; f32 logits within {tiny.max_difference(f32, output.logits):.1e}; "
          f"f32 inside f64 costs {tiny.max_difference(logits, output.logits):.1e}; greedy {tokens}")


def main():
    tiny.set_up()
    for at, (name, config) in enumerate(CASES.items()):
        case(name, config, SEED + 10 * at)


if __name__ == "__main__":
    main()
