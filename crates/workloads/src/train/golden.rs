//! Compares training steps with PyTorch and transformers. The expected numbers are from `peers/pytorch/golden/distilbert.py`. They are stored with
//! the weights of the tested model in golden files.

mod bert;
mod bloom;
mod gpt2;
mod imagenet_resnet;
mod language;
mod llama;
mod mixed_precision;
mod ranks;
mod resnet;
mod vit;

use std::{cell::RefCell, path::Path};

use burn::tensor::Device;
use mantissa_collectives::{Group, Single};
use mantissa_core::*;
use mantissa_precision::GradientSum;
use serde_json::Value;

use super::{ranks::Ranks, trainer::Trainer};
use crate::{
    Inputs,
    data::TokenBatch,
    models::{DistilBert, Network},
};

/// Rows of a micro-batch: the first, and one past the last.
type Rows = (usize, usize);

/// All examples in one micro-batch.
const WHOLE: [Rows; 1] = [(0, 6)];

thread_local! {
    /// Device of the tested models; the CPU if `None`.
    static DEVICE: RefCell<Option<Device>> = const { RefCell::new(None) };
}

/// Calls `run` while the tested models of this thread use `device`.
#[cfg(feature = "vulkan")]
fn on<T>(device: Device, run: impl FnOnce() -> T) -> T {
    let before = DEVICE.replace(Some(device));
    let result = run();
    DEVICE.set(before);
    result
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/golden/distilbert-tiny.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

fn ints(value: &Value) -> Vec<i32> {
    floats(value).iter().map(|x| *x as i32).collect()
}

/// Returns the number of tokens of each example without padding.
fn lengths(golden: &Value) -> Vec<i32> {
    let masks = golden["attention_mask"].as_array().unwrap();
    masks.iter().map(|mask| ints(mask).iter().sum()).collect()
}

/// Returns the examples of these rows as one micro-batch.
fn batch(golden: &Value, (first, end): Rows) -> TokenBatch {
    let ids = &golden["input_ids"].as_array().unwrap()[first..end];
    let lengths = lengths(golden)[first..end].to_vec();
    let sequence = ids[0].as_array().unwrap().len() as i32;
    let last = |(row, length): (i32, &i32)| row * sequence + length - 1;
    TokenBatch {
        ids: ids.iter().flat_map(ints).collect(),
        rows: (0..).zip(&lengths).map(last).collect(),
        lengths,
        labels: ints(&golden["labels"])[first..end].to_vec(),
    }
}

/// Settings of the optimizer, and the dropout rate of the model.
#[derive(Clone, Copy)]
struct Rates {
    learning_rate: f64,
    momentum: f64,
    weight_decay: f64,
    clip_norm: Option<f64>,
    dropout: f64,
}

/// Settings of Adam in the runs that the golden file contains.
const ADAM: Rates = Rates {
    learning_rate: 5e-3,
    momentum: 0.0,
    weight_decay: 0.0,
    clip_norm: None,
    dropout: 0.0,
};

const fn sgd(learning_rate: f64) -> Rates {
    Rates {
        learning_rate,
        ..ADAM
    }
}

/// Trains on the micro-batches `parts` in every step. Returns `steps` + 1 losses: before each of the first `steps` updates, and after them.
fn losses(golden: &Value, axes: &[(Axis, &str)], rates: Rates, parts: &[Rows], steps: usize) -> Vec<f64> {
    with_trainer(golden, axes, rates, |trainer| {
        let micro_batches: Vec<TokenBatch> = parts.iter().map(|rows| batch(golden, *rows)).collect();
        (0..=steps)
            .map(|_| trainer.step(&micro_batches).unwrap().loss)
            .collect()
    })
}

/// Calls `run` with a trainer of the model in the golden file.
fn with_trainer<T>(
    golden: &Value,
    axes: &[(Axis, &str)],
    rates: Rates,
    run: impl FnOnce(&mut Trainer) -> T,
) -> T {
    with_rank(&mut Single, golden, axes, rates, run)
}

/// Calls `run` with a trainer of the model in the golden file that is a rank of a group.
fn with_rank<T>(
    group: &mut dyn Group,
    golden: &Value,
    axes: &[(Axis, &str)],
    rates: Rates,
    run: impl FnOnce(&mut Trainer) -> T,
) -> T {
    let config = &golden["config"];
    let size = |key: &str| config[key].as_u64().unwrap() as u32;
    let of_model = DistilBertSize {
        n_layers: size("n_layers"),
        dim: size("dim"),
        n_heads: size("n_heads"),
        hidden_dim: size("hidden_dim"),
        max_position_embeddings: size("max_position_embeddings"),
        dropout: rates.dropout,
        attention_dropout: rates.dropout,
        seq_classif_dropout: rates.dropout,
    };
    let task = TrainTask {
        weight_decay: rates.weight_decay,
        momentum: rates.momentum,
        updates: Updates {
            clip_norm: rates.clip_norm,
            ..Updates::default()
        },
        ..task(Model::Distilbert(of_model.clone()), rates.learning_rate)
    };
    let model = DistilBert::new(of_model, size("vocab_size"), 2);
    let axes = [&[(Axis::Sequence, "12")], axes].concat();
    with_golden_rank(group, &task, &axes, (model, "distilbert-tiny.safetensors"), run)
}

/// Returns a training task of a tested model. Tests override the fields for which they need other values.
fn task(model: Model, learning_rate: f64) -> TrainTask {
    let kinds = [
        DatasetKind::SyntheticReviews,
        DatasetKind::SyntheticText,
        DatasetKind::SyntheticImages,
    ];
    let dataset = kinds.into_iter().find(|kind| model.takes(*kind));
    TrainTask {
        model,
        dataset: dataset.expect("every model accepts a synthetic dataset"),
        split: Split {
            join: false,
            train: None,
            validation: 0,
            test: None,
            seed: 0,
        },
        epochs: 1,
        learning_rate,
        weight_decay: 0.0,
        momentum: 0.0,
        drop_last: false,
        observe_every: 0,
        sensitivity: false,
        updates: Updates::default(),
    }
}

/// Calls `run` with a trainer that starts with the weights of a golden file.
fn with_golden<M: Network, T>(
    task: &TrainTask,
    axes: &[(Axis, &str)],
    (model, weights): (M, &str),
    run: impl FnOnce(&mut Trainer<M>) -> T,
) -> T {
    with_golden_rank(&mut Single, task, axes, (model, weights), run)
}

/// Calls `run` with a trainer that is a rank of a group, and starts with the weights of a golden file.
fn with_golden_rank<M: Network, T>(
    group: &mut dyn Group,
    task: &TrainTask,
    axes: &[(Axis, &str)],
    (model, weights): (M, &str),
    run: impl FnOnce(&mut Trainer<M>) -> T,
) -> T {
    let workload = Workload {
        name: "golden".into(),
        task: Task::Train(task.clone()),
    };
    let mut setting = Setting::of(&workload, Backend::Flex);
    for (axis, text) in axes {
        setting.set(*axis, axis.parse(text).unwrap()).unwrap();
    }
    let cell = Cell::new("golden", workload, setting, 1);
    let weights = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(weights);
    let inputs = Inputs {
        weights: [(String::new(), weights)].into(),
        ..Inputs::default()
    };
    let device = DEVICE.with_borrow(|device| device.clone().unwrap_or_else(Device::flex));
    let mut trainer = Trainer::new(&cell, task, model, &inputs, &device).unwrap();
    trainer.ranks = Ranks::new(group, &cell.setting);
    run(&mut trainer)
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, context: &str) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!(
            (got - want).abs() <= tolerance,
            "{context}: got {got}, expected {want} ± {tolerance}"
        );
    }
}

/// Returns the row-major offset of an element.
fn offset(index: &[f64], shape: &[f64]) -> usize {
    let dimensions = index.iter().zip(shape);
    dimensions.fold(0, |offset, (at, length)| offset * *length as usize + *at as usize)
}

/// Asserts that the norm and the largest element of every gradient are those of the reference in f64.
fn assert_gradients<M: Network>(trainer: &Trainer<M>, got: &GradientSum, wanted: &Value) {
    let wanted = wanted.as_array().unwrap();
    assert_eq!(trainer.parameters.len(), wanted.len());
    for ((name, _), gradient) in trainer.parameters.iter().zip(got.iter()) {
        let data = gradient
            .expect("every parameter has a gradient")
            .clone()
            .into_data();
        let values: Vec<f64> = data.iter::<f64>().collect();
        let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut rows = wanted.iter();
        let row = rows
            .find(|row| row["name"] == name)
            .expect("the reference contains every parameter");
        let wanted = row["norm"].as_f64().unwrap();
        if name.ends_with("key.bias") || name.ends_with("k_lin.bias") {
            // In exact arithmetic, this gradient is 0: the bias shifts all scores of a query equally.
            assert!(norm < 1e-12 && wanted < 1e-12, "{name}: {norm:e}, {wanted:e}");
            continue;
        }
        assert_close(&[norm], &[wanted], F64 * wanted, name);
        let largest = &row["largest"];
        let offset = offset(&floats(&largest["index"]), &floats(&row["shape"]));
        let wanted = largest["value"].as_f64().unwrap();
        assert_close(&[values[offset]], &[wanted], F64 * wanted.abs(), name);
    }
}

fn expected(run: &Value) -> Vec<f64> {
    let mut losses = floats(&run["losses"]);
    losses.push(run["after"].as_f64().unwrap());
    losses
}

/// Tolerance for rounding in f64. A wrong epsilon of the layer norms would change results by 9·10⁻⁷.
const F64: f64 = 1e-9;

#[test]
fn every_optimizer_follows_pytorch_in_f64() {
    let golden = golden();
    for run in golden["float64"]["training"].as_array().unwrap() {
        let number = |key: &str| run[key].as_f64().unwrap_or(0.0);
        let name = run["optimizer"].as_str().unwrap();
        let kind = name.split_once('-').map_or(name, |(kind, _)| kind);
        let axes = [(Axis::Precision, "64-true"), (Axis::Optimizer, kind)];
        let rates = Rates {
            learning_rate: number("lr"),
            momentum: number("momentum"),
            weight_decay: number("weight_decay"),
            clip_norm: run["clip_norm"].as_f64(),
            dropout: 0.0,
        };
        let got = losses(&golden, &axes, rates, &WHOLE, 6);
        assert_close(&got, &expected(run), F64, &run.to_string());
    }
}

#[test]
fn unequal_micro_batches_match_the_whole_batch() {
    let golden = golden();
    let axes = [(Axis::Precision, "64-true"), (Axis::Accumulate, "2")];
    let got = losses(&golden, &axes, ADAM, &[(0, 4), (4, 6)], 4);
    assert_close(
        &got,
        &expected(&golden["float64"]["accumulation"]),
        F64,
        "compared with PyTorch",
    );
    let whole = losses(&golden, &axes, ADAM, &WHOLE, 4);
    assert_close(&got, &whole, 1e-12, "compared with one batch");
}

#[test]
fn f32_training_matches_pytorch_up_to_rounding() {
    let golden = golden();
    let got = losses(&golden, &[], ADAM, &WHOLE, 6);
    assert_close(&got, &expected(&golden["float32"]), 5e-6, "f32");
}

#[test]
fn bf16_mixed_follows_pytorchs_autocast_and_is_not_f32() {
    let golden = golden();
    let got = losses(&golden, &[(Axis::Precision, "bf16-mixed")], ADAM, &WHOLE, 6);
    // Both implementations round the same values, but a rounded logit near 2 may differ by 2⁻⁷.
    assert_close(&got, &expected(&golden["bfloat16_autocast"]), 8e-3, "bf16");
    let single = expected(&golden["float32"]);
    assert!(
        got.iter()
            .zip(&single)
            .any(|(bf16, single)| (bf16 - single).abs() > 1e-4),
        "the losses equal those of f32"
    );
}

#[test]
fn loss_scaled_f16_training_matches_f32() {
    let golden = golden();
    let axes = [(Axis::Precision, "16-mixed"), (Axis::Optimizer, "sgd")];
    let got = losses(&golden, &axes, sgd(0.05), &WHOLE, 3);
    let single = losses(&golden, &axes[1..], sgd(0.05), &WHOLE, 3);
    assert_close(&got, &single, 5e-3, "f16");
    assert_ne!(got, single);
}

#[test]
fn layers_kept_in_f32_compute_as_in_f32() {
    let golden = golden();
    let kept = |patterns| {
        let axes = [(Axis::Precision, "bf16-mixed"), (Axis::KeepF32, patterns)];
        losses(&golden, &axes, ADAM, &WHOLE, 3)
    };
    let single = losses(&golden, &[], ADAM, &WHOLE, 3);
    assert_eq!(
        kept("distilbert+pre_classifier+classifier"),
        single,
        "all layers kept in f32"
    );
    let (none, last) = (kept("none"), kept("classifier"));
    assert!(last != none && last != single);
    // Patterns must match the name of the attention layer to keep its matmuls in f32.
    let but_attention = "distilbert.transformer.layer.*.ffn+distilbert.transformer.layer.*.attention.*";
    assert_ne!(
        kept(&format!("{but_attention}+pre_classifier+classifier")),
        single
    );
}

#[test]
fn checkpointing_matches_pytorch_and_keeps_every_bit() {
    let golden = golden();
    let run = &golden["float64"]["training"][2];
    let on = (Axis::Checkpointing, "on");
    let got = losses(&golden, &[(Axis::Precision, "64-true"), on], ADAM, &WHOLE, 6);
    assert_close(&got, &expected(run), F64, "compared with PyTorch");
    for precision in ["32-true", "16-mixed", "bf16-true"] {
        let off = (Axis::Precision, precision);
        let plain = losses(&golden, &[off], ADAM, &[(0, 4), (4, 6)], 3);
        let again = losses(&golden, &[off, on], ADAM, &[(0, 4), (4, 6)], 3);
        assert_eq!(again, plain, "{precision}");
    }
}

#[test]
fn checkpointing_draws_the_same_dropout_masks_in_the_recomputation() {
    let golden = golden();
    let rates = Rates { dropout: 0.3, ..ADAM };
    let on = (Axis::Checkpointing, "on");
    let plain = losses(&golden, &[], rates, &[(0, 4), (4, 6)], 4);
    let again = losses(&golden, &[on], rates, &[(0, 4), (4, 6)], 4);
    assert_eq!(again, plain);
    assert_ne!(
        plain,
        losses(&golden, &[], ADAM, &[(0, 4), (4, 6)], 4),
        "dropout does not change the losses"
    );
}

#[test]
fn matmul_precision_changes_the_losses_of_the_model() {
    let golden = golden();
    let first = |axes: &[(Axis, &str)]| losses(&golden, axes, ADAM, &WHOLE, 1);
    let (highest, high, medium) = (
        first(&[]),
        first(&[(Axis::Matmul, "high")]),
        first(&[(Axis::Matmul, "medium")]),
    );
    let distance = |other: &[f64]| {
        highest
            .iter()
            .zip(other)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max)
    };
    assert!(
        distance(&high) > 1e-6 && distance(&high) < 2e-3,
        "TF32 differs by {}",
        distance(&high)
    );
    assert!(
        distance(&medium) > distance(&high) && distance(&medium) < 2e-2,
        "bf16 differs by {}",
        distance(&medium)
    );
}

/// Returns true if a Vulkan device is available. Fails if one is required but missing.
#[cfg(feature = "vulkan")]
fn vulkan_is_there() -> bool {
    mantissa_testing::is_available("vulkan", mantissa_precision::device::available(Backend::Vulkan))
}

/// Opens the Vulkan device. Fusion is a setting of the process, so the tests without fusion run in separate processes.
#[cfg(feature = "vulkan")]
fn vulkan(fusion: bool) -> Device {
    mantissa_precision::device::open(Backend::Vulkan, fusion)
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use super::*;

    fn assert_follows_pytorch(fusion: bool) {
        if !vulkan_is_there() {
            return;
        }
        let golden = golden();
        // Use SGD: Adam's first step depends on the sign of a gradient, which rounding can change if the gradient is near zero.
        let (axes, rates) = ([(Axis::Optimizer, "sgd")], sgd(0.1));
        let want = &expected(&golden["float64"]["training"][0])[..3];
        let got = on(vulkan(fusion), || losses(&golden, &axes, rates, &WHOLE, 2));
        assert_close(&got, want, 1e-5, if fusion { "fused" } else { "plain" });
    }

    #[test]
    fn plain_gpu_training_follows_pytorch() {
        mantissa_testing::alone(|| assert_follows_pytorch(false));
    }

    #[test]
    fn fused_gpu_training_follows_pytorch() {
        assert_follows_pytorch(true);
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_precision::device::supports;

    use super::*;

    #[test]
    fn mixed_gpu_training_follows_the_cpu() {
        if !vulkan_is_there() {
            return;
        }
        let device = vulkan(true);
        let has_f16 = supports(Format::F16, &device);
        let missing = || "Vulkan: the device does not support f16".to_owned();
        if !mantissa_testing::is_available("vulkan", has_f16.then_some(()).ok_or_else(missing)) {
            return;
        }
        let golden = golden();
        let axes = [(Axis::Precision, "16-mixed"), (Axis::Optimizer, "sgd")];
        let parts = [(0, 4), (4, 6)];
        let want = losses(&golden, &axes, sgd(0.1), &parts, 2);
        let got = on(device, || losses(&golden, &axes, sgd(0.1), &parts, 2));
        // A rounded logit near 2 may differ by 2⁻¹⁰.
        assert_close(&got, &want, 1e-3, "16-mixed");
        let single = losses(&golden, &axes[1..], sgd(0.1), &parts, 2);
        assert_ne!(got, single);
    }

    #[test]
    fn checkpointing_does_not_change_the_losses() {
        mantissa_testing::alone(|| {
            if !vulkan_is_there() {
                return;
            }
            let golden = golden();
            let rates = Rates {
                dropout: 0.3,
                ..sgd(0.1)
            };
            let of = |checkpointing| {
                let axes = [(Axis::Optimizer, "sgd"), (Axis::Checkpointing, checkpointing)];
                losses(&golden, &axes, rates, &[(0, 4), (4, 6)], 2)
            };
            on(vulkan(false), || assert_eq!(of("on"), of("off")));
        });
    }
}
