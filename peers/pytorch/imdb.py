#!/usr/bin/env python3
"""Trains a small DistilBERT from scratch on IMDb reviews on the CPU, in f32 or under bf16 autocast, to compare losses,
accuracy and time per step with Mantissa.

The result is not a golden file: PyTorch's generator draws weights and order, so the losses of another implementation agree
only in distribution. The data are tab-separated lines `label rating id text` without a header (gzip or plain), with label 0
or 1. `<br />` becomes a space. Text is lower-cased and split by WordPiece, [CLS] ... [SEP], truncated and padded to --sequence.

Progress goes to stderr, one JSON object to stdout. On a busy machine, use `cpu_seconds_per_step` with --threads 1.
"""

import argparse
import gzip
import json
import statistics
import sys
import time

import torch
import transformers
from tokenizers import BertWordPieceTokenizer
from transformers import DistilBertConfig, DistilBertForSequenceClassification

WARM_UP = 5  # steps left out of the timing: allocation, thread start, lazily created optimizer state


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="training reviews (.tsv or .tsv.gz)")
    parser.add_argument("--test", help="test reviews, to measure the accuracy")
    parser.add_argument("--vocab", required=True, help="BERT uncased vocab.txt")
    parser.add_argument("--steps", type=int, help="number of steps (default: one epoch)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--hidden-dim", type=int, default=512)
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout of embeddings, attention and FFN (head: 0.2)")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--bf16-mixed", action="store_true", help="train under torch.autocast in bfloat16")
    return parser.parse_args()


def read_reviews(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t", 3) for line in lines]
    return [(int(label), text.replace("<br />", " ")) for label, _, _, text in rows]


def batches(reviews, order, size, tokenizer):
    """Yields (ids, mask, labels) of each batch in `order`; the last one may be short."""
    for at in range(0, len(order), size):
        chosen = [reviews[i] for i in order[at : at + size]]
        encoded = tokenizer.encode_batch([text for _, text in chosen])
        yield (
            torch.tensor([e.ids for e in encoded]),
            torch.tensor([e.attention_mask for e in encoded]),
            torch.tensor([label for label, _ in chosen]),
        )


def accuracy(model, reviews, args, tokenizer, autocast):
    model.eval()
    right = 0
    with torch.inference_mode(), autocast():
        for ids, mask, labels in batches(reviews, range(len(reviews)), args.batch, tokenizer):
            right += (model(input_ids=ids, attention_mask=mask).logits.argmax(-1) == labels).sum().item()
    return right / len(reviews)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    tokenizer = BertWordPieceTokenizer(args.vocab, lowercase=True)
    tokenizer.enable_truncation(args.sequence)
    tokenizer.enable_padding(length=args.sequence)
    reviews = read_reviews(args.train)
    order = torch.randperm(len(reviews)).tolist()  # the files are sorted by label
    if args.steps is not None:
        order = order[: args.steps * args.batch]

    model = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=args.sequence, n_layers=args.layers,
            n_heads=args.heads, dim=args.dim, hidden_dim=args.hidden_dim, dropout=args.dropout,
            attention_dropout=args.dropout, num_labels=2,
        )
    ).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16_mixed)

    losses, wall, cpu = [], [], []
    for ids, mask, labels in batches(reviews, order, args.batch, tokenizer):
        began, began_cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        with autocast():
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
        if len(losses) % 10 == 0:
            recent = statistics.fmean(losses[-10:])
            print(f"step {len(losses)}: mean loss of the last 10 {recent:.4f}, {wall[-1]:.3f} s", file=sys.stderr)

    timed = slice(WARM_UP, None) if len(losses) > WARM_UP else slice(None)
    result = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "options": {k: v for k, v in vars(args).items() if k not in ("train", "test", "vocab")},
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds_per_step": statistics.median(wall[timed]),
        "cpu_seconds_per_step": statistics.median(cpu[timed]),
        "losses": losses,
    }
    if args.test:
        result["test_accuracy"] = accuracy(model, read_reviews(args.test), args, tokenizer, autocast)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
