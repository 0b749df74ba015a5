#!/usr/bin/env python3
"""Validates the files that `mantissa gate` and `mantissa export` write for other programs, with independent parsers and schemas.

    cargo run -p mantissa-gate --example formats -- target/formats
    pip install prometheus-client==0.26.0 mlperf-logging==4.1.68 junitparser==5.0.3 lxml==6.1.3 cmarkgfm==2025.10.22 jsonschema==4.26.0
    python peers/validate_formats.py target/formats [--junit-xsd junit-10.xsd]

The example comparison has hostile names that could break each format: quotes, tags, line breaks, control characters, markup of other formats,
10,000 letters. Each parser must accept the file, and must return exactly the values that were written.

`--junit-xsd` is the schema of Jenkins' xUnit plugin (github.com/jenkinsci/xunit-plugin, `…/types/model/xsd/junit-10.xsd`, MIT). The sources of
pytest up to 8.4 also contain it. Bencher's schema is from its documentation, and the rules for github-action-benchmark are from its `extract.ts`;
neither is in a package registry. The keys that MLPerf allows are read from the compliance checker in mlperf-logging.
"""

import argparse
import json
import math
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import cmarkgfm
import jsonschema
import yaml
from junitparser import Error, Failure, JUnitXml, Skipped
from lxml import etree, html
from mlperf_logging.compliance_checker.mlp_parser import parse_file
from prometheus_client.openmetrics.parser import text_string_to_metric_families

BENCHER = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                }
            },
        }
    },
}
BENCHMARK = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "unit": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "value", "unit"],
        "additionalProperties": False,
    },
}
NAMES = ("few", "strict", "many")
HOSTILE_WORDS = ("<script>alert('x')</script>", "::error::b", "@all", "🦀")


def strict_json(text):
    """Parses JSON and rejects NaN and infinities."""
    return json.loads(text, parse_constant=lambda name: exit(f"{name} is not valid JSON"))


def openmetrics(folder):
    # Read bytes, so that line breaks are not converted.
    text = (folder / "openmetrics.txt").read_bytes().decode()
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    assert len(samples) == sum(1 for line in text.split("\n") if line and not line.startswith("#"))
    assert all(math.isfinite(sample.value) for sample in samples)
    units = sum(bool(family.unit) for family in families)
    suites = {sample.labels.get("suite", "") for sample in samples}
    hostile = [suite for suite in suites if "🦀" in suite]
    assert len(hostile) == 1 and all(word in hostile[0] for word in HOSTILE_WORDS) and hostile[0].endswith("\\")
    return f"{len(families)} families, {units} with a unit, {len(samples)} samples"


def mlperf(folder):
    events, failed = parse_file(folder / "mlperf.log", ruleset="6.1.0")
    lines = (folder / "mlperf.log").read_text().count("\n")
    assert not failed and len(events) == lines, failed[:1]
    rules = yaml.safe_load((files("mlperf_logging") / "compliance_checker/training_6.1.0/common.yaml").read_text())
    checks = {rule["KEY"]["NAME"]: rule["KEY"].get("CHECK") for rule in rules if "KEY" in rule}
    checked = 0
    for event in events:
        assert event.value["metadata"].keys() >= {"file", "lineno"}
        if event.key.startswith("lowest_numerical_precision_in_"):
            assert eval(checks[event.key].strip(), {}, {"v": event.value}), event
            checked += 1
        elif not event.key.startswith("mantissa_"):
            known = f'= "{event.key}"'
            assert known in (files("mlperf_logging") / "mllog/constants.py").read_text(), event.key
    workloads = [event.value["value"] for event in events if event.key == "mantissa_cell"]
    assert any(all(word in name for word in HOSTILE_WORDS) for name in workloads)
    return f"{len(events)} events, {checked} precisions checked by the rules of training 6.1.0"


def junit(folder, schema):
    summary = []
    for name in NAMES:
        path = folder / f"{name}.xml"
        cases = [case for suite in JUnitXml.fromfile(str(path)) for case in suite]
        results = [type(result) for case in cases for result in case.result]
        counts = {kind.__name__: results.count(kind) for kind in (Failure, Error, Skipped)}
        suites = JUnitXml.fromfile(str(path))
        assert sum(suite.tests for suite in suites) == len(cases)
        assert sum(suite.failures for suite in suites) == sum(any(isinstance(r, Failure) for r in case.result) for case in cases)
        if schema:
            schema.assertValid(etree.parse(path, etree.XMLParser(huge_tree=True)))
        summary.append(f"{name}: {len(cases)} cases, {counts}")
    return "; ".join(summary)


def markdown(folder):
    summary = []
    for name in NAMES:
        text = (folder / f"{name}.md").read_text()
        page = html.fromstring(cmarkgfm.github_flavored_markdown_to_html(text, options=cmarkgfm.Options.CMARK_OPT_UNSAFE))
        assert "<script" not in text and "<script>alert('x')</script> | `a` ::error::b" in page.text_content()
        tags = {element.tag for element in page.iter() if isinstance(element.tag, str)}
        known = {"p", "strong", "h4", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary", "div"}
        assert tags <= known, tags - known
        tables = page.findall(".//table")
        rows = 0
        for table in tables:
            widths = {len(row) for row in table.iter("tr")}
            assert len(widths) == 1, widths
            rows += len(table.findall(".//tr"))
            # An unescaped bar in a name would split the name into two columns.
            hostile = [cell.text_content() for cell in table.iter("td") if "alert" in cell.text_content()]
            assert all("<script>alert('x')</script> | `a` ::er" in text for text in hostile), hostile
        # GitHub turns `@name` and `#1` outside of code into mentions and links.
        for text_of in page.xpath("//text()[not(ancestor::code or ancestor::pre)]"):
            assert not re.search(r"@\w|#\d", text_of), text_of
        summary.append(f"{name}: {len(text)} characters, {len(tables)} tables, {rows} rows")
    return "; ".join(summary)


def annotations(folder):
    """Parses lines like the runner of GitHub Actions (`ActionCommand.TryParseV2`)."""
    summary = []
    for name in NAMES:
        levels = []
        for line in (folder / f"{name}.txt").read_bytes().decode().splitlines():
            command = re.fullmatch(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)", line)
            assert command, line
            levels.append(command[1])
        summary.append(f"{name}: " + ", ".join(f"{levels.count(level)} {level}" for level in ("error", "warning", "notice")))
    return "; ".join(summary)


def bencher(folder):
    benchmarks = strict_json((folder / "bencher.json").read_text())
    jsonschema.validate(benchmarks, BENCHER)
    assert all(0 < len(name.encode()) <= 1024 for name in benchmarks)
    assert all(len(measure) <= 64 for measures in benchmarks.values() for measure in measures)
    return f"{len(benchmarks)} benchmarks, {sum(map(len, benchmarks.values()))} metrics"


def benchmark_action(folder):
    summary = []
    for name in ("smaller", "bigger"):
        benchmarks = strict_json((folder / f"{name}.json").read_text())
        jsonschema.validate(benchmarks, BENCHMARK)
        summary.append(f"{len(benchmarks)} benchmarks where {name} is better")
    return ", ".join(summary)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="folder with the files to validate")
    parser.add_argument("--junit-xsd", type=Path, help="JUnit schema of Jenkins' xUnit plugin")
    arguments = parser.parse_args()
    folder = arguments.folder
    schema = arguments.junit_xsd and etree.XMLSchema(file=str(arguments.junit_xsd))
    print(f"OpenMetrics, prometheus-client {version('prometheus-client')}: {openmetrics(folder)}")
    print(f"MLPerf log, mlperf-logging {version('mlperf-logging')}: {mlperf(folder)}")
    validators = f"junitparser {version('junitparser')}" + (f" and {arguments.junit_xsd.name} (lxml {version('lxml')})" if schema else "")
    print(f"JUnit XML, {validators}: {junit(folder, schema)}")
    print(f"Markdown, cmarkgfm {version('cmarkgfm')}: {markdown(folder)}")
    print(f"Bencher Metric Format, jsonschema {version('jsonschema')}: {bencher(folder)}")
    print(f"github-action-benchmark, jsonschema {version('jsonschema')}: {benchmark_action(folder)}")
    print(f"Annotations: {annotations(folder)}")


if __name__ == "__main__":
    main()
