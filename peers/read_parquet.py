#!/usr/bin/env python3
"""Reads a Parquet export with Arrow's own reader and compares it with the CSV export of the same runs.

    mantissa export reports/<run> --format csv --out run.csv
    mantissa export reports/<run> --format parquet --out run.parquet
    python peers/read_parquet.py run.parquet run.csv

Every field must be the same: floats to the last bit, an empty field null, text except for the apostrophe that CSV puts before text that a
spreadsheet would evaluate. Prints how many fields of each type it compared; fails at the first that differs.
"""

import csv
import math
import struct
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

FORMULA = tuple("=+-@\t\r\n")


def same(value, text, kind):
    """Returns True if a value of Parquet equals a field of CSV."""
    if value is None:
        return text == ""
    if pa.types.is_floating(kind):
        return math.isfinite(value) and struct.pack("<d", value) == struct.pack("<d", float(text))
    if pa.types.is_boolean(kind):
        return text == ("true" if value else "false")
    if pa.types.is_integer(kind):
        return text == str(value)
    return text == ("'" + value if value.startswith(FORMULA) else value)


def main(parquet, tidy):
    table = pq.read_table(parquet)
    with open(tidy, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == table.column_names, "the columns differ"
    assert len(rows) == table.num_rows, f"{len(rows)} rows of CSV, {table.num_rows} of Parquet"
    compared = Counter()
    for index, field in enumerate(table.schema):
        for number, value in enumerate(table.column(index).to_pylist()):
            text = rows[number][index]
            assert same(value, text, field.type), f"row {number}, {field.name}: {value!r} and {text!r}"
            compared["null" if value is None else str(field.type)] += 1
    print(f"{table.num_rows} rows, {len(header)} columns:", ", ".join(f"{n} {kind}" for kind, n in sorted(compared.items())))


if __name__ == "__main__":
    main(*sys.argv[1:])
