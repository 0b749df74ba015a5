#!/usr/bin/env python3
"""Times reading a file of safetensors of about 1 GB in PyTorch, and merely reading its bytes, to compare Mantissa's
`weights_seconds` with. Linux only.

  load.py [--file MODEL.safetensors]

Without --file one of --gb is made in a temporary folder and removed: matrices [2048, 2048] of random f32. Three ways:

read         the file's bytes, one after the other, into one buffer of 8 MiB: what a disk or the page cache can give
load         safetensors.torch.load_file. What it gives is mapped, so that no more need have been read than the header
load+copy    the same, and each tensor is copied once, as into the parameters of a model: every byte has been read

Each is done by a process of its own, --repeats times in turn, imports not timed. Before each the file is read once, so
that it comes from the page cache; with --cold its pages are dropped first (clean ones only: they are synced), and it
comes from the disk. `peak_rss_bytes` is the most memory that was resident (VmHWM, set back before the file is opened),
mapped pages of the file included, and `above_start_bytes` what of it was not before; `anonymous_bytes` what was at the end
without those pages. All are medians.

Progress goes to stderr, one JSON object to stdout.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EDGE = 2048
BUFFER = 8 << 20


def read(path):
    buffer = memoryview(bytearray(BUFFER))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def load(path):
    from safetensors.torch import load_file

    return load_file(path)


def load_and_copy(path):
    return {name: tensor.clone() for name, tensor in load(path).items()}


WAYS = {"read": read, "load": load, "load+copy": load_and_copy}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="default: one that is made")
    parser.add_argument("--gb", type=float, default=1.0, help="size of the file that is made, in 10^9 bytes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="from the disk, not from the page cache")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # what a process of its own is asked for
    return parser.parse_args()


def make(path, size):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    matrices = max(1, round(size / (4 * EDGE * EDGE)))
    save_file({f"layers.{i}.weight": torch.randn(EDGE, EDGE) for i in range(matrices)}, path)


def memory(key):
    """Bytes, from what Linux says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def measure(way, path):
    """One line of JSON about one way, in this process."""
    if way != "read":
        import safetensors.torch  # noqa: F401, not timed below
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what is resident now
    began = time.perf_counter()
    kept = WAYS[way](path)
    seconds = time.perf_counter() - began
    print(json.dumps({
        "seconds": seconds,
        "peak_rss_bytes": memory("VmHWM"),
        "above_start_bytes": memory("VmHWM") - before,
        "anonymous_bytes": memory("RssAnon"),
    }))
    del kept


def prepare(path, cold):
    if not cold:
        return read(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(path, args):
    measured = {way: [] for way in WAYS}
    for repeat in range(args.repeats):
        for way in WAYS:
            prepare(path, args.cold)
            command = [sys.executable, __file__, "--way", way, "--file", str(path)]
            measured[way].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(f"{repeat + 1}: {way} {measured[way][-1]['seconds']:.3f} s", file=sys.stderr)
    size = path.stat().st_size
    result = {}
    for way, runs in measured.items():
        result[way] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        if way != "load":  # it has not read the bytes
            result[way]["bytes_per_second"] = size / result[way]["seconds"]
    return {"file_bytes": size, "from": "disk" if args.cold else "page cache", "repetitions": args.repeats, **result}


def main():
    args = arguments()
    if args.way:
        return measure(args.way, args.file)
    import safetensors
    import torch

    versions = {"torch": torch.__version__, "safetensors": safetensors.__version__}
    if args.file:
        result = compare(args.file, args)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.safetensors"
            make(path, 1e9 * args.gb)
            result = compare(path, args)
    print(json.dumps(versions | result))


if __name__ == "__main__":
    main()
