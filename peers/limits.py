"""Prints the speed of each kernel of a comparison relative to its limit, as a Markdown table: `python3 peers/limits.py reports/<race>`.

The limit of operations with matmuls is the fastest matmul of the runs in the same precision, in either framework. The limit of other operations is
the speed of a copy of as many bytes in the same process, in the faster framework. Values are medians over processes.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median


def read_metrics(folder):
    """Returns the median of each metric over processes, by workload, attention and precision."""
    cells = defaultdict(lambda: defaultdict(list))
    for line in (folder / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["status"] == "ok":
            cell = record["cell"]
            key = (cell["workload"]["name"], cell["setting"].get("attention", ""), cell["setting"]["precision"])
            for name, metric in record["metrics"].items():
                if metric and metric["value"] is not None:
                    cells[key][name].append(metric["value"])
    return {key: {name: median(values) for name, values in metrics.items()} for key, metrics in cells.items()}


def main(race):
    frameworks = [read_metrics(Path(race) / name) for name in ("burn", "pytorch")]
    keys = [key for key in frameworks[0] if key in frameworks[1]]
    fastest_matmul = {
        precision: max(cells[key].get("flops_per_second", 0) for cells in frameworks for key in keys if key[2] == precision)
        for precision in {key[2] for key in keys}
    }
    print("| operation | precision | limit | burn | PyTorch | burn, % of limit | PyTorch, % of limit | burn / PyTorch |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for key in keys:
        name, attention, precision = key
        burn, torch = (cells[key] for cells in frameworks)
        if "flops_per_second" in burn:
            metric, unit, limit = "flops_per_second", "GFLOP/s", fastest_matmul[precision]
        elif "copy_bytes_per_second" in burn:
            metric, unit, limit = "bytes_per_second", "GB/s", max(burn["copy_bytes_per_second"], torch["copy_bytes_per_second"])
        else:
            continue
        by_burn, by_torch = burn[metric], torch[metric]
        operation = f"{name}, {attention}" if name == "attention" else name
        print(
            f"| {operation} | {precision} | {limit / 1e9:.0f} {unit} | {by_burn / 1e9:.1f} | {by_torch / 1e9:.1f} | {by_burn / limit:.0%} | {by_torch / limit:.0%} | {by_burn / by_torch:.2f} |"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
