//! Tests of the figure of loss curves.

use std::fs;

use crate::support::{RunBuilder, cell, invented, loss, record, run, suite, train_metrics, workload};
use crate::traces::svg_of;
use mantissa_core::{Axis, Status};
use mantissa_report::{Report, Run, figures, render};

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
        these
            .map(|row| row[2].parse::<f64>().unwrap())
            .fold(0.0, f64::max)
    };
    // All curves have 1,000 steps, of micro-batch × accumulation steps. Downsampling may drop the last ten.
    for (series, samples) in [
        ("accumulate 1 · batch 16", 16_000.0),
        ("accumulate 16 · batch 1", 16_000.0),
        ("accumulate 4 · batch 4", 16_000.0),
        ("accumulate 1 · batch 4", 4_000.0),
    ] {
        let last = last(series);
        assert!((0.99 * samples..=samples).contains(&last), "{series}: {last}");
    }
}

/// Creates a run of two batch sizes, of which the first one diverges at step 300.
fn diverging() -> Run {
    let mut run = run(vec![suite("batches", "Two batches", &[], &[Axis::Batch])]);
    for (batch, lost) in [("8", Some(300)), ("16", None)] {
        let cell = cell("batches", &workload("w"), &[(Axis::Batch, batch)]);
        let status = if lost.is_some() {
            Status::Diverged
        } else {
            Status::Ok
        };
        let mut record = record(&cell, status, None);
        train_metrics(&mut record, 50.0, 800, 1e9);
        run.add(record, Some(loss(1, lost)));
    }
    run
}

#[test]
fn the_cross_of_a_divergence_has_the_colour_of_its_curve() {
    let drawn = figures(&Report::new(&diverging()).unwrap());
    let svg = svg_of(&drawn, "batches-loss");
    let colours = |title: &str| {
        let lines: Vec<&str> = svg.lines().collect();
        let groups = lines
            .windows(2)
            .filter(|pair| pair[0].starts_with("<g><title>") && pair[0].contains(title));
        let stroke = |element: &str| element.split_once("stroke=\"").unwrap().1[..7].to_owned();
        let mut colours: Vec<String> = groups.map(|pair| stroke(pair[1])).collect();
        colours.dedup();
        colours
    };
    let (cross, curve, other) = (
        colours("not finite at step 300"),
        colours("batch 8, samples seen"),
        colours("batch 16, samples seen"),
    );
    assert_eq!(cross, curve);
    assert!(curve.len() == 1 && other.len() == 1 && curve != other);
}
