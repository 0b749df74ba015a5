#!/usr/bin/env python3
"""Reference results for the change points of crates/analysis, from MongoDB's signal-processing-algorithms 2.1.6.

Writes crates/analysis/tests/golden/change_points.json: histories, and the change points that E-divisive of the package finds with the
significance level and the number of shuffles of crates/analysis. The package's p-value is the share of shuffles that can be split as clearly,
without counting the observed order: four of 999 shuffles give 0.004. The package needs numpy below 2.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive

OUT = Path(__file__).resolve().parents[1] / "crates/analysis/tests/golden/change_points.json"


def histories():
    """Yields named histories of rounded numbers, so that the file is small and the same on every machine."""
    random = np.random.default_rng(8)
    level = lambda *parts: np.concatenate([np.full(runs, at) for at, runs in parts])
    noisy = lambda values, noise: [float(x) for x in np.round(values * np.exp(noise * random.standard_normal(len(values))), 4)]
    heavy = lambda values, noise: [float(x) for x in np.round(values * np.exp(noise * random.standard_t(3, len(values))), 4)]
    yield "no change", noisy(level((1, 60)), 0.02)
    yield "slower by 5 % at run 40", noisy(level((1, 40), (1.05, 40)), 0.01)
    yield "slower by 20 % from run 25 to run 50", noisy(level((1, 25), (1.2, 25), (1, 25)), 0.02)
    yield "a staircase", noisy(level((1, 20), (1.1, 20), (1.25, 20), (1.5, 20)), 0.01)
    yield "heavy tails, slower by 10 % at run 50", heavy(level((1, 50), (1.1, 50)), 0.01)
    yield "heavy tails, no change", heavy(level((1, 80)), 0.02)
    yield "one disturbed run", noisy(level((1, 30), (3, 1), (1, 29)), 0.01)
    yield "a late change", noisy(level((1, 90), (1.3, 10)), 0.02)
    yield "two levels by turns", noisy(np.tile([1.0, 1.1], 30), 0.005)


def main():
    rows = []
    for name, values in histories():
        np.random.seed(1)
        firsts = sorted(int(at) for at in e_divisive(values, pvalue=0.004, permutations=999))
        rows.append({"name": name, "firsts": firsts, "values": values})
        print(name, firsts)
    versions = json.dumps({name: version(name) for name in ("signal-processing-algorithms", "numpy")})
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    OUT.write_text(f'{{\n  "generated": "by peers/change_points.py; do not edit",\n  "versions": {versions},\n  "histories": [\n{body}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
