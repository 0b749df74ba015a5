//! Tests of the figure of loss curves.

use std::fs;

use crate::support::invented;
use crate::traces::svg_of;
use mantissa_report::{Report, figures, render};

/// Counts the texts of an SVG that are equal to `text`.
fn count(svg: &str, text: &str) -> usize {
    svg.lines().filter(|line| *line == text).count()
}

#[test]
fn every_panel_names_both_axes() {
    let drawn = figures(&Report::new(&invented()).unwrap());
    let svg = svg_of(&drawn, "article-loss");
    // The article has six precisions, all with the same batch.
    assert_eq!(
        (count(&svg, "training loss, nat"), count(&svg, "optimizer step")),
        (6, 6)
    );
    let svg = svg_of(&drawn, "accumulation-loss");
    assert_eq!(
        (count(&svg, "training loss, nat"), count(&svg, "samples seen")),
        (1, 1)
    );
    assert!(svg.contains("by samples seen") && !svg.contains("optimizer step"));
}

#[test]
fn settings_with_different_batches_are_compared_by_samples_seen() {
    let folder = tempfile::tempdir().unwrap();
    render(&invented(), folder.path()).unwrap();
    let csv = fs::read_to_string(folder.path().join("figures/accumulation-loss.csv")).unwrap();
    let last = |series: &str| {
        let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
        let rows = reader.records().map(Result::unwrap);
        let these = rows.filter(|row| row[0].ends_with(series) && &row[1] == "samples seen");
        these.map(|row| row[2].parse::<f64>().unwrap()).fold(0.0, f64::max)
    };
    // All curves have 1,000 steps, of micro-batch × accumulation steps. Downsampling may drop the last ten.
    for (series, samples) in [
        ("batch 16 · accumulate 1", 16_000.0),
        ("batch 1 · accumulate 16", 16_000.0),
        ("batch 4 · accumulate 4", 16_000.0),
        ("batch 4 · accumulate 1", 4_000.0),
    ] {
        let last = last(series);
        assert!((0.99 * samples..=samples).contains(&last), "{series}: {last}");
    }
}
