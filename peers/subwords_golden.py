#!/usr/bin/env python3
"""Writes the golden files of Mantissa's tokenizers for language models: token ids of difficult sentences by the reference libraries.

    pip install sentencepiece==0.2.3 protobuf tokenizers==0.22.2
    python peers/subwords_golden.py llama2_tokenizer_32000.model llama2_tokenizer_32000.bin [tinyshakespeare.txt]

Writes to crates/inputs/src/data/golden/:
  llama2_tokenizer.json        ids by SentencePiece and llama2.c (a transcription of its `run.c`) with the tokenizer of LLaMA 2, which is
                               not in the repository
  unigram.{model,json}         a small unigram model with normalization rules, trained by this script, and the ids by SentencePiece
  unigram_user_defined.{model,json}  the same with some pieces turned into user-defined ones
  pairs.{model,json}           a small BPE model with a user-defined symbol and without byte fallback, and the ids by SentencePiece
  bytes_bpe.json               a small byte-level `tokenizer.json` like that of GPT-2, and the ids by Hugging Face's `tokenizers`

`ids` include the BOS token if the tokenizer has one, but no EOS token. With a text file as an argument, the script prints the number of
tokens of its first 100,000 characters without BOS, and the sum of position * id with positions from 1.
"""

import contextlib
import io
import json
import struct
import sys
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = Path("crates/inputs/src/data/golden").resolve()
SENTENCES = [
    "",
    "Hello, world!",
    "the quick brown fox jumps over the lazy dog",
    " leading, trailing ",
    "two  and   three    spaces",
    "tabs\tand\nlines\r\n\r\nand\u00a0spaces\u2003 \u200bzero",
    "THE CAFÉ résumé, naïve: 10/10!",
    "cafe\u0301 ﬁne ½ Ⅷ ｆｕｌｌ",
    "中国電影 and 中a",
    "🎬 good 👍🏽 𝔘",
    "a▁b ▁ ▁▁c",
    "<s> </s> <unk> <0x41> <sep>a<sep> <|endoftext|>b",
    "aaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbb",
    "don't can't won't it's I'll",
    "1234567890 3.14159 1,000,000",
    "def f(x):\n    return x ** 2  # squared\n",
    "   ",
    "\n",
    "ß ẞ İ ı ǆ",
    "“good” – bad… it’s ~ ^ $1",
    "qwertyuiop zzzz ☃☃ ☃",
]
WORDS = "the a small old quick brown lazy fox dog café film was is not good bad very and over jumps runs sleeps 10 1000".split()


def corpus():
    """Yields lines of pseudo-random words."""
    state = 1
    for _ in range(600):
        line = []
        for _ in range(9):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            line.append(WORDS[(state >> 16) % len(WORDS)])
        yield " ".join(line) + "."


def write(name, content):
    cases = content.pop("cases")
    lines = ['"generated": "by peers/subwords_golden.py, do not edit"']
    lines += [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in content.items()]
    lines += ['"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]"]
    (OUT / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


class RunC:
    """The tokenizer of llama2.c's `run.c`. It does not support text with zero bytes."""

    def __init__(self, path):
        data, at, self.pieces, self.scores = Path(path).read_bytes(), 4, [], []
        while at < len(data):
            score, length = struct.unpack_from("<fi", data, at)
            self.pieces.append(data[at + 8:at + 8 + length])
            self.scores.append(score)
            at += 8 + length
        self.ids = {piece: id for id, piece in enumerate(self.pieces)}
        assert len(self.ids) == len(self.pieces)

    def encode(self, text):
        tokens = [self.ids[b" "]] if text else []
        for character in text:
            spelled = character.encode()
            tokens += [self.ids[spelled]] if spelled in self.ids else [3 + byte for byte in spelled]
        while True:
            best, found = -1e10, None
            for at, (a, b) in enumerate(zip(tokens, tokens[1:])):
                id = self.ids.get(self.pieces[a] + self.pieces[b])
                if id is not None and self.scores[id] > best:
                    best, found = self.scores[id], (at, id)
            if found is None:
                return [1, *tokens]
            at, id = found
            tokens[at:at + 2] = [id]


def train(name, rules=None, **options):
    model = io.BytesIO()
    # The model contains the path of the rules file, so use a relative path.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        spelling = {"normalization_rule_tsv": "rules.tsv"} if rules else {}
        Path("rules.tsv").write_text(rules or "")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=corpus(), model_writer=model, num_threads=1, hard_vocab_limit=False, minloglevel=2,
            character_coverage=1.0, self_test_sample_size=0, **spelling, **options,
        )
    (OUT / f"{name}.model").write_bytes(model.getvalue())
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    write(f"{name}.json", {"cases": [case(tokenizer, text) for text in SENTENCES]})


def user_defined(name):
    """Turns pieces of a model into user-defined pieces. The pieces overlap with others, so their scores affect the result."""
    model = sentencepiece_model_pb2.ModelProto.FromString((OUT / f"{name}.model").read_bytes())
    for number, piece in enumerate(model.pieces):
        if piece.type == model.SentencePiece.NORMAL and 1 < len(piece.piece) < 4 and number % 3 == 0:
            piece.type = model.SentencePiece.USER_DEFINED
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    (OUT / f"{name}_user_defined.model").write_bytes(model.SerializeToString())
    write(f"{name}_user_defined.json", {"cases": [case(tokenizer, text) for text in SENTENCES]})


def case(tokenizer, text):
    begin = [tokenizer.bos_id()] if tokenizer.bos_id() >= 0 else []
    ids = begin + tokenizer.encode(text)
    return {"text": text, "ids": ids, "decoded": tokenizer.decode(ids)}


def train_byte_level_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken("<|endoftext|>", special=True, normalized=False)],
    ))
    stored = json.loads(tokenizer.to_str())
    again = Tokenizer.from_str(json.dumps(stored, sort_keys=True))
    assert stored["model"]["vocab"]["!"] == 1  # the tests turn this token into a special token
    cases = []
    for text in SENTENCES:
        ids = tokenizer.encode(text).ids
        assert again.encode(text).ids == ids
        cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
    write("bytes_bpe.json", {"tokenizer": stored, "cases": cases})


def main():
    model, binary, *texts = sys.argv[1:]
    tokenizer, run_c = sentencepiece.SentencePieceProcessor(model_file=model), RunC(binary)
    cases = [{**case(tokenizer, text), "llama2c": run_c.encode(text)} for text in SENTENCES]
    write("llama2_tokenizer.json", {"cases": cases})
    rules = "\n".join(["E9\t65 301", "C9\t65 301", "41\t61", "54\t74", "48\t68", "45\t65", "A0\t20", "9\t20",
                       "A\t20", "2026\t2E 2E 2E", "200B\t", "FB01\t66 69"]) + "\n"
    train("unigram", rules, model_type="unigram", vocab_size=120, bos_id=-1, unk_id=0, eos_id=1, pad_id=2)
    user_defined("unigram")
    train("pairs", model_type="bpe", vocab_size=120, user_defined_symbols=["<sep>"], normalization_rule_name="identity",
            remove_extra_whitespaces=False)
    train_byte_level_bpe()
    for text in texts:
        ids = tokenizer.encode(Path(text).read_text("utf-8")[:100_000])
        print(f"{len(ids)} tokens, sum of position * id {sum(at * id for at, id in enumerate(ids, 1))}")


if __name__ == "__main__":
    main()
