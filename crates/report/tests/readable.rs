//! Tests that texts of figures are complete and do not cover each other.

use crate::layout::{assert_readable, texts};
use crate::support::{
    RunBuilder, cell, invented, loss, memory_parts, record, run, suite, train_metrics, workload,
};
use crate::traces::run_with_traces;
use mantissa_core::{Axis, Status};
use mantissa_report::{Report, Run, figures};

/// Creates a run of eight trainings whose settings differ in six axes, so that their labels are long.
pub fn long_labels() -> Run {
    let axes = [
        Axis::Precision,
        Axis::Batch,
        Axis::Accumulate,
        Axis::Optimizer,
        Axis::Checkpointing,
        Axis::KeepF32,
    ];
    let mut run = run(vec![suite("s", "Long labels", &[], &axes)]);
    let settings = ["32-true", "bf16-mixed"].into_iter().flat_map(|precision| {
        [
            ("8", "16", "on"),
            ("8", "16", "off"),
            ("16", "8", "on"),
            ("16", "8", "off"),
        ]
        .map(|(batch, accumulate, checkpointing)| (precision, batch, accumulate, checkpointing))
    });
    for (index, (precision, batch, accumulate, checkpointing)) in settings.enumerate() {
        let keep = if index % 2 == 0 {
            "none"
        } else {
            "embeddings+layer_norm+classifier"
        };
        let optimizer = if index % 4 < 2 { "adamw" } else { "sgd" };
        let values = [precision, batch, accumulate, optimizer, checkpointing, keep];
        let setting: Vec<(Axis, &str)> = axes.into_iter().zip(values).collect();
        let mut record = record(&cell("s", &workload("w"), &setting), Status::Ok, None);
        train_metrics(
            &mut record,
            100.0 + 7.0 * index as f64,
            800 + 5 * index as u64,
            1e9,
        );
        memory_parts(&mut record, precision);
        run.add(record, Some(loss(index as u32, None)));
    }
    run
}

#[test]
fn texts_are_complete_and_do_not_overlap() {
    for run in [invented(), run_with_traces(), long_labels()] {
        for figure in figures(&Report::new(&run).unwrap()) {
            assert_readable(&figure.id, &figure.canvas.svg().unwrap());
        }
    }
}

#[test]
fn lines_of_a_label_are_closer_to_each_other_than_to_the_next_label() {
    let run = long_labels();
    let drawn = figures(&Report::new(&run).unwrap());
    let figure = drawn.iter().find(|figure| figure.id == "s-speed").unwrap();
    let texts = texts(&figure.canvas.svg().unwrap());
    let (first, _) = texts
        .iter()
        .enumerate()
        .find(|(_, text)| text.text.starts_with("32-true") && text.area[3] - text.area[1] < 15.0)
        .unwrap();
    // The labels are the texts at the left margin from the first one that is smaller than the title.
    let labels = texts[first..].iter().filter(|text| text.area[0] == 24.0);
    let bottoms: Vec<f64> = labels.map(|text| text.area[3]).collect();
    let gaps: Vec<f64> = bottoms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Lines are 14 pixels high, and labels are 10 pixels apart.
    let (within, between): (Vec<f64>, Vec<f64>) = gaps.iter().partition(|gap| **gap < 15.0);
    assert!(within.len() >= 8 && between.len() == 7, "{gaps:?}");
    assert!(between.iter().all(|gap| *gap >= 14.0 + 10.0 - 0.5), "{gaps:?}");
}

#[test]
fn long_labels_take_several_lines() {
    let run = long_labels();
    let drawn = figures(&Report::new(&run).unwrap());
    let longest = "bf16-mixed · batch 16 · accumulate 8 · sgd · checkpointing off · keep f32 embeddings+layer_norm+classifier";
    for id in ["s-speed", "s-memory", "s-loss", "s-times"] {
        let Some(figure) = drawn.iter().find(|figure| figure.id == id) else {
            panic!(
                "{id} is not drawn: {:?}",
                drawn.iter().map(|figure| &figure.id).collect::<Vec<_>>()
            );
        };
        let svg = figure.canvas.svg().unwrap();
        let text: Vec<&str> = svg.lines().filter(|line| !line.starts_with('<')).collect();
        let words = longest.split(" · ").all(|word| text.join(" ").contains(word));
        assert!(words, "{id}: {}", text.join("|"));
        assert!(!text.iter().any(|line| line.ends_with('…')), "{id}");
    }
}
