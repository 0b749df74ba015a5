//! Compares a vision transformer with PyTorch and transformers. `peers/pytorch/golden/vit.py` computes and documents the expected numbers.

use super::*;
use crate::{
    data::ImageBatch,
    models::{Network, Vit},
};

/// All images in one micro-batch.
const ALL: [Rows; 1] = [(0, 3)];
/// All images in two micro-batches.
const PIECES: [Rows; 2] = [(0, 2), (2, 3)];

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/vit-tiny.json")).unwrap()
}

fn size(golden: &Value, key: &str) -> u32 {
    golden["config"][key].as_u64().unwrap() as u32
}

fn images(golden: &Value, (first, end): Rows) -> ImageBatch {
    let edge = size(golden, "image_size") as usize;
    let values = 3 * edge * edge;
    // The file stores pixel values as integers in units of 1/4.
    let all = floats(&golden["images"]);
    let all: Vec<f32> = all.iter().map(|quarters| *quarters as f32 / 4.0).collect();
    let labels: Vec<i32> = floats(&golden["labels"]).iter().map(|x| *x as i32).collect();
    ImageBatch {
        values: all[first * values..end * values].to_vec(),
        edge,
        labels: labels[first..end].to_vec(),
    }
}

/// Calls `run` with a trainer of the model in the golden file, with the given dropout probability.
fn with_vit<T>(
    golden: &Value,
    axes: &[(Axis, &str)],
    dropout: f64,
    run: impl FnOnce(&mut Trainer<Vit>) -> T,
) -> T {
    let of_model = VitSize {
        image_size: size(golden, "image_size"),
        patch_size: size(golden, "patch_size"),
        hidden_size: size(golden, "hidden_size"),
        num_hidden_layers: size(golden, "num_hidden_layers"),
        num_attention_heads: size(golden, "num_attention_heads"),
        intermediate_size: size(golden, "intermediate_size"),
        hidden_dropout_prob: dropout,
        attention_probs_dropout_prob: dropout,
        layer_norm_eps: NORM_EPSILON,
    };
    let learning_rate = golden["training"]["lr"].as_f64().unwrap();
    let task = task(Model::Vit(of_model.clone()), learning_rate);
    let model = Vit::new(of_model, size(golden, "num_labels"));
    let axes = [&[(Axis::Optimizer, "sgd")], axes].concat();
    with_golden(&task, &axes, (model, "vit-tiny.safetensors"), run)
}

/// Trains on the micro-batches `parts` in every step. Returns the losses before each recorded step, and after the last one.
fn steps(golden: &Value, axes: &[(Axis, &str)], parts: &[Rows]) -> Vec<f64> {
    steps_dropping(golden, axes, 0.0, parts)
}

fn steps_dropping(golden: &Value, axes: &[(Axis, &str)], dropout: f64, parts: &[Rows]) -> Vec<f64> {
    with_vit(golden, axes, dropout, |trainer| {
        let pieces: Vec<_> = parts.iter().map(|rows| images(golden, *rows)).collect();
        let recorded = expected(&golden["training"]);
        let losses = recorded.iter().map(|_| trainer.step(&pieces).unwrap().loss);
        losses.collect()
    })
}

#[test]
fn logits_match_pytorch() {
    let golden = golden();
    for (precision, tolerance) in [("64-true", 1e-10), ("32-true", 1e-5)] {
        let logits = with_vit(&golden, &[(Axis::Precision, precision)], 0.0, |trainer| {
            let parameters = trainer.working().freeze();
            let (logits, _) = trainer.predict(&parameters, &images(&golden, ALL[0]));
            logits.into_data().iter::<f64>().collect::<Vec<_>>()
        });
        assert_close(&logits, &floats(&golden["logits"]), tolerance, precision);
    }
}

#[test]
fn loss_and_gradients_match_pytorch_in_f64() {
    let golden = golden();
    with_vit(&golden, &[(Axis::Precision, "64-true")], 0.0, |trainer| {
        let batch = images(&golden, ALL[0]);
        let share = 1.0 / batch.labels.len() as f64;
        let mut sum = GradientSum::new(trainer.parameters.len());
        let loss = trainer.backward(&trainer.working(), &batch, share, &mut sum);
        let loss = share * loss.summed.into_data().iter::<f64>().sum::<f64>();
        assert_close(&[loss], &[golden["loss"].as_f64().unwrap()], F64, "loss");
        assert_gradients(trainer, &sum, &golden["gradients"]);
    });
}

#[test]
fn steps_match_pytorch_in_f64() {
    let golden = golden();
    let wanted = expected(&golden["training"]);
    let precision = (Axis::Precision, "64-true");
    let whole = steps(&golden, &[precision], &ALL);
    assert_close(&whole, &wanted, F64, "one micro-batch");
    let two = [precision, (Axis::Accumulate, "2")];
    assert_close(&steps(&golden, &two, &PIECES), &wanted, F64, "two micro-batches");
    let checkpointed = [precision, (Axis::Checkpointing, "on")];
    assert_eq!(steps(&golden, &checkpointed, &ALL), whole);
}

#[test]
fn f32_training_matches_pytorch_up_to_rounding() {
    let golden = golden();
    let wanted = expected(&golden["float32"]["training"]);
    assert_close(&steps(&golden, &[], &ALL), &wanted, 5e-6, "f32");
}

#[test]
fn checkpointing_does_not_change_any_bit_with_and_without_dropout() {
    let golden = golden();
    for precision in ["32-true", "bf16-mixed", "16-mixed"] {
        let of = |checkpointing, dropout| {
            let axes = [(Axis::Precision, precision), (Axis::Checkpointing, checkpointing)];
            steps_dropping(&golden, &axes, dropout, &PIECES)
        };
        assert_eq!(of("on", 0.0), of("off", 0.0), "{precision}");
        assert_eq!(of("on", 0.3), of("off", 0.3), "{precision}, dropout 0.3");
        assert_ne!(
            of("off", 0.3),
            of("off", 0.0),
            "{precision}: dropout does not change the losses"
        );
    }
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    let golden = golden();
    let first = |kept: Option<&str>, precision| {
        with_vit(&golden, &[(Axis::Precision, precision)], 0.0, |trainer| {
            if let Some(layer) = kept {
                trainer.model = trainer.model.clone().keep_in_f32_except(layer);
            }
            trainer.step(&[images(&golden, ALL[0])]).unwrap().loss
        })
    };
    let exact = first(None, "32-true");
    let layers = with_vit(&golden, &[], 0.0, |trainer| trainer.model.layers());
    for layer in &layers {
        assert_ne!(first(Some(layer), "bf16-mixed"), exact, "{layer} alone in bf16");
    }
    let all = [(Axis::Precision, "bf16-mixed"), (Axis::KeepF32, "vit+classifier")];
    assert_eq!(
        steps(&golden, &all, &ALL),
        steps(&golden, &[], &ALL),
        "all layers kept in f32"
    );
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    let golden = golden();
    let exact = steps(&golden, &[], &ALL);
    for (precision, tolerance) in [("bf16-mixed", 0.05), ("16-mixed", 0.01)] {
        let losses = steps(&golden, &[(Axis::Precision, precision)], &ALL);
        assert_ne!(losses, exact);
        assert_close(&losses, &exact, tolerance, precision);
    }
}
