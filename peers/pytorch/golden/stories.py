#!/usr/bin/env python3
"""Prints results of llama2.c's stories260K in PyTorch, in f64 and f32: greedy text, and its loss on given stories.

  stories.py CHECKPOINT.bin TOKENIZER.bin TEXT.txt

Writes JSON to stdout, and does not write into the repository. The computation follows karpathy/llama2.c (run.c, model.py,
export.py, tinystories.py), MIT:

Checkpoint   llama2.c's legacy format, little-endian: seven i32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads,
             vocab_size, seq_len; a negative vocab_size means that the classifier is not tied), then f32 tensors, each for
             all layers: token embeddings [vocab, dim], attention norms [layers, dim], wq [layers, dim,
             dim], wk and wv [layers, n_kv_heads * head, dim], wo [layers, dim, dim], norms before the feed-forward
             [layers, dim], w1 [layers, hidden, dim], w2 [layers, dim, hidden], w3 [layers, hidden, dim], final norm
             [dim], cosines and sines of the rotary embedding [seq_len, head / 2] (skipped), and the classifier [vocab,
             dim] if it is not tied. Matrices are [out, in]. No biases.
Norm         x / sqrt(mean(x^2) + 1e-5) * weight.
Block        x = x + wo(attention(norm(x))); x = x + w2(silu(w1(y)) * w3(y)) with y = norm(x).
Rotary       of adjacent pairs in each head of q and k, not of v: pair i, (a, b), at position p becomes (a cos - b sin,
             a sin + b cos) with the angle p * 10000^(-2 i / head). Positions start at 0.
Attention    causal, scores / sqrt(head). Query head h reads key and value head h // (n_heads / n_kv_heads).
Logits       final norm, then the classifier, which is the token embeddings if it is tied.

Tokenizer    llama2.c's format: i32 max_token_length, then for each token f32 score, i32 length, bytes. Id 0 is <unk>, 1 BOS,
             2 EOS, and 3 + b the byte b, written as in `<0x41>`.
Encoding     BOS; then, unless the text is empty, the token of a space; then for each character of the text its token, or,
             if it is not a token, the tokens of its UTF-8 bytes. Then, as long as two neighbours together form a token,
             merge the pair with the highest score, or the first one of equal pairs. No EOS.
Decoding     one space at the start of the token after BOS is dropped. `<0x41>` is decoded to the byte. Generation takes the
             first of the largest logits and stops early at BOS or EOS.

Stories      TEXT split at `<|endoftext|>`, each part stripped of whitespace at both ends, empty parts dropped.
NLL          of a story: BOS and its tokens in one pass from position 0, without other stories in the context. Each token
             after BOS is scored given all tokens before it, with the natural logarithm. BOS and the end of the story are not
             scored. `mean_nll` is the sum over all stories divided by the number of all scored tokens.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

BOS, EOS, BYTES = 1, 2, 3
GENERATED = 60


class Llama:
    def __init__(self, path, dtype):
        data = Path(path).read_bytes()
        self.dim, hidden, self.layers, self.heads, self.kv_heads, vocab, self.length = struct.unpack("<7i", data[:28])
        self.head = self.dim // self.heads
        values, at = torch.from_numpy(np.frombuffer(data[28:], "<f4").copy()), 0

        def take(*shape):
            nonlocal at
            at += math.prod(shape)
            return values[at - math.prod(shape):at].view(shape).to(dtype)

        layers, dim, kv = self.layers, self.dim, self.kv_heads * self.head
        self.embeddings = take(abs(vocab), dim)
        self.attention_norm = take(layers, dim)
        self.wq, self.wk, self.wv, self.wo = (take(layers, *s) for s in [(dim, dim), (kv, dim), (kv, dim), (dim, dim)])
        self.ffn_norm = take(layers, dim)
        self.w1, self.w2, self.w3 = (take(layers, *s) for s in [(hidden, dim), (dim, hidden), (hidden, dim)])
        self.final_norm = take(dim)
        cosines, sines = take(self.length, self.head // 2), take(self.length, self.head // 2)
        self.classifier = take(-vocab, dim) if vocab < 0 else self.embeddings
        assert at == len(values), "the file contains more numbers than the header declares"

        # Angles in f64, rounded once. The file's own tables differ by the f32 rounding of large angles.
        angles = torch.arange(self.length)[:, None] * 10000.0 ** (-torch.arange(0, self.head, 2).double() / self.head)
        self.cosines, self.sines = angles.cos().to(dtype), angles.sin().to(dtype)
        assert (self.cosines - cosines).abs().max() < 1e-4 and (self.sines - sines).abs().max() < 1e-4

    def rotated(self, x):
        """Applies the rotary embedding to [heads, tokens, head]."""
        a, b = x[..., 0::2], x[..., 1::2]
        cosines, sines = self.cosines[:x.shape[1]], self.sines[:x.shape[1]]
        return torch.stack((a * cosines - b * sines, a * sines + b * cosines), -1).flatten(-2)

    def logits(self, tokens):
        """Returns the logits of the token after each token, [tokens, vocab]."""
        assert len(tokens) <= self.length
        x = self.embeddings[torch.tensor(tokens)]
        later = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
        for layer in range(self.layers):
            y = norm(x, self.attention_norm[layer])
            q, k, v = (
                (y @ w[layer].T).view(len(tokens), -1, self.head).transpose(0, 1) for w in (self.wq, self.wk, self.wv)
            )
            q, k = self.rotated(q), self.rotated(k)
            k, v = (z.repeat_interleave(self.heads // self.kv_heads, 0) for z in (k, v))
            scores = (q @ k.transpose(1, 2) / self.head**0.5).masked_fill(later, -torch.inf)
            y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(tokens), self.dim)
            x = x + y @ self.wo[layer].T
            y = norm(x, self.ffn_norm[layer])
            x = x + (F.silu(y @ self.w1[layer].T) * (y @ self.w3[layer].T)) @ self.w2[layer].T
        return norm(x, self.final_norm) @ self.classifier.T


def norm(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


class Tokenizer:
    def __init__(self, path, count):
        data = Path(path).read_bytes()
        self.pieces, self.scores, at = [], [], 4
        for _ in range(count):
            score, length = struct.unpack_from("<fi", data, at)
            self.pieces.append(data[at + 8:at + 8 + length])
            self.scores.append(score)
            at += 8 + length
        assert at == len(data)
        self.ids = {piece: token for token, piece in enumerate(self.pieces)}
        assert len(self.ids) == count, "two tokens have the same spelling"
        assert all(self.pieces[BYTES + byte] == b"<0x%02X>" % byte for byte in range(256))

    def encode(self, text):
        tokens = [self.ids[b" "]] if text else []
        for character in text:
            spelled = character.encode()
            tokens += [self.ids[spelled]] if spelled in self.ids else [BYTES + byte for byte in spelled]
        while True:
            pairs = (self.ids.get(self.pieces[a] + self.pieces[b]) for a, b in zip(tokens, tokens[1:]))
            best = max(((self.scores[t], -at, t) for at, t in enumerate(pairs) if t is not None), default=None)
            if best is None:
                return [BOS, *tokens]
            tokens[-best[1]:2 - best[1]] = [best[2]]

    def decode(self, tokens):
        out, before = b"", None
        for token in tokens:
            piece = self.pieces[token]
            if before == BOS:
                piece = piece.removeprefix(b" ")
            if BYTES <= token < BYTES + 256:
                piece = bytes([token - BYTES])
            out += b"" if token == BOS else piece
            before = token
        return out.decode()


def greedy(model, count):
    tokens, leads = [BOS], []
    while len(tokens) <= count:
        best = model.logits(tokens)[-1].topk(2)
        if best.indices[0] in (BOS, EOS):
            break
        tokens.append(best.indices[0].item())
        leads.append((best.values[0] - best.values[1]).item())
    return tokens, min(leads)


def score(model, stories):
    nll = []
    for tokens in stories:
        log_probs = model.logits(tokens[:-1]).log_softmax(-1)
        nll.append(-log_probs.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0])
    scored = sum(len(losses) for losses in nll)
    return {
        "mean_nll": sum(losses.double().sum().item() for losses in nll) / scored,
        "stories": [losses.double().mean().item() for losses in nll],
        "first_nll": [losses[:4].tolist() for losses in nll],
    }


def main():
    torch.set_num_threads(1)  # one thread, so that sums have one order
    torch.set_grad_enabled(False)
    checkpoint, tokens, text = sys.argv[1:]
    models = {"f64": Llama(checkpoint, torch.float64), "f32": Llama(checkpoint, torch.float32)}
    tokenizer = Tokenizer(tokens, len(models["f64"].embeddings))
    parts = [part.strip() for part in Path(text).read_text("utf-8").split("<|endoftext|>")]
    parts = [part for part in parts if part]
    stories = [tokenizer.encode(part) for part in parts]

    # Check the claims of the module docstring.
    assert [tokenizer.decode(story) for story in stories] == parts
    model, story = models["f64"], stories[0]
    whole = model.logits(story)
    assert (model.logits(story[:20]) - whole[:20]).abs().max() < 1e-12, "a token attends to later tokens"

    given = {"stories": [{"text": part, "tokens": ids} for part, ids in zip(parts, stories)],
             "scored": [len(story) - 1 for story in stories], "first_logits": whole[0].tolist()}
    for name, model in models.items():
        generated, lead = greedy(model, GENERATED)
        given[name] = {
            **score(model, stories),
            "greedy": {"tokens": generated, "text": tokenizer.decode(generated), "smallest_lead": lead},
        }
    print(json.dumps(given, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
