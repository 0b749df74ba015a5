#!/usr/bin/env python3
"""Writes the golden file of Mantissa's tokenizer tests: token ids of difficult sentences by Hugging Face's Python `tokenizers`.

    pip install tokenizers==0.22.2
    python peers/tokenizer_golden.py > crates/inputs/src/data/golden/tokenizer.json

With a TSV file of reviews (text in the last column) and the `vocab.txt` of bert-base-uncased, it prints a checksum of the
ids of the first 200 texts, truncated to 512 tokens, for the test that reads the same files:

    python peers/tokenizer_golden.py imdb_train.tsv.gz vocab.txt
"""

import gzip
import json
import sys
import tempfile

from tokenizers import BertWordPieceTokenizer

SEQUENCE = 24
WORDS = """
[PAD] [UNK] [CLS] [SEP] [MASK]
! " # $ ' ( ) , - . / 1 9 : < > ? ^ ~ a b c e h i l m o r s t x z
the movie was un ##aff ##able ##ly cafe resume naive br acting 10 ##0 ##s it not good bad ##est so ##o don wasn
and spaces zero themovie wasgood 中 国 電 影 ##! ss strasse istanbul i̇ ##a ##b ##c ##e ##o
""".split()
SENTENCES = [
    "The movie was unaffable.",
    "THE CAFÉ résumé, naïve acting: 10/10!",
    "cafe\u0301 and cafe",
    "It was good.<br /><br />It wasn't bad...",
    "中国電影 the 中a",
    "qwertyuiop the",
    "Straße ẞ ss İstanbul",
    "tabs\tand\nlines\r\nand\u00a0spaces\u2003 \u200bzero",
    "the\u0000movie\ufffd was\u0007 good\u00ad",
    "“good” – bad… it’s ~ ^ $1",
    "sooo goodest",
    "[CLS] the [MASK] [SEP] [PAD] movie[UNK]",
    "a" * 101 + " " + "a" * 100,
    "the movie was not good " * 8,
    "",
    "🎬 good 👍🏽 the",
]


def new_tokenizer(vocabulary: str, sequence: int) -> BertWordPieceTokenizer:
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokenizer.enable_truncation(sequence)
    return tokenizer


def checksum(path: str, vocabulary: str) -> None:
    tokenizer = new_tokenizer(vocabulary, 512)
    opened = gzip.open(path, "rt", encoding="utf-8", newline="\n")
    position = total = 0
    with opened as file:
        for _ in range(200):
            for token in tokenizer.encode(next(file).rstrip("\r\n").split("\t")[-1]).ids:
                position += 1
                total += position * token
    print(f"{position} tokens, sum of position * id (positions from 1) {total}")


def golden() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(WORDS) + "\n")
        file.flush()
        tokenizer = new_tokenizer(file.name, SEQUENCE)
    cases = [{"text": text, "ids": tokenizer.encode(text).ids} for text in SENTENCES]
    print("{")
    print('"generated": "by peers/tokenizer_golden.py, do not edit",')
    print(f'"sequence": {SEQUENCE},')
    print(f'"vocabulary": {json.dumps(WORDS)},')
    print('"cases": [')
    print(",\n".join(json.dumps(case) for case in cases))
    print("]\n}")


if __name__ == "__main__":
    checksum(*sys.argv[1:]) if len(sys.argv) > 1 else golden()
