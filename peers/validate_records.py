#!/usr/bin/env python3
"""Validates records of runs with burn and with a peer against the JSON Schema of `mantissa schema`, with an independent validator.

    mantissa schema > schema.json
    pip install jsonschema==4.26.0
    python peers/validate_records.py schema.json RUN/records.jsonl…
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator


def main():
    schema = json.loads(Path(sys.argv[1]).read_text())
    Draft202012Validator.check_schema(schema)
    validator, wrong = Draft202012Validator(schema), 0
    for path in sys.argv[2:]:
        lines = Path(path).read_text().splitlines()
        for number, line in enumerate(lines, 1):
            for error in validator.iter_errors(json.loads(line)):
                wrong += 1
                print(f"{path}:{number}: {error.json_path}: {error.message}", file=sys.stderr)
        print(f"{path}: {len(lines)} records")
    sys.exit(f"{wrong} errors: the records do not match the schema" if wrong else 0)


if __name__ == "__main__":
    main()
