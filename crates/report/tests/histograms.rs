//! Tests of the histograms of exponents and of ULP distances, on invented runs.

use crate::comparisons::{empty_run, figure_and_svg};
use crate::support::{RunBuilder, cell, matmul, record, workload};
use mantissa_core::{
    Axis, Format, Metric, MetricName, RangeCounts, Samples, Series, SeriesName, Status, TensorClass,
    TensorRange,
};
use mantissa_report::Run;

/// Adds a record with counts of exponents of the gradients of a layer.
fn add_exponent_counts(run: &mut Run, counts: RangeCounts, layer: &str) {
    add_class_counts(run, TensorClass::Gradient, counts, layer);
}

/// Adds a record with counts of exponents in a layer.
fn add_class_counts(run: &mut Run, class: TensorClass, counts: RangeCounts, layer: &str) {
    let cell = cell("s", &workload("w"), &[(Axis::Precision, "16-true")]);
    let mut record = record(&cell, Status::Ok, None);
    let share = counts.underflow as f64 / counts.elements.max(1) as f64;
    let metric = Metric::reading(MetricName::UnderflowShare, share, "invented");
    record.metrics.insert(MetricName::UnderflowShare, metric);
    let range = TensorRange {
        step: 1,
        layer: layer.into(),
        class,
        format: Format::F16,
        reference: Format::F64,
        counts,
    };
    let samples = Samples {
        ranges: vec![range],
        ..Samples::default()
    };
    run.add(record, Some(samples));
}

#[test]
fn underflow_is_counted_and_its_range_is_shaded() {
    let mut run = empty_run(&[Axis::Precision]);
    let counts = RangeCounts {
        elements: 1_000,
        underflow: 250,
        lowest_exponent: -30,
        exponents: [vec![250], vec![0; 19], vec![750]].concat(),
        ..RangeCounts::default()
    };
    add_exponent_counts(&mut run, counts, "classifier.weight");
    let (figure, svg) = figure_and_svg(&run, "s-ranges").unwrap();
    for text in [
        "25.00 % of gradients underflow to 0",
        "gradients · f16",
        "25.00 % in classifier.weight",
        "1 observed step",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert_eq!(
        svg.matches("#FBE3D6").count(),
        1,
        "only the range below the smallest normal value is shaded"
    );
    assert!(figure.folded);
}

#[test]
fn lost_weight_updates_are_not_explained_by_the_range_of_the_format() {
    let counts = RangeCounts {
        elements: 10_000,
        underflow: 9_997,
        lowest_exponent: -30,
        exponents: vec![5_000, 4_997, 3],
        ..RangeCounts::default()
    };
    let mut run = empty_run(&[Axis::Precision]);
    add_class_counts(&mut run, TensorClass::WeightUpdate, counts, "classifier.weight");
    let svg = figure_and_svg(&run, "s-ranges").unwrap().1;
    for text in [
        "99.97 % of weight updates are lost next to larger weights or overflow",
        "99.97 % lost next to larger weights; up to",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    // All updates are below the smallest normal value of f16, 2⁻¹⁴, which is not why they are lost.
    assert!(!svg.contains("#FBE3D6"));
}

#[test]
fn hostile_counts_of_exponents_are_drawn_or_left_out() {
    let counts = |lowest_exponent, exponents| RangeCounts {
        elements: u64::MAX,
        underflow: u64::MAX,
        overflow: u64::MAX,
        lowest_exponent,
        exponents,
        ..RangeCounts::default()
    };
    for (lowest, exponents, shown) in [
        (i32::MIN, vec![1; 50], false),
        (i32::MAX, vec![1; 50], false),
        (-1_074, vec![u64::MAX; 3_000], true),
        (0, vec![], false),
        (0, vec![0; 40], false),
        (-14, vec![1], true),
    ] {
        let mut run = empty_run(&[Axis::Precision]);
        add_exponent_counts(&mut run, counts(lowest, exponents), &"wide.".repeat(1_000));
        assert_eq!(figure_and_svg(&run, "s-ranges").is_some(), shown, "{lowest}");
    }
}

/// Adds a matmul with a histogram of the ULP distances of the results, in bins of doubling width.
pub fn add_ulp_distances(run: &mut Run, precision: &str, counts: &[f64]) {
    let cell = cell(
        "s",
        &matmul(),
        &[(Axis::Precision, precision), (Axis::Size, "64")],
    );
    let mut series = Series::new(SeriesName::UlpDistance);
    for (bin, count) in counts.iter().enumerate() {
        series.push(0.5 * (bin as f64).exp2(), *count);
    }
    let samples = Samples {
        series: vec![series],
        ..Samples::default()
    };
    run.add(record(&cell, Status::Ok, None), Some(samples));
}

#[test]
fn ulp_distances_are_shown_as_shares_per_setting() {
    let mut run = empty_run(&[Axis::Precision]);
    add_ulp_distances(&mut run, "32-true", &[900.0, 80.0, 20.0]);
    assert!(
        figure_and_svg(&run, "s-ulps").is_none(),
        "a single setting has no figure"
    );
    add_ulp_distances(&mut run, "16-true", &[100.0, 0.0, 0.0, 0.0, 1.0]);
    add_ulp_distances(&mut run, "bf16-true", &[f64::NAN, f64::INFINITY, -3.0, 0.0]);
    let (_, svg) = figure_and_svg(&run, "s-ulps").unwrap();
    for text in [
        "Results differ from float64 by up to 8 ULP of their own formats",
        "90.00 % within 0.5 ULP, all within 2",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(
        !svg.contains("bf16-true"),
        "a setting without valid counts is not drawn"
    );
    add_ulp_distances(&mut run, "64-true", &[1e300; 4_000]);
    figure_and_svg(&run, "s-ulps").unwrap();
}

/// Returns the elements and the texts of an SVG between two texts.
fn between<'s>(svg: &'s str, from: &str, to: &str) -> &'s str {
    let (_, rest) = svg.split_once(&format!("\n{from}\n")).unwrap();
    rest.split_once(&format!("\n{to}\n"))
        .map_or(rest, |(panel, _)| panel)
}

/// Returns the left edges and the widths of the bars of a panel, in quarters of a logical pixel.
fn bars(panel: &str) -> Vec<(f64, f64)> {
    let bars = panel
        .lines()
        .filter(|line| line.starts_with("<rect") && line.contains("#0072B2"));
    let number = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    bars.map(|line| (number(line, "x"), number(line, "width")))
        .collect()
}

#[test]
fn panels_share_their_horizontal_range_and_a_single_bar_does_not_fill_its_panel() {
    let mut run = empty_run(&[Axis::Precision]);
    add_ulp_distances(&mut run, "16-true", &[100.0]);
    add_ulp_distances(&mut run, "32-true", &[90.0, 10.0]);
    let svg = figure_and_svg(&run, "s-ulps").unwrap().1;
    let (one, two) = (
        bars(between(&svg, "16-true", "32-true")),
        bars(between(&svg, "32-true", "")),
    );
    assert_eq!((one.len(), two.len()), (1, 2));
    // Equal distances have bars of equal width, at the same distance from the left edge of their panel.
    assert!((one[0].1 - two[0].1).abs() <= 1.0, "{one:?} {two:?}");
    // Two panels of 960 logical pixels at most, each with room for at least 8 bars.
    assert!(one[0].1 < 4.0 * 960.0 / 2.0 / 8.0, "{one:?}");
}

#[test]
fn no_result_within_half_a_unit_is_0_percent_without_a_sign() {
    let mut run = empty_run(&[Axis::Precision]);
    add_ulp_distances(&mut run, "16-true", &[0.0, 0.0, 30.0]);
    add_ulp_distances(&mut run, "32-true", &[90.0, 10.0]);
    let svg = figure_and_svg(&run, "s-ulps").unwrap().1;
    assert!(svg.contains("\n0 % within 0.5 ULP, all within 2\n"), "{svg}");
}

#[test]
fn only_a_share_of_all_results_is_100_percent() {
    let mut run = empty_run(&[Axis::Precision]);
    add_ulp_distances(&mut run, "16-true", &[99_999.0, 1.0]);
    add_ulp_distances(&mut run, "32-true", &[100_000.0]);
    let svg = figure_and_svg(&run, "s-ulps").unwrap().1;
    assert!(
        svg.contains("\n&gt; 99.99 % within 0.5 ULP, all within 1\n"),
        "{svg}"
    );
    assert!(svg.contains("\n100 % within 0.5 ULP, all within 0.5\n"), "{svg}");
    assert!(
        svg.contains(": &gt; 99.99 %</title>") && svg.contains(": 100 %</title>"),
        "{svg}"
    );
}
