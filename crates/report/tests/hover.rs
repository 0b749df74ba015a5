//! Tests of the values of figures: hover texts, CSV files and links.

use std::{collections::BTreeMap, fs};

use crate::support::invented;
use crate::traces::{run_with_traces, svg_of};
use mantissa_report::{Report, figures, render, render_single_file};

/// Parses a CSV into rows by column name.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn hover_texts_name_the_series_and_the_value_with_its_unit() {
    let run = invented();
    let drawn = figures(&Report::new(&run).unwrap());
    for (id, text) in [
        // 171.2 s and 861 of 1,000 examples.
        ("article-times", "32-true · highest: 2.85 min"),
        ("article-times", "32-true · highest: 86.10 %"),
        // 171.2 s / 92.6 s.
        ("article-speed", "bf16-true: 1.85×"),
        (
            "article-pareto",
            "32-true · highest, Training time 2.85 min: 86.10 %",
        ),
        ("article-memory", "32-true · highest: activations 400.0 MB"),
        ("article-loss", "16-true: not finite at step 412"),
        // 92 GFLOP/s · (1 − exp(−64 / 300)).
        ("kernels-kernel", "64-true, size 64: 17.67 GFLOP/s"),
        ("formats", "bf16: 8 bits of exponent"),
    ] {
        let svg = svg_of(&drawn, id);
        assert!(
            svg.contains(&format!("<g><title>{text}</title>\n<")),
            "{id}: {text}"
        );
    }
}

#[test]
fn a_csv_has_one_row_per_mark_in_base_units() {
    let folder = tempfile::tempdir().unwrap();
    render(&invented(), folder.path()).unwrap();
    let read = |id: &str| fs::read_to_string(folder.path().join(format!("figures/{id}.csv"))).unwrap();
    let times = rows(&read("article-times"));
    let found = times
        .iter()
        .find(|row| row["series"] == "32-true · highest" && row["name"] == "train_seconds");
    let found = found.expect("the bar of the baseline");
    let number = |name: &str| found[name].parse::<f64>().unwrap();
    // The invented interval is ±1.5 %.
    assert!((number("value") - 171.2).abs() < 1e-9 && found["unit"] == "s");
    assert!((number("low") - 168.632).abs() < 1e-9 && (number("high") - 173.768).abs() < 1e-9);
    let kernels = read("kernels-kernel");
    let drawn = figures(&Report::new(&invented()).unwrap()).into_iter();
    let svg = svg_of(&drawn.collect::<Vec<_>>(), "kernels-kernel");
    // Throughputs of six settings at five sizes; errors and the exponent of their power law for all settings but 64-true, whose error is 0.
    assert_eq!(rows(&kernels).len(), 6 * 5 + 5 * (5 + 1));
    assert_eq!(svg.matches("<title>").count(), 6 * 5 + 5 * (5 + 1));
}

#[test]
fn every_figure_has_a_csv_with_values() {
    for run in [invented(), run_with_traces()] {
        let folder = tempfile::tempdir().unwrap();
        render_single_file(&run, folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        for figure in figures(&Report::new(&run).unwrap()) {
            for (format, name) in [("png", "PNG"), ("svg", "SVG"), ("csv", "CSV")] {
                let file = format!("figures/{}.{format}", figure.id);
                assert!(page.contains(&format!("<a href=\"{file}\">{name}</a>")), "{file}");
                assert!(folder.path().join(&file).is_file(), "{file}");
            }
            let csv = folder.path().join(format!("figures/{}.csv", figure.id));
            let rows = rows(&fs::read_to_string(csv).unwrap());
            assert!(!rows.is_empty(), "{}", figure.id);
            for row in rows {
                assert!(row["value"].parse::<f64>().unwrap().is_finite(), "{row:?}");
                assert!(!row["series"].is_empty() && !row["unit"].is_empty(), "{row:?}");
            }
        }
    }
}

#[test]
fn hover_texts_of_a_curve_cover_its_whole_length() {
    let drawn = figures(&Report::new(&run_with_traces()).unwrap());
    let svg = svg_of(&drawn, "s-trace");
    // The temperature has 600 readings in 59.9 s and no gap, and is drawn with at most 500 points.
    let hovers = svg
        .lines()
        .filter(|line| line.starts_with("<g><title>Temperature, after "));
    let seconds = hovers.map(|line| {
        let (_, rest) = line.split_once("after ").unwrap();
        rest.split_once(" s:").unwrap().0.parse::<f64>().unwrap()
    });
    let seconds: Vec<f64> = seconds.collect();
    assert!(seconds.len() > 30 && seconds.is_sorted(), "{seconds:?}");
    assert!(
        seconds[0] < 2.0 && seconds[seconds.len() - 1] > 57.0,
        "{seconds:?}"
    );
}
