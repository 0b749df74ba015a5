#!/usr/bin/env python3
"""Times loading a safetensors file of about 1 GB in PyTorch, and reading only its bytes, to compare with Mantissa's
`weights_seconds`. Linux only.

  load.py [--file MODEL.safetensors]

Without --file, a temporary file of --gb is created: matrices [2048, 2048] of random f32. Three methods are compared:

read         reads the file's bytes in order into one buffer of 8 MiB: the speed of the disk or the page cache
load         calls safetensors.torch.load_file. Its tensors are memory-mapped, so only the header may have been read
load+copy    calls load_file and copies each tensor once, as into the parameters of a model: every byte has been read

Each method runs in its own process, --repeats times; the methods alternate. Imports are not timed. The file is read once before
each run, so that it is in the page cache. With --cold, its pages are synced and dropped first, so that it is read from the disk.
`peak_rss_bytes` is the peak resident memory (VmHWM, reset before the file is opened), including mapped pages of the file.
`above_start_bytes` is that peak minus the memory before, and `anonymous_bytes` is the memory at the end without mapped pages.
All values are medians.

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
    parser.add_argument("--file", type=Path, help="file to load (default: create a temporary file)")
    parser.add_argument("--gb", type=float, default=1.0, help="size of the temporary file in 10^9 bytes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="read from the disk instead of the page cache")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # arguments of the measuring process
    return parser.parse_args()


def make(path, size):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    matrices = max(1, round(size / (4 * EDGE * EDGE)))
    save_file({f"layers.{i}.weight": torch.randn(EDGE, EDGE) for i in range(matrices)}, path)


def memory(key):
    """Returns the memory of this process in bytes, from /proc."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def measure(way, path):
    """Prints one line of JSON with the measurement of one way, in this process."""
    if way != "read":
        import safetensors.torch  # noqa: F401, not timed below
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current resident memory
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
        if way != "load":  # `load` may not have read the bytes
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
