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

/// Creates a run of three matmul precisions whose losses are those of `seeds`.
fn with_losses(seeds: [u32; 3]) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Matmul])]);
    for (matmul, seed) in ["highest", "high", "medium"].into_iter().zip(seeds) {
        let axes = [(Axis::Precision, "bf16-mixed"), (Axis::Matmul, matmul)];
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        train_metrics(&mut record, 50.0, 800, 1e9);
        run.add(record, Some(loss(seed, None)));
    }
    run
}

#[test]
fn lines_that_coincide_alternate_in_pieces() {
    let drawn = |seeds| {
        let drawn = figures(&Report::new(&with_losses(seeds)).unwrap());
        let svg = svg_of(&drawn, "s-loss");
        let pieces = ["highest", "high", "medium"]
            .map(|matmul| svg.matches(&format!("<g><title>bf16-mixed · {matmul}, ")).count());
        let figure = drawn.iter().find(|figure| figure.id == "s-loss").unwrap();
        (pieces, figure.caption.contains("coincide"))
    };
    // The lines of different seeds are several pixels apart.
    let (apart, is_noted) = drawn([1, 2, 3]);
    assert!(apart.iter().all(|pieces| *pieces > 30) && !is_noted, "{apart:?}");
    let (all, is_noted) = drawn([1, 1, 1]);
    assert!(
        all.iter().all(|pieces| *pieces >= apart[0] / 3) && is_noted,
        "{all:?}"
    );
    assert_eq!(all.iter().sum::<usize>(), apart[0]);
    let (two, is_noted) = drawn([1, 2, 1]);
    assert!(two[0].abs_diff(two[2]) <= 1 && is_noted, "{two:?}");
    assert_eq!((two[0] + two[2], two[1]), (apart[0], apart[1]));
}
