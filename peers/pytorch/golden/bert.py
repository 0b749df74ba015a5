#!/usr/bin/env python3
"""Reference numbers for BERT, computed by PyTorch and transformers.

Writes crates/workloads/tests/golden/bert-{classes,mlm}.{safetensors,json}. Nothing in them comes from Mantissa.

Computation of the reference, from transformers 5.23.0 (models/bert/modeling_bert.py, activations.py,
masking_utils.py). The script checks it against `encoded`, `classes` and `mlm`, which reimplement it without transformers:

Embeddings   word + token type (all 0 here) + learned position (0, 1, 2, ..., whatever the mask), then LayerNorm, then
             dropout(`hidden_dropout_prob`). `padding_idx` is `pad_token_id` (0): its row gets no gradient from lookups.
Attention    softmax(Q K^T * head_dim^-0.5 + mask) V, then output.dense. Q, K, V and output.dense have biases; weights are [out, in].
             Dropout(`attention_probs_dropout_prob`) on the probabilities, `hidden_dropout_prob` after output.dense.
Mask         bidirectional, [batch, 1, query, key], added to the scores: 0 where the key is a real token, and
             finfo(dtype).min where it is padding, which leaves a probability of exactly 0. Padded queries attend to the
             real keys, but their results are not used. Without a mask, all tokens are real.
Block        post-norm: x = attention.output.LayerNorm(attention(x) + x); x = output.LayerNorm(ffn(x) + x), where
             ffn = output.dense(gelu(intermediate.dense(x))), then dropout(`hidden_dropout_prob`). No last norm.
LayerNorm    eps `layer_norm_eps` (1e-12), biased variance, with weight and bias, also in the head of the language model.
GELU         `gelu` is the exact x * Phi(x) by erf.
Classes      output of the last block at the first position -> bert.pooler.dense -> tanh -> dropout(`classifier_dropout`, or
             `hidden_dropout_prob` where that is null) -> classifier. Mean cross-entropy over the batch.
Masked LM    output at every position -> transform.dense -> gelu -> transform.LayerNorm -> the embedding table (decoder.weight is
             tied to it and not stored) + cls.predictions.bias (decoder.bias is tied to it and not stored). No pooler.
             Mean cross-entropy over the positions whose label is not -100; no shift.

transformers does not force any operation into f32.

Facts for tests: the gradient of every `self.key.bias` is 0 in exact arithmetic, so its values and its entry "largest" are
rounding noise. The gradients of token type 1 and of positions after the end of the sequence are 0. The gradient of the padding
token is 0 for classes, but not for the masked LM, whose head computes a logit for that token.
"""

import math

import torch
from torch.nn.functional import cross_entropy, gelu, layer_norm
from transformers import BertForMaskedLM, BertForSequenceClassification

import tiny

SEED = 20240621
COMMON = {
    "model_type": "bert", "vocab_size": 43, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "hidden_act": "gelu", "max_position_embeddings": 16, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "pad_token_id": 0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}
CLASSES = {**COMMON, "classifier_dropout": None, "num_labels": 3}
MLM = {**COMMON, "tie_word_embeddings": True}
LENGTHS = [8, 5, 3]  # real tokens per row
LABELS = [2, 0, 1]
MASKED = [(0, 1), (0, 6), (1, 3), (2, 0)]  # (row, position) of each token that the masked language model predicts
MASK_TOKEN = 4


def encoded(weights, config, ids, mask):
    """Computes the last hidden states of the module docstring without transformers."""
    w = {name.removeprefix("bert."): value.double() for name, value in weights.items()}
    width, heads = config["hidden_size"], config["num_attention_heads"]
    rows, length = ids.shape

    def norm(x, name):
        return layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], config["layer_norm_eps"])

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    p = "embeddings."
    x = w[p + "word_embeddings.weight"][ids] + w[p + "token_type_embeddings.weight"][0]
    x = norm(x + w[p + "position_embeddings.weight"][:length], p + "LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}."
        q, k, v = (
            linear(x, p + f"attention.self.{name}").view(rows, length, heads, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        scores = (q @ k.transpose(-1, -2)) * (width // heads) ** -0.5
        context = scores.masked_fill(mask[:, None, None, :] == 0, -math.inf).softmax(-1) @ v
        context = context.transpose(1, 2).reshape(rows, length, width)
        x = norm(linear(context, p + "attention.output.dense") + x, p + "attention.output.LayerNorm")
        h = gelu(linear(x, p + "intermediate.dense"))
        x = norm(linear(h, p + "output.dense") + x, p + "output.LayerNorm")
    return x


def classes(weights, config, ids, mask):
    w = {name: value.double() for name, value in weights.items()}
    first = encoded(weights, config, ids, mask)[:, 0]
    pooled = torch.tanh(first @ w["bert.pooler.dense.weight"].T + w["bert.pooler.dense.bias"])
    return pooled @ w["classifier.weight"].T + w["classifier.bias"]


def mlm(weights, config, ids, mask):
    w = {name: value.double() for name, value in weights.items()}
    p = "cls.predictions."
    x = encoded(weights, config, ids, mask)
    x = gelu(x @ w[p + "transform.dense.weight"].T + w[p + "transform.dense.bias"])
    norm = w[p + "transform.LayerNorm.weight"], w[p + "transform.LayerNorm.bias"]
    x = layer_norm(x, (config["hidden_size"],), *norm, config["layer_norm_eps"])
    return x @ w["bert.embeddings.word_embeddings.weight"].T + w[p + "bias"]


def case(name, kind, config, seed, reference_logits):
    weights = tiny.store_weights(name, tiny.spread_weights(kind, config, seed))
    masked_lm = kind is BertForMaskedLM
    ids, mask = tiny.batch(seed + 1, config["vocab_size"], LENGTHS)
    if masked_lm:
        labels = torch.full_like(ids, -100)
        for at in MASKED:
            labels[at], ids[at] = ids[at].item(), MASK_TOKEN
    else:
        labels = torch.tensor(LABELS)
    types = torch.zeros_like(ids)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "labels": labels}
    model, output, rows = tiny.backward(kind, config, weights, **inputs)

    # Check the claims of the module docstring.
    assert tiny.max_difference(reference_logits(weights, config, ids, mask), output.logits) < 1e-13
    loss = cross_entropy(output.logits.flatten(0, -2), labels.flatten())
    assert tiny.max_difference(loss, output.loss) < 1e-15
    other = tiny.float64_logits(model, input_ids=tiny.scrambled(ids, mask, config["vocab_size"]), attention_mask=mask)
    real = mask == 1 if masked_lm else slice(None)
    assert torch.equal(other[real], output.logits[real])
    assert not torch.equal(tiny.float64_logits(model, input_ids=ids)[real], output.logits[real])  # without the mask, the logits differ
    for row in rows:
        noise = row["name"].endswith("self.key.bias")
        assert (row["norm"] < 1e-13) if noise else (row["norm"] > 1e-4), row
    embeddings = model.bert.embeddings
    assert (embeddings.word_embeddings.weight.grad[0].abs().max() == 0) != masked_lm
    assert embeddings.token_type_embeddings.weight.grad[1].abs().max() == 0
    assert embeddings.position_embeddings.weight.grad[max(LENGTHS):].abs().max() == 0
    logits, loss = tiny.unpatched_outputs(kind, config, weights, **inputs)
    assert torch.equal(logits, output.logits) and torch.equal(loss, output.loss)  # transformers does not force any operation into f32

    f32, f32_rows = tiny.float32_logits(kind, config, weights, **inputs)
    tiny.write_json(name, "bert.py", seed, config, {
        "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "token_type_ids": types.tolist(),
        "labels": labels.tolist(),
        "float64": {"logits": output.logits.tolist(), "loss": output.loss.item(), "gradients": rows},
        "float32": {"logits": f32_rows},
    })
    print(f"{name}: loss {output.loss.item():.6f}; f32 logits within {tiny.max_difference(f32, output.logits):.1e}")


def main():
    tiny.set_up()
    case("bert-classes", BertForSequenceClassification, CLASSES, SEED, classes)
    case("bert-mlm", BertForMaskedLM, MLM, SEED + 10, mlm)


if __name__ == "__main__":
    main()
