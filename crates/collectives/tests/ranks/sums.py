#!/usr/bin/env python3
"""Computes the sums of `mpi/sums.rs` by simulating the messages of each algorithm: python3 sums.py >sums.txt

Needs numpy and ml_dtypes. Prints format, algorithm, number of ranks, and the bits of each sum in hexadecimal.
"""

import ml_dtypes
import numpy

LEN = 11
MASK = 2**64 - 1
FORMATS = {
    "f64": (numpy.float64, numpy.uint64, 53),
    "f32": (numpy.float32, numpy.uint32, 24),
    "bf16": (ml_dtypes.bfloat16, numpy.uint16, 8),
    "f16": (numpy.float16, numpy.uint16, 11),
}


def value(bits, rank, index):
    number = ((1000 * rank + index + 1) * 0x9E3779B97F4A7C15) & MASK
    number ^= number >> 32
    number = (number * 0xD6E8FEB86659FD93) & MASK
    number ^= number >> 32
    magnitude = (number >> (64 - bits)) * 2.0 ** ((number & 3) - bits)
    return -magnitude if number & 4 else magnitude


def linear(buffers):
    """Rank 0 receives from the last rank first."""
    total = buffers[-1].copy()
    for buffer in buffers[-2::-1]:
        total = total + buffer
    return [total.copy() for _ in buffers]


def tree(buffers):
    """In round k, the ranks whose lowest set bit is k send their partial sum to the rank without this bit."""
    buffers = [buffer.copy() for buffer in buffers]
    distance = 1
    while distance < len(buffers):
        for rank in range(distance, len(buffers), 2 * distance):
            buffers[rank - distance] = buffers[rank - distance] + buffers[rank]
        distance *= 2
    return [buffers[0].copy() for _ in buffers]


def recursive_doubling(buffers):
    ranks = len(buffers)
    power = 1
    while 2 * power <= ranks:
        power *= 2
    extra = ranks - power
    buffers = [buffer.copy() for buffer in buffers]
    for rank in range(0, 2 * extra, 2):
        buffers[rank + 1] = buffers[rank] + buffers[rank + 1]
    active = [rank for rank in range(ranks) if rank >= 2 * extra or rank % 2]
    distance = 1
    while distance < power:
        sent = {rank: buffers[rank].copy() for rank in active}
        for position, rank in enumerate(active):
            buffers[rank] = buffers[rank] + sent[active[position ^ distance]]
        distance *= 2
    for rank in range(0, 2 * extra, 2):
        buffers[rank] = buffers[rank + 1].copy()
    return buffers


def ring(buffers):
    ranks = len(buffers)
    if LEN < ranks:
        return recursive_doubling(buffers)
    blocks = [numpy.array_split(buffer.copy(), ranks) for buffer in buffers]
    for step in range(ranks - 1):
        sent = [blocks[rank][(rank - step) % ranks].copy() for rank in range(ranks)]
        for rank in range(ranks):
            block = (rank - 1 - step) % ranks
            blocks[rank][block] = sent[rank - 1] + blocks[rank][block]
    for step in range(ranks - 1):
        sent = [blocks[rank][(rank + 1 - step) % ranks].copy() for rank in range(ranks)]
        for rank in range(ranks):
            blocks[rank][(rank - step) % ranks] = sent[rank - 1]
    return [numpy.concatenate(of_rank) for of_rank in blocks]


ALGORITHMS = {"ring": ring, "tree": tree, "linear": linear, "recursive-doubling": recursive_doubling}

for format, (dtype, integer, bits) in FORMATS.items():
    for name, all_reduce in ALGORITHMS.items():
        for ranks in (2, 3, 4, 5, 8):
            buffers = [numpy.array([value(bits, rank, index) for index in range(LEN)]).astype(dtype) for rank in range(ranks)]
            results = [result.view(integer) for result in all_reduce(buffers)]
            assert all((result == results[0]).all() for result in results), (format, name, ranks)
            print(format, name, ranks, *(f"{result:x}" for result in results[0]))
