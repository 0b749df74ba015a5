//! Compares the values of settings in tables, figures, advice and exports, place by place.

use std::{collections::BTreeMap, fs};

use mantissa_core::Record;
use mantissa_report::{Budget, ExportFormat, Report, advise, export, figures, markdown, render};

use super::{
    facts::{Fact, Setting, settings},
    invented::traced_run,
    prints,
    text::{UNITS, blocks, decoded, numbers},
};

/// Values that the titles of columns, panels and marks name.
const TITLES: [(&str, &[&str]); 24] = [
    ("time", &["train_seconds"]),
    ("Training time", &["train_seconds"]),
    ("Training time (first row = 1)", &["train_seconds, ratio"]),
    ("Time per sample", &["seconds per sample"]),
    ("throughput", &["flops_per_second"]),
    ("matmul speed", &["flops_per_second", "flops_per_second, ratio"]),
    ("matmul error", &["relative_error"]),
    ("training speed", &["train_seconds", "train_seconds, advantage"]),
    (
        "tokens/s",
        &["decode_tokens_per_second", "decode_tokens_per_second, ratio"],
    ),
    ("process memory", &["host_peak_bytes", "host_peak_bytes, ratio"]),
    (
        "tensor memory",
        &["memory breakdown, total", "memory breakdown, ratio of the total"],
    ),
    ("peak memory", &["host_peak_bytes"]),
    ("Peak memory", &["host_peak_bytes"]),
    ("Peak memory (first row = 1)", &["host_peak_bytes, ratio"]),
    ("Test accuracy", &["test_accuracy"]),
    ("accuracy change", &["accuracy change"]),
    ("largest error", &["max_ulp"]),
    ("energy", &["energy_counter_joules"]),
    ("Energy by NVML counter", &["energy_counter_joules"]),
    ("weights", &["weights_bytes"]),
    ("optimizer state", &["optimizer_bytes"]),
    ("gradients", &["gradients_bytes"]),
    ("copies of weights", &["weight_copies_bytes"]),
    ("activations", &["activations_bytes"]),
];

/// Returns the values that a title names, or that of the metric with this name.
fn named(title: &str) -> Vec<String> {
    // Titles state the basis of intervals in parentheses.
    let short = title.split(" (").next().unwrap_or(title);
    let find = |title: &str| TITLES.iter().find(|(known, _)| *known == title);
    match find(title).or_else(|| find(short)) {
        Some((_, values)) => values.iter().map(|value| (*value).to_owned()).collect(),
        None => vec![short.replace(' ', "_")],
    }
}

/// Returns the ratio of the speed of a setting to that of its baseline.
fn speed(setting: &Setting) -> String {
    let rates = [
        "flops_per_second",
        "samples_per_second",
        "decode_tokens_per_second",
    ];
    match rates.iter().find(|rate| setting.get(rate).is_some()) {
        Some(rate) => format!("{rate}, ratio"),
        None if setting.get("train_seconds, ratio") == Some(1.0) => "train_seconds, ratio".to_owned(),
        None => "train_seconds, advantage".to_owned(),
    }
}

type Line = BTreeMap<String, String>;

fn csv(text: &str) -> Vec<Line> {
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Asserts that a recorded number is one of the values of a setting, and that the ends are those of its interval.
fn assert_value(setting: &Setting, values: &[String], recorded: [Option<f64>; 3], place: &str) {
    let is_same = |what: &String| {
        let names = [what.clone(), format!("{what}, low"), format!("{what}, high")];
        let mut both = names.iter().map(|name| setting.get(name)).zip(recorded);
        both.all(|(known, recorded)| match (known, recorded) {
            (Some(known), Some(recorded)) => is_near(known, recorded),
            (known, None) => known.is_none() || recorded.is_none(),
            (None, Some(_)) => false,
        })
    };
    let found = recorded[0].is_some() && values.iter().any(is_same);
    let known: Vec<_> = values.iter().map(|value| (value, setting.get(value))).collect();
    let labels = &setting.labels;
    assert!(found, "{recorded:?} is not {known:?} of {labels:?} in {place}");
}

/// Asserts that the first number of a text is one of the values of a setting, and that the others are its interval, its ratio to the
/// baseline, its parts or counts.
fn assert_printed(setting: &Setting, values: &[String], text: &str, place: &str) {
    let found = numbers(text);
    let units: Vec<&str> = found.iter().map(|number| number.unit).collect();
    let is_value = |fact: &&Fact| values.contains(&fact.what);
    let is_part = |fact: &&Fact| {
        let of_value = |value: &String| fact.what.starts_with(&format!("{value},"));
        is_value(fact) || values.iter().any(of_value) || fact.what.ends_with("_error")
    };
    for (index, number) in found.iter().enumerate() {
        let known = setting
            .facts
            .iter()
            .filter(|fact| if index == 0 { is_value(fact) } else { is_part(fact) });
        let known: Vec<&Fact> = known.collect();
        let (before, after) = (&text[..number.start], text[number.end..].trim_start());
        let is_count =
            before.ends_with("n ") || ["processes", "seeds"].iter().any(|noun| after.starts_with(noun));
        let is_known = (is_count && index > 0) || known.iter().any(|fact| prints(number, fact, &units));
        assert!(
            is_known,
            "{number:?} of {text:?} is not {known:?} of {:?} in {place}",
            setting.labels
        );
    }
    assert!(!found.is_empty(), "no number in {text:?} in {place}");
}

fn dimension(unit: &str) -> &'static str {
    let known = UNITS.iter().find(|(name, ..)| *name == unit);
    known.map_or("", |(_, dimension, _)| dimension)
}

#[test]
fn every_mark_of_a_figure_has_the_value_of_its_setting() {
    let run = traced_run();
    let report = Report::new(&run).unwrap();
    let settings = settings(&report);
    let folder = tempfile::tempdir().unwrap();
    render(&run, folder.path()).unwrap();
    let mut marks = 0;
    for figure in figures(&report) {
        let Some(suite) = &figure.suite else { continue };
        let svg = figure.canvas.svg().unwrap();
        let texts = blocks(&svg.replace("<title>", "<title>hover: "));
        let hovers: Vec<&str> = texts
            .iter()
            .filter_map(|text| text.strip_prefix("hover: "))
            .collect();
        // A part of a bar without width is not drawn.
        let mut lines =
            csv(&fs::read_to_string(folder.path().join(format!("figures/{}.csv", figure.id))).unwrap());
        lines.retain(|line| line["value"] != "0");
        assert_eq!(hovers.len(), lines.len(), "{}", figure.id);
        for (line, hover) in lines.iter().zip(hovers) {
            let place = format!("{}: {line:?}", figure.id);
            let size = line["x"].parse::<f64>().ok().filter(|_| line["x_name"] == "size");
            let is_size = |setting: &&Setting| {
                let ends = |size| {
                    setting
                        .labels
                        .iter()
                        .any(|label| label.ends_with(&format!("size {size}")))
                };
                size.is_none_or(ends)
            };
            let mut of_suite = settings
                .iter()
                .filter(|setting| setting.suite == *suite)
                .filter(is_size);
            // Without a size, a figure of kernels shows the largest one, which is the last.
            let setting = of_suite.rfind(|setting| setting.labels.contains(&line["series"]));
            let setting = setting.unwrap_or_else(|| panic!("{place}"));
            let number = |field: &str| line[field].parse::<f64>().ok();
            let values = match line["name"].as_str() {
                "Speed relative to the baseline" => vec![speed(setting)],
                name => named(name),
            };
            assert_value(setting, &values, ["value", "low", "high"].map(number), &place);
            if !line["x"].is_empty() && size.is_none() {
                assert_value(
                    setting,
                    &named(&line["x_name"]),
                    ["x", "x_low", "x_high"].map(number),
                    &place,
                );
            }
            // The text on hover shows the value in a readable unit.
            let value = number("value").unwrap();
            let printed = numbers(hover.rsplit(": ").next().unwrap());
            let is_printed = printed.iter().any(|number| {
                let (what, dimension) = (String::new(), dimension(number.unit));
                prints(
                    number,
                    &Fact {
                        what,
                        dimension,
                        value,
                    },
                    &[],
                )
            });
            assert!(is_printed, "{hover} in {place}");
            marks += 1;
        }
    }
    assert!(marks > 60, "{marks}");
}

/// Returns the rows of the Markdown tables of a text after a line, with the titles of their columns.
fn tables<'t>(text: &'t str) -> impl Iterator<Item = (Vec<&'t str>, Vec<&'t str>)> {
    let fields = |line: &'t str| {
        line.trim_matches(['|', ' '])
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    let mut titles: Vec<&str> = Vec::new();
    let mut is_table = false;
    text.lines().filter_map(move |line| {
        let starts = line.starts_with("| ") && !is_table;
        is_table = line.starts_with("| ");
        if starts {
            titles = fields(line);
        }
        (is_table && !starts && !line.starts_with("| --")).then(|| (titles.clone(), fields(line)))
    })
}

#[test]
fn tables_overview_advice_and_exports_have_the_same_values() {
    let run = traced_run();
    let report = Report::new(&run).unwrap();
    let settings = settings(&report);
    let summary = decoded(&markdown(&report));
    let (overview, sections) = summary.split_once("## ").unwrap();
    let of_suite = |suite: &str, label: &str| {
        let mut known = settings.iter().filter(|setting| setting.suite == suite);
        known.find(|setting| setting.labels.iter().any(|known| known == label))
    };
    let mut compared = 0;
    for section in sections.split("## ") {
        let suite = section.lines().next().unwrap().trim_start_matches("Suite ");
        for (titles, fields) in tables(section) {
            let axes = titles.iter().position(|title| *title == "verdict").unwrap();
            let setting = of_suite(suite, &fields[..axes].join(" · ")).unwrap();
            for (title, text) in titles.iter().zip(&fields).skip(axes + 1) {
                let values = match *title {
                    "operands → accumulator (requested, executed)" | "processes" => continue,
                    "speed (relative to baseline)" => vec![speed(setting)],
                    title => named(title),
                };
                if *text != "–" {
                    assert_printed(setting, &values, text, &format!("{title} of {suite}"));
                    compared += 1;
                }
            }
        }
    }
    // The columns of the overview are from the suites in these places, of which the kernels are shown at the largest size.
    let sources = [
        "kernels",
        "kernels",
        "training",
        "training",
        "training",
        "generation",
    ];
    for (titles, fields) in tables(overview).filter(|(titles, _)| titles[0] == "setting") {
        for ((title, text), suite) in titles.iter().zip(&fields).skip(1).zip(sources) {
            let mut known = settings.iter().rev().filter(|setting| setting.suite == suite);
            let setting = known.find(|setting| setting.labels.iter().any(|label| label == fields[0]));
            if let Some(setting) = setting.filter(|_| !matches!(*text, "–" | "baseline")) {
                assert_printed(setting, &named(title), text, &format!("{title} of the overview"));
                compared += 1;
            }
        }
    }
    for workload in advise(&report, &Budget::default()).workloads {
        for one in workload.choices.iter().flat_map(|work| &work.evidence) {
            let setting = settings
                .iter()
                .find(|setting| setting.cells == one.cells)
                .unwrap();
            let place = format!("the advice on {}", workload.suite);
            let ratios = [
                (&one.speed, speed(setting)),
                (&one.memory, "host_peak_bytes, ratio".to_owned()),
            ];
            for (ratio, what) in ratios {
                let Some(ratio) = ratio else { continue };
                assert_value(
                    setting,
                    &[what],
                    [Some(ratio.value), ratio.low, ratio.high],
                    &place,
                );
                compared += 1;
            }
            if let Some(loss) = &one.accuracy_loss {
                let change = [
                    Some(-loss.value),
                    loss.high.map(|high| -high),
                    loss.low.map(|low| -low),
                ];
                assert_value(setting, &["accuracy change".to_owned()], change, &place);
            }
            let cost = workload.cost.unwrap().name().to_owned();
            assert_value(setting, &[cost], [one.cost, None, None], &place);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    render(&run, folder.path()).unwrap();
    for line in csv(&fs::read_to_string(folder.path().join("results.csv")).unwrap()) {
        let is_process = |record: &&Record| {
            record.cell.id.as_str() == line["cell"] && record.repeat.to_string() == line["repeat"]
        };
        let record = run.records.iter().find(is_process).unwrap();
        for (metric, recorded) in &record.metrics {
            assert_eq!(
                line[metric.name()].parse().ok(),
                recorded.value,
                "{metric} in results.csv"
            );
            compared += 1;
        }
    }
    let exported = export(std::slice::from_ref(&run), ExportFormat::Csv, &[]).unwrap();
    for line in csv(&String::from_utf8(exported).unwrap()) {
        let has_cell = |setting: &&Setting| setting.cells.iter().any(|cell| cell.as_str() == line["cell"]);
        let setting = settings.iter().find(has_cell).unwrap();
        let what = format!("{}, seed {}", line["metric"], line["seed"]);
        assert_value(
            setting,
            &[what],
            [line["value"].parse().ok(), None, None],
            "export",
        );
        compared += 1;
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn details_of_cells_have_the_values_of_their_processes() {
    let run = traced_run();
    let settings = settings(&Report::new(&run).unwrap());
    let folder = tempfile::tempdir().unwrap();
    render(&run, folder.path()).unwrap();
    let mut compared = 0;
    for suite in &run.plan.suites {
        let page = fs::read_to_string(folder.path().join(format!("suites/{}.html", suite.name))).unwrap();
        let (_, script) = page.split_once("id=\"facts\">").unwrap();
        let details: serde_json::Value =
            serde_json::from_str(script.split_once("</script>").unwrap().0).unwrap();
        let text = |index: &serde_json::Value| {
            details["texts"][index.as_u64().unwrap() as usize]
                .as_str()
                .unwrap()
        };
        for cell in page.split("data-cell=\"").skip(1) {
            let (index, rest) = cell.split_once('"').unwrap();
            let id = rest
                .split_once("<code>")
                .unwrap()
                .1
                .split_once("</code>")
                .unwrap()
                .0;
            let setting = settings
                .iter()
                .find(|setting| setting.cells.iter().any(|cell| cell.as_str() == id));
            let (setting, record) = (
                setting.unwrap(),
                run.records.iter().find(|record| record.cell.id.as_str() == id),
            );
            let seed = record.unwrap().cell.seed;
            let tables = details["cells"][index.parse::<usize>().unwrap()]
                .as_array()
                .unwrap();
            let tables = tables
                .iter()
                .map(|table| &details["tables"][table.as_u64().unwrap() as usize]);
            for table in tables.filter(|table| text(&table[0]) == "Metrics") {
                for row in table[2].as_array().unwrap() {
                    let what = format!("{}, seed {seed}", text(&row[0]));
                    assert_printed(setting, &[what], text(&row[1]), id);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50, "{compared}");
}
