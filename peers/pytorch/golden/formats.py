#!/usr/bin/env python3
"""Reference results for rounding f32 to narrower formats and back, as u32 bit patterns of f32.

Writes crates/precision/tests/engine/numbers/rounding.json. The bf16 and f16 columns are PyTorch's (`x.to(dtype).to(float32)`).
PyTorch does not have TF32 on the CPU, so the tf32 column is computed with exact fractions: to nearest, ties to even, with 10
stored fraction bits, f32's exponents and gradual underflow. For bf16 and f16, the script asserts that PyTorch agrees with
this exact rounding. (Tensor cores differ: `cvt.rna.tf32.f32` rounds ties away from zero.)

In addition to the edge cases, the file has hashes (fingerprints) of many results for each 16-bit format: a million f32 values,
spread over all bit patterns, rounded to the format, and all 2^16 values of the format widened to f32. TF32 does not have
fingerprints, because its column is computed with exact fractions.

Sign and payload of a NaN are unspecified, so tests must not compare the bits of NaN results.
"""

import json
import math
import struct
from fractions import Fraction
from pathlib import Path

OUT = Path(__file__).resolve().parents[3] / "crates/precision/tests/engine/numbers"

# Stored fraction bits, exponent of the smallest normal number, exponent of the largest.
FORMATS = {"bf16": (7, -126, 127), "f16": (10, -14, 15), "tf32": (10, -126, 127)}

# (description, f32 bits). NEGATED lists the patterns that are also tested with the sign flipped.
PATTERNS = [
    ("zero", 0x00000000),
    ("one", 0x3F800000),
    ("pi", 0x40490FDB),
    ("a third", 0x3EAAAAAB),
    ("a tenth", 0x3DCCCCCD),
    # bf16 keeps 16 bits of the pattern: the tie is at 0x8000 of the low 16 bits.
    ("bf16 tie, even below: 1 + 2^-8", 0x3F808000),
    ("bf16 tie, odd below: 1 + 3 * 2^-8", 0x3F818000),
    ("one ULP below a bf16 tie", 0x3F807FFF),
    ("one ULP above a bf16 tie", 0x3F808001),
    ("one ULP below a bf16 tie, odd below", 0x3F817FFF),
    ("one ULP above a bf16 tie, odd below", 0x3F818001),
    ("bf16 carry into the exponent: 2 - 2^-8", 0x3FFF8000),
    ("one ULP below that carry", 0x3FFF7FFF),
    # f16 and tf32 keep 10 fraction bits: the tie is at 0x1000 of the low 13 bits.
    ("10-bit tie, even below: 1 + 2^-11", 0x3F801000),
    ("10-bit tie, odd below: 1 + 3 * 2^-11", 0x3F803000),
    ("one ULP below a 10-bit tie", 0x3F800FFF),
    ("one ULP above a 10-bit tie", 0x3F801001),
    ("one ULP below a 10-bit tie, odd below", 0x3F802FFF),
    ("one ULP above a 10-bit tie, odd below", 0x3F803001),
    ("10-bit carry into the exponent: 2 - 2^-11", 0x3FFFF000),
    ("one ULP below that carry", 0x3FFFEFFF),
    ("one ULP below two", 0x3FFFFFFF),
    ("2049, an f16 tie, even below", 0x45001000),
    ("2051, an f16 tie, odd below", 0x45003000),
    ("16777215, the last odd integer of f32", 0x4B7FFFFF),
    # f16 overflow: 65504 is the largest, 65520 the tie between it and infinity.
    ("65504, the largest f16", 0x477FE000),
    ("65505", 0x477FE100),
    ("65519.996, the last f32 that f16 holds", 0x477FEFFF),
    ("65520, the first that overflows f16", 0x477FF000),
    ("65520.004", 0x477FF001),
    ("65536", 0x47800000),
    ("1e5", 0x47C35000),
    # f16 underflow: smallest normal 2^-14, smallest subnormal 2^-24.
    ("2^-14, the smallest normal f16", 0x38800000),
    ("one f32 ULP below the smallest normal f16", 0x387FFFFF),
    ("2^-14 - 2^-25, the tie between subnormal and normal f16", 0x387FE000),
    ("one ULP below that tie", 0x387FDFFF),
    ("2^-14 - 2^-24, the largest f16 subnormal", 0x387FC000),
    ("2^-24, the smallest f16 subnormal", 0x33800000),
    ("2^-25, a tie with zero in f16", 0x33000000),
    ("one ULP above 2^-25", 0x33000001),
    ("one ULP below 2^-25", 0x32FFFFFF),
    ("1.5 * 2^-24, an f16 subnormal tie, odd below", 0x33C00000),
    ("2.5 * 2^-24, an f16 subnormal tie, even below", 0x34200000),
    ("one ULP above 2.5 * 2^-24", 0x34200001),
    ("1e-8, zero in f16", 0x322BCC77),
    # bf16 and tf32 have f32's exponents, and therefore its smallest normal number, 2^-126.
    ("2^-126, the smallest normal f32", 0x00800000),
    ("the largest f32 subnormal", 0x007FFFFF),
    ("2^-133, the smallest bf16 subnormal", 0x00010000),
    ("2^-134, a tie with zero in bf16", 0x00008000),
    ("one f32 quantum above 2^-134", 0x00008001),
    ("one f32 quantum below 2^-134", 0x00007FFF),
    ("1.5 * 2^-133, a bf16 subnormal tie, odd below", 0x00018000),
    ("2.5 * 2^-133, a bf16 subnormal tie, even below", 0x00028000),
    ("2^-136, the smallest tf32 subnormal", 0x00002000),
    ("2^-137, a tie with zero in tf32", 0x00001000),
    ("one f32 quantum above 2^-137", 0x00001001),
    ("1.5 * 2^-136, a tf32 subnormal tie, odd below", 0x00003000),
    ("2^-149, the smallest f32 subnormal", 0x00000001),
    # Overflow of bf16 and tf32 happens within f32's finite range.
    ("the largest f32", 0x7F7FFFFF),
    ("the largest bf16", 0x7F7F0000),
    ("the tie between the largest bf16 and infinity", 0x7F7F8000),
    ("one ULP below that tie", 0x7F7F7FFF),
    ("the largest tf32", 0x7F7FE000),
    ("the tie between the largest tf32 and infinity", 0x7F7FF000),
    ("one ULP below that tie", 0x7F7FEFFF),
    ("infinity", 0x7F800000),
    ("quiet NaN", 0x7FC00000),
    ("NaN whose payload lies in the low bits alone", 0x7F800001),
    ("NaN with every payload bit", 0x7FFFFFFF),
]
NEGATED = {
    0x00000000, 0x3F808000, 0x3F818000, 0x3F801000, 0x3F803000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x33C00000,
    0x00008000, 0x00018000, 0x00000001, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF,
}


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def round_exactly(value, fraction_bits, min_exponent, max_exponent):
    """Rounds `value` to the nearest number of a binary format, ties to even, by exact rational arithmetic."""
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 1, min_exponent)
    quantum = Fraction(2) ** (exponent - fraction_bits)
    rounded = round(Fraction(value) / quantum) * quantum  # Fraction rounds half to even
    if abs(rounded) >= Fraction(2) ** (max_exponent + 1):
        return math.copysign(math.inf, value)
    return math.copysign(float(rounded), value)


MANY = 1_000_000


def fingerprint(words, size):
    """Returns the FNV-1a hash of the little-endian bytes of words of `size` bytes."""
    digest = 0xCBF29CE484222325
    for byte in b"".join(word.to_bytes(size, "little") for word in words):
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return f"{digest:016x}"


def fingerprints(torch, dtype):
    """Returns fingerprints of `MANY` f32 values rounded to 16 bits, and of all 16-bit values as f32. All NaNs get the same bits."""
    bits = torch.arange(MANY, dtype=torch.int64) * 2654435761 % 2**32
    values = bits.to(torch.uint32).view(torch.float32)
    narrow = values.to(dtype).view(torch.uint16).to(torch.int64)
    narrow[values.isnan()] = 0xFFFF
    all_16_bit = torch.arange(2**16, dtype=torch.int64).to(torch.uint16).view(dtype)
    wide = all_16_bit.to(torch.float32).view(torch.uint32).to(torch.int64)
    wide[all_16_bit.isnan()] = 0xFFFFFFFF
    return {"narrowed": fingerprint(narrow.tolist(), 2), "widened": fingerprint(wide.tolist(), 4)}


def main():
    import torch

    patterns = PATTERNS + [(f"minus {what}", bits | 0x80000000) for what, bits in PATTERNS if bits in NEGATED]
    assert len({bits for _, bits in patterns}) == len(patterns)
    inputs = torch.tensor([bits for _, bits in patterns], dtype=torch.uint32).view(torch.float32)
    columns = {
        name: inputs.to(dtype).to(torch.float32).view(torch.uint32).tolist()
        for name, dtype in {"bf16": torch.bfloat16, "f16": torch.float16}.items()
    }

    rows = []
    for at, (what, bits) in enumerate(patterns):
        value = float_of(bits)
        row = {"what": what, "f32": bits}
        for name, parameters in FORMATS.items():
            exact = round_exactly(value, *parameters)
            row[name] = columns[name][at] if name in columns else bits_of(exact)
            if math.isnan(value):
                assert math.isnan(float_of(row[name])), row
            else:
                assert row[name] == bits_of(exact), (row, name, exact)
        rows.append(row)

    # Check the tf32 column for finite values with integer arithmetic: add half a unit, or one less if the kept part is even.
    for row in rows:
        magnitude = row["f32"] & 0x7FFFFFFF
        if magnitude < 0x7F800000:
            kept = (magnitude + 0xFFF + (magnitude >> 13 & 1)) & ~0x1FFF
            assert row["tf32"] == kept | (row["f32"] & 0x80000000), row

    OUT.mkdir(parents=True, exist_ok=True)
    version = torch.__version__.split("+")[0]
    many = {"bf16": fingerprints(torch, torch.bfloat16), "f16": fingerprints(torch, torch.float16)}
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    (OUT / "rounding.json").write_text(
        '{\n  "generated": "by peers/pytorch/golden/formats.py; do not edit",\n'
        f'  "versions": {{"torch": "{version}"}},\n  "fingerprints": {json.dumps(many)},\n  "rounding": [\n{lines}\n  ]\n}}\n'
    )
    print(f"{len(rows)} patterns")


if __name__ == "__main__":
    main()
