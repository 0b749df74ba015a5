//! Compares trainings on several ranks with `torch.distributed`. `peers/pytorch/golden/ranks.py` computes and documents the expected numbers.

use super::*;
use crate::train::testing::on_ranks;

/// Tolerance of losses of SGD, relative to 1. The formats of the reduction change the losses by more than 10⁻⁹.
const SGD: f64 = 1e-11;

fn numbers() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/ranks.json")).unwrap()
}

/// Trains on several ranks, and compares the reduced gradients of the first step. Returns the losses of each rank.
fn losses_of_ranks(golden: &Value, micro_batches: &[Rows], run: &Value) -> Vec<Vec<f64>> {
    let number = |key: &str| run[key].as_f64().unwrap_or(0.0);
    let name = run["optimizer"].as_str().unwrap();
    let kind = name.split_once('-').map_or(name, |(kind, _)| kind);
    let ranks = run["ranks"].as_u64().unwrap() as usize;
    let devices = ranks.to_string();
    let axes = [
        (Axis::Precision, "64-true"),
        (Axis::Optimizer, kind),
        (Axis::Devices, devices.as_str()),
        (Axis::ReduceFormat, run["reduce_format"].as_str().unwrap()),
        (Axis::ReduceAlgorithm, "linear"),
    ];
    let rates = Rates {
        learning_rate: number("lr"),
        momentum: number("momentum"),
        weight_decay: number("weight_decay"),
        clip_norm: run["clip_norm"].as_f64(),
        dropout: 0.0,
    };
    on_ranks(ranks, |mut group| {
        with_rank(&mut group, golden, &axes, rates, |trainer| {
            let own = trainer.ranks.shard(micro_batches.to_vec());
            let own: Vec<TokenBatch> = own.into_iter().map(|rows| batch(golden, rows)).collect();
            let share = 1.0 / ints(&golden["labels"]).len() as f64;
            let mut sum = GradientSum::new(trainer.parameters.len());
            let working = trainer.working();
            for batch in &own {
                trainer.backward(&working, batch, share, &mut sum);
            }
            drop(working);
            let reduced = trainer.ranks.reduce(sum, &trainer.parameters, trainer.device);
            assert_gradients(trainer, &reduced.unwrap(), &run["gradients"]);
            let steps = run["losses"].as_array().unwrap().len();
            (0..=steps).map(|_| trainer.step(&own).unwrap().loss).collect()
        })
    })
}

#[test]
fn ranks_follow_torch_distributed() {
    let (golden, numbers) = (golden(), numbers());
    let micro_batches: Vec<Rows> = numbers["micro_batches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rows| {
            (
                rows[0].as_u64().unwrap() as usize,
                rows[1].as_u64().unwrap() as usize,
            )
        })
        .collect();
    let runs = numbers["runs"].as_array().unwrap();
    for run in runs {
        let tolerance = if run["optimizer"] == "sgd-momentum" {
            SGD
        } else {
            F64
        };
        let context = format!(
            "{} ranks, {}, {}",
            run["ranks"], run["reduce_format"], run["optimizer"]
        );
        for losses in losses_of_ranks(&golden, &micro_batches, run) {
            assert_close(&losses, &expected(run), tolerance, &context);
        }
    }
    // The tolerance detects a reduction in another format.
    let of_format = |format: &str| {
        let mut found = runs.iter();
        let run = found.find(|run| run["reduce_format"] == format && run["ranks"] == 2);
        expected(run.unwrap())
    };
    let exact = of_format("f64");
    for format in ["f32", "bf16", "f16"] {
        let narrow = of_format(format);
        let differences = exact.iter().zip(&narrow).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f64::max) > 10.0 * SGD, "{format}");
    }
}
