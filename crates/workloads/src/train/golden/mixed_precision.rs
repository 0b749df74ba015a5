//! Compares twenty steps of mixed precision with PyTorch, including the loss scale, and tests that splitting a group into micro-batches does not
//! change the result. `peers/pytorch/golden/mixed_precision.py` computes and documents the expected numbers.

use std::collections::BTreeMap;

use mantissa_precision::{LossScaler, LossScaling, ParameterSet, ScaleChange};
use safetensors::SafeTensors;

use super::*;
use crate::models::Network;

/// Tolerance as a multiple of the spread, which is the difference between PyTorch's own results for several orders of summation.
const SPREAD_FACTOR: f64 = 2.0;

fn runs() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/mixed-precision.json")).unwrap()
}

type Weights = BTreeMap<String, Vec<f64>>;

fn weights(trainer: &Trainer) -> Weights {
    let value = |(name, value): (&str, &burn::tensor::Tensor<1>)| {
        (name.to_owned(), value.to_data().iter::<f64>().collect())
    };
    trainer.parameters.iter().map(value).collect()
}

/// Returns PyTorch's weights after the last step.
fn final_weights(precision: &str, like: &Weights) -> Weights {
    let file = SafeTensors::deserialize(include_bytes!(
        "../../../tests/golden/mixed-precision.safetensors"
    ))
    .unwrap();
    let read = |name: &String| {
        let tensor = file.tensor(&format!("{precision}/{name}")).unwrap();
        let values = tensor.data().as_chunks().0.iter();
        let values = values
            .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
            .collect();
        (name.clone(), values)
    };
    like.keys().map(read).collect()
}

/// Returns the Frobenius norm of `got - want`, divided by that of `want - start`.
fn distance(got: &Weights, want: &Weights, start: &Weights) -> f64 {
    let square = |a: &Weights, b: &Weights| {
        let pairs = a.iter().flat_map(|(name, values)| values.iter().zip(&b[name]));
        pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
    };
    (square(got, want) / square(want, start)).sqrt()
}

/// Replaces each element of the parameters. `change` gets the parameter's name, the element's index and its value.
fn change_parameters(trainer: &mut Trainer, change: impl Fn(&str, usize, f64) -> f64) {
    let specs = trainer.model.parameters();
    let parts = trainer.parameters.iter().zip(specs).map(|((name, value), spec)| {
        let data = value.to_data();
        let values = data.iter::<f64>().enumerate();
        let values: Vec<f32> = values.map(|(index, x)| change(name, index, x) as f32).collect();
        (spec.name, spec.shape, values)
    });
    let format = trainer.cell.setting.precision().parameters();
    let parameters = ParameterSet::new(parts.collect::<Vec<_>>(), format, trainer.device);
    trainer.parameters = parameters;
}

/// Results of a run: losses, scales, final weights and initial weights.
struct Trained {
    losses: Vec<f64>,
    scales: Vec<f64>,
    weights: Weights,
    start: Weights,
}

/// Runs the steps of the golden file in a precision. `after_step` may change the trainer, to test that an error would be detected.
fn train(golden: &Value, precision: &str, after_step: impl Fn(&mut Trainer)) -> Trained {
    let number = |key: &str| golden[key].as_f64().unwrap();
    let rates = Rates {
        learning_rate: number("learning_rate"),
        momentum: number("momentum"),
        clip_norm: Some(number("clip_norm")),
        ..ADAM
    };
    let axes = [(Axis::Precision, precision), (Axis::Optimizer, "sgd")];
    let examples = [batch(&super::golden(), WHOLE[0])];
    let steps = golden["runs"][0]["losses"].as_array().unwrap().len();
    with_trainer(&super::golden(), &axes, rates, |trainer| {
        if let Some(scaler) = &mut trainer.scaler {
            *scaler = LossScaler::new(LossScaling {
                initial: number("initial_scale"),
                growth_interval: number("growth_interval") as u32,
                ..LossScaling::default()
            });
        }
        let start = weights(trainer);
        let (mut losses, mut scales) = (vec![], vec![]);
        for step in 0..steps {
            let before = trainer.parameters.clone();
            let has_infinity = trainer.scaler.is_some() && step as f64 == number("inf_step");
            if has_infinity {
                change_parameters(trainer, |name, _, x| {
                    if name == "classifier.bias" {
                        f64::INFINITY
                    } else {
                        x
                    }
                });
            }
            losses.push(trainer.step(&examples).unwrap().loss);
            if has_infinity {
                trainer.parameters = before;
            }
            scales.extend(trainer.scaler.as_ref().map(LossScaler::scale));
            after_step(trainer);
        }
        let end = weights(trainer);
        losses.push(trainer.step(&examples).unwrap().loss);
        Trained {
            losses,
            scales,
            weights: end,
            start,
        }
    })
}

#[test]
fn mixed_precision_steps_match_pytorch_within_its_spread() {
    let golden = runs();
    for run in golden["runs"].as_array().unwrap() {
        let precision = run["precision"].as_str().unwrap();
        let got = train(&golden, precision, |_| ());
        assert_eq!(got.scales, floats(&run["scales"]), "{precision}: loss scales");

        let bound = |key: &str| SPREAD_FACTOR * run["spread"][key].as_f64().unwrap();
        for (step, (loss, want)) in got.losses.iter().zip(expected(run)).enumerate() {
            // Do not compare the loss of the step with an infinity. This test sets a bias to infinity, so the loss is infinite. PyTorch's run sets
            // a gradient to infinity, so its loss is finite.
            let skipped = !got.scales.is_empty() && golden["inf_step"] == step;
            assert!(
                skipped || (loss - want).abs() <= bound("loss"),
                "{precision}, step {step}: loss {loss}, expected {want} ± {}",
                bound("loss")
            );
        }
        let want = final_weights(precision, &got.weights);
        let difference = distance(&got.weights, &want, &got.start);
        assert!(
            difference <= bound("weights"),
            "{precision}: weights differ by {difference:e}, more than {:e}",
            bound("weights")
        );
    }
}

#[test]
fn f16_master_weights_exceed_the_spread_of_pytorch() {
    let golden = runs();
    let run = &golden["runs"][2];
    let bound = SPREAD_FACTOR * run["spread"]["weights"].as_f64().unwrap();
    let got = train(&golden, "16-mixed", |trainer| {
        change_parameters(trainer, |_, _, x| Format::F16.round(x).value);
    });
    let want = final_weights("16-mixed", &got.weights);
    let difference = distance(&got.weights, &want, &got.start);
    assert!(
        difference > bound,
        "f16 master weights differ by only {difference:e}"
    );
}

#[test]
fn micro_batch_splits_do_not_change_the_steps() {
    let golden = golden();
    let axes = [(Axis::Precision, "64-true"), (Axis::Optimizer, "sgd")];
    let rates = Rates {
        momentum: 0.9,
        clip_norm: Some(1.0),
        ..sgd(0.05)
    };
    let after = |parts: &[Rows]| {
        with_trainer(&golden, &axes, rates, |trainer| {
            let micro_batches: Vec<_> = parts.iter().map(|rows| batch(&golden, *rows)).collect();
            for _ in 0..3 {
                trainer.step(&micro_batches).unwrap();
            }
            weights(trainer)
        })
    };
    let whole = after(&WHOLE);
    for ends in 1..32u32 {
        let mut borders = vec![0];
        borders.extend((1..6).filter(|border| ends >> (border - 1) & 1 == 1));
        borders.push(6);
        let parts: Vec<Rows> = borders.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let split = after(&parts);
        for (name, values) in &split {
            for (a, b) in values.iter().zip(&whole[name]) {
                assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{parts:?}, {name}");
            }
        }
    }
}

#[test]
fn one_overflowing_micro_batch_skips_the_whole_step() {
    let golden = golden();
    let [good, bad] = [(0, 4), (4, 6)].map(|rows| batch(&golden, rows));
    // A token that occurs only in the second micro-batch.
    let token = bad.ids.iter().find(|id| !good.ids.contains(id)).unwrap();
    let dim = golden["config"]["dim"].as_u64().unwrap() as usize;
    let row = *token as usize * dim..(*token as usize + 1) * dim;
    let axes = [(Axis::Precision, "16-mixed"), (Axis::Optimizer, "sgd")];
    with_trainer(&golden, &axes, sgd(0.01), |trainer| {
        trainer.scaler = Some(LossScaler::new(LossScaling {
            growth_interval: 2,
            ..LossScaling::default()
        }));
        let finite = trainer.parameters.clone();
        change_parameters(trainer, |name, index, x| {
            let hit = name.ends_with("word_embeddings.weight") && row.contains(&index);
            if hit { f64::INFINITY } else { x }
        });
        let overflowed = weights(trainer);
        let both = [good.clone(), bad.clone()];
        let step = trainer.step(&both).unwrap();
        assert_eq!(step.scale, Some(ScaleChange::BackedOff(32768.0)));
        assert_eq!(weights(trainer), overflowed, "the step is skipped");

        trainer.parameters = finite;
        let changes = [(); 3].map(|()| trainer.step(&both).unwrap().scale.unwrap());
        let want = [ScaleChange::Kept, ScaleChange::Grew(65536.0), ScaleChange::Kept];
        assert_eq!(
            changes, want,
            "the growth interval counts steps, not micro-batches"
        );
    });
}
