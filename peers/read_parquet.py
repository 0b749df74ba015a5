#!/usr/bin/env python3
"""Reads a Parquet export with Arrow's own reader and compares it with the CSV export of the same runs.

    mantissa export reports/<run> --format csv --out run.csv
    mantissa export reports/<run> --format parquet --out run.parquet
    python peers/read_parquet.py run.parquet run.csv

Every field must be the same: floats are bitwise equal, and an empty CSV field is null in Parquet. CSV may have an additional apostrophe before text
that a spreadsheet would evaluate. Prints the number of compared fields by type. Fails at the first difference.
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
    """Returns True if a Parquet value equals a CSV field."""
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
    assert len(rows) == table.num_rows, f"{len(rows)} rows in CSV, {table.num_rows} rows in Parquet"
    compared = Counter()
    for index, field in enumerate(table.schema):
        for number, value in enumerate(table.column(index).to_pylist()):
            text = rows[number][index]
            assert same(value, text, field.type), f"row {number}, {field.name}: {value!r} in Parquet, {text!r} in CSV"
            compared["null" if value is None else str(field.type)] += 1
    print(f"{table.num_rows} rows, {len(header)} columns:", ", ".join(f"{n} {kind}" for kind, n in sorted(compared.items())))


if __name__ == "__main__":
    main(*sys.argv[1:])
