//! Tests of the figures of an invented run.

use std::{collections::HashSet, fs};

use crate::support::{RunBuilder, cell, invented, loss, record, run, suite, workload};
use crate::traces::{run_with_traces, svg_of};
use mantissa_core::{Axis, Cell, Metric, MetricName, Status};
use mantissa_report::{Report, figures, html, markdown, render};

/// Decodes a PNG and returns its size and number of colours.
fn decode(bytes: &[u8]) -> (u32, u32, usize) {
    let mut reader = png::Decoder::new(bytes).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let colours: HashSet<&[u8]> = pixels.chunks_exact(3).collect();
    (info.width, info.height, colours.len())
}

#[test]
fn every_png_is_twice_its_svg_in_size_and_not_blank() {
    let run = invented();
    let drawn = figures(&Report::new(&run).unwrap());
    let ids: Vec<&str> = drawn.iter().map(|figure| figure.id.as_str()).collect();
    let expected = [
        "article-times",
        "article-speed",
        "article-pareto",
        "article-memory",
        "article-loss",
        "accumulation-accumulation",
        "accumulation-speed",
        "accumulation-pareto",
        "accumulation-loss",
        "kernels-kernel",
        "kernels-speed",
        "formats",
    ];
    assert_eq!(ids, expected);
    for figure in &drawn {
        let (width, height, colours) = decode(&figure.canvas.png().unwrap());
        let svg = figure.canvas.svg().unwrap();
        assert!(
            svg.starts_with(&format!("<svg width=\"{}\" height=\"{}\"", width / 2, height / 2)),
            "{}",
            figure.id
        );
        assert!(colours > 20, "{} has {colours} colours", figure.id);
    }
}

#[test]
fn the_chart_prints_times_accuracies_memory_and_failures() {
    let run = invented();
    let drawn = figures(&Report::new(&run).unwrap());
    let svg = drawn[0].canvas.svg().unwrap();
    for text in [
        "5.17 min",
        "2.85 min",
        "1.64 min",
        "85.80 %",
        "1.71 GB",
        "diverged",
        "failed",
        "host, worker process",
    ] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn memory_savings_are_in_the_figure_and_the_headline() {
    let run = invented();
    let report = Report::new(&run).unwrap();
    let svg = svg_of(&figures(&report), "article-memory");
    for text in [
        "16-mixed · highest needs 0.81× the memory of 32-true · highest",
        "copies of weights",
        "activations",
        "1.28 GB",
        "0.52 GB",
        "invented",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let answer = report.suites[0].groups[0].answer.join(" ");
    let saving = "16-mixed · highest needs 0.62× the activations and adds copies of weights (4 % of the baseline's \
                  total); in total it needs 0.81× the memory of 32-true · highest.";
    assert!(answer.contains(saving), "{answer}");
}

#[test]
fn estimated_memory_is_shown_next_to_measured_memory() {
    let mut run = invented();
    let pairs = [
        (MetricName::WeightsBytes, MetricName::EstimatedWeightsBytes),
        (
            MetricName::WeightCopiesBytes,
            MetricName::EstimatedWeightCopiesBytes,
        ),
        (
            MetricName::ActivationsBytes,
            MetricName::EstimatedActivationsBytes,
        ),
        (MetricName::GradientsBytes, MetricName::EstimatedGradientsBytes),
        (MetricName::OptimizerBytes, MetricName::EstimatedOptimizerBytes),
    ];
    for record in &mut run.records {
        for (measured, estimated) in pairs {
            if let Some(bytes) = record.metrics.get(&measured).and_then(|metric| metric.value) {
                let metric = Metric::reading(estimated, bytes / 1.25, "invented");
                record.metrics.insert(estimated, metric);
            }
        }
    }
    let report = Report::new(&run).unwrap();
    let svg = svg_of(&figures(&report), "article-memory");
    assert!(svg.contains("strip: estimated from shapes"));
    let page = html(&report, &[]).unwrap();
    for text in [
        "400.0 MB<small>1.25× the estimated 320.0 MB</small>",
        "0.81×<small>estimated 0.81×</small>",
        "the measured total is 1.25× the estimate.",
        "16-mixed · highest needs 0.81× the memory of 32-true · highest instead of half: weights, ",
        "150.0 MB less activations, 26.0 MB more copies of weights",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn a_memory_breakdown_needs_every_part() {
    let mut run = invented();
    for record in &mut run.records {
        record.metrics.remove(&MetricName::WeightCopiesBytes);
    }
    let report = Report::new(&run).unwrap();
    assert!(
        figures(&report)
            .iter()
            .all(|figure| figure.id != "article-memory")
    );
    assert!(
        !report.suites[0].groups[0]
            .answer
            .join(" ")
            .contains("activations")
    );
}

#[test]
fn the_loss_figure_marks_the_first_non_finite_loss() {
    let run = invented();
    let drawn = figures(&Report::new(&run).unwrap());
    assert!(svg_of(&drawn, "article-loss").contains("not finite at step 412"));
}

#[test]
fn seeds_of_a_setting_are_one_loss_curve_with_a_band() {
    let workload = workload("distilbert");
    let draw = |precisions: &[&str], lost: [Option<u32>; 3]| {
        let mut run = run(vec![suite("seeds", "Three seeds", &[], &[Axis::Precision])]);
        for precision in precisions {
            for (seed, lost) in (1..).zip(lost) {
                let at = cell("seeds", &workload, &[(Axis::Precision, precision)]);
                let seeded = Cell::new("seeds", workload.clone(), at.setting, seed.into());
                let lost = lost.filter(|_| *precision == "16-true");
                run.add(record(&seeded, Status::Ok, None), Some(loss(seed, lost)));
            }
        }
        let drawn = figures(&Report::new(&run).unwrap());
        let loss = drawn
            .into_iter()
            .find(|figure| figure.id == "seeds-loss")
            .unwrap();
        (loss.canvas.svg().unwrap(), loss.caption)
    };
    let both = ["32-true", "16-true"];
    let (svg, caption) = draw(&both, [None, None, Some(1)]);
    assert_eq!(
        svg.matches("<polygon").count(),
        2,
        "one band per setting, over the seeds with a finite loss"
    );
    assert!(caption.contains("means of 3 seeds"), "{caption}");
    assert!(svg.contains("not finite from step 1: 1 of 3 seeds"));
    let (svg, _) = draw(&both, [Some(500), Some(300), Some(1)]);
    assert!(svg.contains("not finite from step 1: 3 of 3 seeds"));
    assert_eq!(
        svg.matches("<polygon").count(),
        1,
        "16-true has no band: its seeds have no common step with a finite loss"
    );
    let (svg, _) = draw(&both[1..], [Some(1); 3]);
    assert!(svg.contains("3 of 3 seeds") && !svg.contains("NaN"), "{svg}");
}

#[test]
fn the_chart_has_one_bar_per_setting_for_any_number_of_seeds() {
    let mut run = run(vec![suite("article", "Seeds", &[], &[Axis::Seed])]);
    for (precision, scale) in [("32-true", 1.0), ("bf16-true", 0.5)] {
        let at = cell("article", &workload("w"), &[(Axis::Precision, precision)]);
        for (seed, seconds) in (1..).zip([300.0, 100.0, 200.0]) {
            let seeded = Cell::new("article", workload("w"), at.setting.clone(), seed);
            let lost = precision == "bf16-true" && seed == 1;
            let status = if lost { Status::Diverged } else { Status::Ok };
            let mut record = record(&seeded, status, None);
            crate::support::train_metrics(&mut record, seconds * scale, 800 + seed, 1e9);
            crate::support::memory_parts(&mut record, precision);
            run.add(record, None);
        }
    }
    let drawn = figures(&Report::new(&run).unwrap());
    let svg = svg_of(&drawn, "article-times");
    let bars = svg.matches("fill=\"#0F6DB4\"").count();
    assert_eq!(bars, 1 + 2, "one in the legend and one per setting");
    // Median times: of 32-true over three seeds, and of bf16-true over the two seeds that did not diverge.
    for text in [
        "3.33 min",
        "1.25 min",
        "1 of 3 diverged",
        "80.20 %",
        " ± 0.1",
        "half the range over seeds",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    let figure = drawn.iter().find(|figure| figure.id == "article-times").unwrap();
    assert!(
        figure.caption.contains("2 settings of w")
            && figure.caption.contains("Over 3 seeds: means of accuracies")
    );
    let memory = svg_of(&drawn, "article-memory");
    let labels = memory.lines().filter(|line| *line == "bf16-true");
    assert_eq!(labels.count(), 1, "one bar per setting");
}

#[test]
fn energy_is_shown_with_its_measurement_method() {
    let mut run = invented();
    for (record, joules) in run
        .records
        .iter_mut()
        .zip((30..).map(|kilojoules| 1e3 * f64::from(kilojoules)))
    {
        for (metric, joules) in [
            (MetricName::EnergyCounterJoules, joules),
            (MetricName::EnergyIntegralJoules, 1.5 * joules),
        ] {
            record
                .metrics
                .insert(metric, Metric::reading(metric, joules, "invented"));
        }
    }
    let shown = |run: &mantissa_report::Run, title: &str, below: &str, values: [&str; 2]| {
        let report = Report::new(run).unwrap();
        let svg = svg_of(&figures(&report), "article-pareto");
        assert!(svg.contains(&format!("{title}, kJ")), "{svg}");
        let summary = markdown(&report);
        assert!(summary.contains(&format!("| energy ({below}) |")), "{summary}");
        for value in values {
            assert!(summary.contains(value), "{value}: {summary}");
        }
    };
    shown(
        &run,
        "Energy by NVML counter",
        "NVML counter",
        ["30.00 kJ", "31.00 kJ"],
    );
    for record in &mut run.records {
        record.metrics.remove(&MetricName::EnergyCounterJoules);
    }
    shown(
        &run,
        "Energy by sampled power",
        "sampled power",
        ["45.00 kJ", "46.50 kJ"],
    );
    for record in &mut run.records {
        record.metrics.remove(&MetricName::EnergyIntegralJoules);
    }
    let drawn = figures(&Report::new(&run).unwrap());
    assert!(!svg_of(&drawn, "article-pareto").contains("Energy"));
}

#[test]
fn a_trace_has_a_panel_per_quantity_and_shades_throttled_spans() {
    let run = run_with_traces();
    let drawn = figures(&Report::new(&run).unwrap());
    assert_eq!(drawn[0].id, "s-trace");
    let svg = drawn[0].canvas.svg().unwrap();
    for text in [
        "Memory, GB",
        "allocator, in use",
        "Power, W",
        "Clocks, GHz",
        "Temperature, °C",
        "Utilisation, %",
        "clock throttled for 6.0 of 59.9 s",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert_eq!(
        svg.matches("#FBE3D6").count(),
        5,
        "one throttled span in each of five panels"
    );
    assert!(drawn[0].caption.contains("throttled: software power cap."));
    let power = svg.matches("<polyline").count();
    assert!(power > 10, "{power}");
}

#[test]
fn every_launch_is_plotted_with_its_mark() {
    let run = run_with_traces();
    let drawn = figures(&Report::new(&run).unwrap());
    assert_eq!(drawn[1].id, "s-samples");
    let svg = drawn[1].canvas.svg().unwrap();
    for text in [
        "385 typical",
        "3 outliers",
        "12 throttled",
        "400 launches, 3 outliers, 12 throttled",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert_eq!(svg.matches("<circle").count(), 385 + 1);
    assert_eq!(svg.matches("<polygon").count(), 3 + 1);
    assert!(svg.contains("values beyond the axis are drawn at its edge"));
}

#[test]
fn a_run_without_telemetry_has_no_trace() {
    let drawn = figures(&Report::new(&invented()).unwrap());
    assert!(!drawn.iter().any(|figure| figure.id.ends_with("-trace")));
}

#[test]
fn every_reported_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = render(&invented(), folder.path()).unwrap();
    assert!(rendered.html.ends_with("index.html"));
    // Three files per figure, the tables, the summary, the overview and three suites.
    assert_eq!(rendered.files.len(), 3 * 12 + 2 + 1 + 3);
    for path in &rendered.files {
        assert!(fs::metadata(path).unwrap().len() > 100, "{}", path.display());
    }
    if let Some(keep) = std::env::var_os("MANTISSA_KEEP_RENDERED") {
        let keep = std::path::Path::new(&keep);
        render(&invented(), keep).unwrap();
        render(&run_with_traces(), &keep.join("observed")).unwrap();
    }
}
