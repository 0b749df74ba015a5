#!/usr/bin/env python3
"""Measures the time and memory of loading weights in Mantissa, relative to reading the file.

  loading.py [--mantissa target/release/mantissa] [--gb 1.0] [--repeats 5] [--time 1.5 --memory 1.2]

Creates a LLaMA in a temporary folder, as f32 safetensors of about --gb * 10^9 bytes (one mebibyte of values between -0.02 and 0.02,
repeated). With the file in the page cache, it alternates between reading the whole file into allocated memory and `mantissa run` on the
CPU, whose records contain `weights_seconds` and `host_peak_bytes`. Prints medians and ratios as one JSON object. With --time or --memory,
it fails if a ratio of 32-true exceeds the limit. Needs only Python 3.11.
"""

import argparse
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HIDDEN, INNER, VOCABULARY = 1024, 4096, 32_000
LAYER_PARAMETERS = 16_779_264

SUITE = """
title = "Loading"
question = "How long does it take to load weights?"
axes = { precision = ["32-true", "bf16-true"], batch = [1] }
[[workload]]
name = "llama"
task = "generate"
model = "llama"
prompt_tokens = 2
new_tokens = 2
min_samples = 1
max_samples = 1
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mantissa", type=Path, default=Path("target/release/mantissa"))
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--time", type=float, help="maximum load time in f32, as a multiple of the read time")
    parser.add_argument("--memory", type=float, help="maximum peak memory in f32, as a multiple of the weights")
    return parser.parse_args()


def config(layers):
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 16,
        "head_dim": 64, "vocab_size": VOCABULARY, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
        "bos_token_id": 1, "eos_token_id": 2,
    }


def shapes(layers):
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for part in "qkvo":
            yield f"{name}.self_attn.{part}_proj.weight", [HIDDEN, HIDDEN]
        yield f"{name}.mlp.gate_proj.weight", [INNER, HIDDEN]
        yield f"{name}.mlp.up_proj.weight", [INNER, HIDDEN]
        yield f"{name}.mlp.down_proj.weight", [HIDDEN, INNER]
        yield f"{name}.input_layernorm.weight", [HIDDEN]
        yield f"{name}.post_attention_layernorm.weight", [HIDDEN]


def write_checkpoint(folder, gb):
    """Writes the configuration and the weights. Returns the path of the weights and their size in bytes."""
    layers = max(1, round((gb * 1e9 / 4 - VOCABULARY * HIDDEN) / LAYER_PARAMETERS))
    (folder / "config.json").write_text(json.dumps(config(layers)))
    header, end = {}, 0
    for name, shape in shapes(layers):
        begin, size = end, 4
        for edge in shape:
            size *= edge
        end = begin + size
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    numbers = random.Random(1)
    block = struct.pack(f"<{1 << 18}f", *(numbers.uniform(-0.02, 0.02) for _ in range(1 << 18)))
    path = folder / "model.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, len(block)):
            file.write(block[: end - begin])
    return path, end


def read(path):
    """Returns the seconds that it takes to read the file into memory."""
    begun = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        data = file.read()
    seconds = time.perf_counter() - begun
    assert len(data) == path.stat().st_size
    return seconds


def load(mantissa, folder, number):
    """Runs Mantissa. Returns load time in seconds and peak memory in bytes by precision."""
    suite, run = folder / "loading.toml", folder / f"run{number}"
    suite.write_text(SUITE)
    command = [mantissa, "run", suite, "--backend", "flex", "--repeats", "1", "--weights", folder, "--out", run]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    value = lambda record, name: record["metrics"][name]["value"]
    return {
        record["cell"]["setting"]["precision"]: (value(record, "weights_seconds"), value(record, "host_peak_bytes"))
        for record in records
    }


def main():
    args = arguments()
    mantissa = args.mantissa.resolve()
    with tempfile.TemporaryDirectory() as folder:
        path, weights = write_checkpoint(Path(folder), args.gb)
        read(path)
        reads, loads = [], []
        for number in range(args.repeats):
            reads.append(read(path))
            loads.append(load(mantissa, Path(folder), number))
            print(f"{number + 1}: read {reads[-1]:.3f} s, loaded {loads[-1]}", file=sys.stderr)
    reading = statistics.median(reads)
    result = {"weights_bytes": weights, "repeats": args.repeats, "read_seconds": reading}
    for precision, bytes_each in [("32-true", 4), ("bf16-true", 2)]:
        seconds = statistics.median(load[precision][0] for load in loads)
        peak = statistics.median(load[precision][1] for load in loads)
        result[precision] = {
            "weights_seconds": seconds,
            "host_peak_bytes": peak,
            "times_reading": seconds / reading,
            "times_weights": peak / (weights * bytes_each / 4),
        }
    print(json.dumps(result, indent=1))
    single = result["32-true"]
    for name, limit, ratio in [("time", args.time, single["times_reading"]), ("memory", args.memory, single["times_weights"])]:
        if limit is not None and ratio > limit:
            sys.exit(f"the {name} ratio of 32-true is {ratio:.2f}, the limit is {limit}")


if __name__ == "__main__":
    main()
