//! Compares a ResNet with PyTorch. `peers/pytorch/golden/resnet.py` computes and documents the expected numbers.

use std::collections::BTreeSet;

use mantissa_precision::GradientSum;

use super::*;
use crate::{
    Phase,
    data::{Dataset, ImageBatch},
    models::{Network, ResNet, Stage},
    train::{evaluate::evaluate, sensitivity::sensitivity, testing::ByteCountObserver},
};

/// Micro-batches of a step.
const PIECES: [Rows; 2] = [(0, 3), (3, 6)];

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/resnet-tiny.json")).unwrap()
}

fn size(golden: &Value, key: &str) -> u32 {
    golden["config"][key].as_u64().unwrap() as u32
}

fn images(golden: &Value, (first, end): Rows) -> ImageBatch {
    let edge = size(golden, "edge") as usize;
    let values = 3 * edge * edge;
    let all: Vec<f32> = floats(&golden["images"]).iter().map(|x| *x as f32).collect();
    let labels: Vec<i32> = floats(&golden["labels"]).iter().map(|x| *x as i32).collect();
    ImageBatch {
        values: all[first * values..end * values].to_vec(),
        edge,
        labels: labels[first..end].to_vec(),
    }
}

/// Calls `run` with a trainer of the model in the golden file.
fn with_resnet<T>(golden: &Value, axes: &[(Axis, &str)], run: impl FnOnce(&mut Trainer<ResNet>) -> T) -> T {
    let of_model = ResNetSize {
        depth: size(golden, "depth"),
        width: size(golden, "width"),
    };
    let rate = |name: &str| golden["rates"][name].as_f64().unwrap();
    let task = TrainTask {
        momentum: rate("momentum"),
        ..task(Model::Resnet(of_model.clone()), rate("learning_rate"))
    };
    let model = ResNet::new(of_model, size(golden, "edge") as usize, size(golden, "classes"));
    let axes = [&[(Axis::Optimizer, "sgd")], axes].concat();
    with_golden(&task, &axes, (model, "resnet-tiny.safetensors"), run)
}

/// Trains some steps of two micro-batches each. Returns the losses of the steps, and the state after the last step: the logits in evaluation
/// mode, the running means and the running variances.
fn steps(golden: &Value, axes: &[(Axis, &str)]) -> [Vec<f64>; 4] {
    with_resnet(golden, axes, |trainer| {
        let pieces = PIECES.map(|rows| images(golden, rows));
        let steps = golden["steps"]["f64"]["keep"]["losses"].as_array().unwrap();
        let losses = steps
            .iter()
            .map(|_| trainer.step(&pieces).unwrap().loss)
            .collect();
        let parameters = trainer.working().freeze();
        let (logits, _) = trainer.predict(&parameters, &images(golden, (0, 6)));
        let values = |tensor: &burn::tensor::Tensor<1>| -> Vec<f64> {
            tensor.clone().into_data().iter::<f64>().collect()
        };
        let running = trainer.running.iter();
        let means = running.clone().flat_map(|(_, moments)| values(&moments.mean));
        let variances = running.flat_map(|(_, moments)| values(&moments.variance));
        let logits = logits.into_data().iter::<f64>().collect();
        [losses, logits, means.collect(), variances.collect()]
    })
}

/// Asserts that the difference of every value is at most `share` of the largest value.
fn assert_close(context: &str, got: &[f64], wanted: &[f64], share: f64) {
    assert_eq!(got.len(), wanted.len(), "{context}");
    let largest = wanted.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    for (got, wanted) in got.iter().zip(wanted) {
        assert!(
            (got - wanted).abs() <= share * largest,
            "{context}: got {got}, expected {wanted} (largest value {largest})"
        );
    }
}

#[test]
fn logits_and_gradients_match_pytorch_in_f64() {
    let golden = golden();
    with_resnet(&golden, &[(Axis::Precision, "64-true")], |trainer| {
        let batch = images(&golden, (0, 6));
        let working = trainer.working();
        let recorded = RefCell::default();
        let masks = trainer.dropout_masks(&batch);
        let parameters = working.freeze();
        let pass = trainer
            .model
            .pass(&parameters, &trainer.compute, Stage::Training(&recorded, &masks));
        let input = ResNet::upload(&batch, trainer.device);
        let logits = trainer.model.forward(&pass, &input);
        let logits: Vec<f64> = logits.into_data().iter::<f64>().collect();
        assert_close("logits", &logits, &floats(&golden["logits"]), 1e-12);
        assert_eq!(recorded.borrow().len(), trainer.model.norms().len());

        let mut sum = GradientSum::new(trainer.parameters.len());
        trainer.backward(&working, &batch, 1.0 / 6.0, &mut sum);
        let names: Vec<String> = trainer
            .parameters
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        let wanted = golden["gradients"].as_object().unwrap();
        assert_eq!(names.len(), wanted.len());
        for (name, gradient) in names.iter().zip(sum.iter()) {
            let data = gradient
                .expect("every parameter has a gradient")
                .clone()
                .into_data();
            let values: Vec<f64> = data.iter::<f64>().collect();
            let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
            let (of_norm, of_sum) = (&wanted[name]["norm"], &wanted[name]["sum"]);
            let largest = of_norm.as_f64().unwrap();
            assert!(
                (norm - largest).abs() <= 1e-11 * largest,
                "{name}: norm {norm}, expected {largest}"
            );
            let difference = values.iter().sum::<f64>() - of_sum.as_f64().unwrap();
            assert!(
                difference.abs() <= 1e-10 * largest,
                "{name}: the sum differs by {difference:e}"
            );
        }
    });
}

#[test]
fn steps_match_pytorch_with_both_batch_norm_momentum_rules() {
    let golden = golden();
    for (precision, format, share) in [("64-true", "f64", 1e-11), ("32-true", "f32", 2e-5)] {
        for rule in ["keep", "scaled"] {
            let axes = [
                (Axis::Precision, precision),
                (Axis::Accumulate, "2"),
                (Axis::BatchNormMomentum, rule),
            ];
            let got = steps(&golden, &axes);
            let wanted = &golden["steps"][format][rule];
            for (key, got) in ["losses", "logits", "means", "variances"].iter().zip(got) {
                assert_close(
                    &format!("{precision}, {rule}: {key}"),
                    &got,
                    &floats(&wanted[key]),
                    share,
                );
            }
        }
    }
}

/// Returns the values of all parameters.
fn parameters(trainer: &Trainer<ResNet>) -> Vec<Vec<f64>> {
    let values = trainer.parameters.iter();
    values
        .map(|(_, value)| value.clone().into_data().iter::<f64>().collect())
        .collect()
}

/// Returns the running means and variances of all batch norms.
fn running(trainer: &Trainer<ResNet>) -> Vec<Vec<f64>> {
    let norms = trainer.running.iter();
    norms
        .flat_map(|(_, moments)| [&moments.mean, &moments.variance])
        .map(|moment| moment.clone().into_data().iter::<f64>().collect())
        .collect()
}

#[test]
fn the_momentum_rule_changes_running_statistics_but_not_weights() {
    let golden = golden();
    for precision in ["32-true", "bf16-mixed", "16-mixed", "16-true"] {
        let of = |rule| {
            let axes = [
                (Axis::Precision, precision),
                (Axis::Accumulate, "2"),
                (Axis::BatchNormMomentum, rule),
            ];
            with_resnet(&golden, &axes, |trainer| {
                let pieces = PIECES.map(|rows| images(&golden, rows));
                let losses = [(); 3].map(|()| trainer.step(&pieces).unwrap().loss);
                (losses, parameters(trainer), running(trainer))
            })
        };
        let ((losses, weights, statistics), (scaled_losses, scaled_weights, scaled_statistics)) =
            (of("keep"), of("scaled"));
        assert_eq!(losses, scaled_losses, "{precision}");
        assert!(weights == scaled_weights, "{precision}: weights differ");
        assert_ne!(statistics, scaled_statistics, "{precision}");
    }
}

#[test]
fn incomplete_groups_scale_the_batch_norm_momentum() {
    let golden = golden();
    let of = |rule, accumulate| {
        let axes = [(Axis::Accumulate, accumulate), (Axis::BatchNormMomentum, rule)];
        with_resnet(&golden, &axes, |trainer| {
            trainer.step(&[images(&golden, PIECES[0])]).unwrap();
            running(trainer)
        })
    };
    // The step has one micro-batch: an incomplete group if `accumulate` is 4, a complete group if it is 1. The scaled momentum depends on the
    // actual number of micro-batches, here one, so it equals the momentum without scaling.
    assert_eq!(of("scaled", "4"), of("keep", "1"));
}

/// Returns images whose last micro-batch is short.
fn synthetic_dataset() -> Dataset<crate::data::Images> {
    crate::data::synthetic_images(
        &crate::data::RequestedSplits::TrainAndTest(Split {
            join: false,
            train: Some(20),
            validation: 6,
            test: Some(10),
            seed: 3,
        }),
        32,
    )
}

/// Calls `run` with synthetic images and a trainer of a small model, whose initial weights are drawn from the seed. `change` modifies the task
/// before the trainer is created.
fn with_small<T>(
    axes: &[(Axis, &str)],
    change: impl FnOnce(&mut TrainTask),
    run: impl FnOnce(&mut Trainer<ResNet>, &Dataset<crate::data::Images>) -> T,
) -> T {
    let golden = golden();
    let axes = [&[(Axis::Batch, "8")], axes].concat();
    with_resnet(&golden, &axes, |trainer| {
        let data = synthetic_dataset();
        let mut task = trainer.task.clone();
        change(&mut task);
        let of_model = ResNetSize { depth: 8, width: 4 };
        let model = ResNet::new(of_model, data.train.edge(), data.classes);
        let inputs = Inputs::default();
        let mut trainer = Trainer::new(trainer.cell, &task, model, &inputs, trainer.device).unwrap();
        run(&mut trainer, &data)
    })
}

/// Trains, and returns weights and running statistics.
fn trained(trainer: &mut Trainer<ResNet>, data: &Dataset<crate::data::Images>) -> [Vec<Vec<f64>>; 2] {
    trainer.run(data, &mut ByteCountObserver).unwrap();
    [parameters(trainer), running(trainer)]
}

#[test]
fn warm_up_and_memory_step_do_not_change_a_resnet() {
    for precision in ["32-true", "16-mixed", "bf16-true"] {
        let axes = [(Axis::Precision, precision), (Axis::Accumulate, "2")];
        let plain = with_small(&axes, |_| (), trained);
        let warmed = with_small(
            &axes,
            |_| (),
            |trainer, data| {
                trainer.warm_up(data).unwrap();
                let parts =
                    crate::train::memory::measure_parts(trainer, data, &mut ByteCountObserver).unwrap();
                assert!(parts.is_some());
                trainer.start_over(&Inputs::default()).unwrap();
                trained(trainer, data)
            },
        );
        assert!(plain == warmed, "{precision}");
    }
}

#[test]
fn observation_does_not_change_a_resnet_and_records_every_layer() {
    let axes = [(Axis::Precision, "16-mixed")];
    let plain = with_small(&axes, |_| (), trained);
    let (observed, layers, ranges) = with_small(
        &axes,
        |task| task.observe_every = 2,
        |trainer, data| {
            let trained = trained(trainer, data);
            let ranges = std::mem::take(&mut trainer.log.samples.ranges);
            (trained, trainer.model.layers(), ranges)
        },
    );
    assert!(plain == observed, "observation changed the training");
    for layer in layers {
        let of_layer = |range: &TensorRange| range.class == TensorClass::Activation && range.layer == layer;
        assert!(
            ranges.iter().any(of_layer),
            "no activations of `{layer}` in {ranges:?}"
        );
    }
}

#[test]
fn sensitivity_analysis_covers_every_layer_of_a_resnet() {
    with_small(
        &[],
        |_| (),
        |trainer, data| {
            let before = trained(trainer, data);
            let test = evaluate(trainer, &data.test, &mut ByteCountObserver, Phase::Evaluate).unwrap();
            let (trials, verdict) =
                sensitivity(trainer, &data.test, &test.correct, &mut ByteCountObserver).unwrap();
            assert!([parameters(trainer), running(trainer)] == before);
            let alone: BTreeSet<_> = trials.iter().filter_map(|trial| trial.layer.clone()).collect();
            assert_eq!(alone, trainer.model.layers().into_iter().collect());
            assert!(verdict.detail.contains("exponent bits"), "{}", verdict.detail);
        },
    );
}

#[test]
fn checkpointing_does_not_change_any_bit_of_a_resnet() {
    let golden = golden();
    for precision in ["32-true", "bf16-mixed", "16-mixed"] {
        let of = |checkpointing| {
            let axes = [(Axis::Precision, precision), (Axis::Checkpointing, checkpointing)];
            steps(&golden, &axes)
        };
        assert_eq!(of("on"), of("off"), "{precision}");
    }
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    let golden = golden();
    let first = |kept: Option<&str>, precision| {
        with_resnet(&golden, &[(Axis::Precision, precision)], |trainer| {
            if let Some(layer) = kept {
                trainer.model = trainer.model.clone().keep_in_f32_except(layer);
            }
            trainer.step(&[images(&golden, (0, 6))]).unwrap().loss
        })
    };
    let exact = first(None, "32-true");
    let layers = with_resnet(&golden, &[], |trainer| trainer.model.layers());
    assert_eq!(layers.len(), size(&golden, "depth") as usize);
    for layer in &layers {
        assert_ne!(first(Some(layer), "bf16-mixed"), exact, "{layer} alone in bf16");
    }
    let all = [
        (Axis::Precision, "bf16-mixed"),
        (Axis::KeepF32, "conv1+layer1+layer2+layer3+linear"),
    ];
    assert_eq!(
        steps(&golden, &all),
        steps(&golden, &[]),
        "all layers kept in f32"
    );
    for matmul in ["high", "medium"] {
        let [losses, ..] = steps(&golden, &[(Axis::Matmul, matmul)]);
        assert_ne!(losses[0], exact, "{matmul}");
    }
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    let golden = golden();
    let of = |precision| steps(&golden, &[(Axis::Precision, precision)]);
    let [exact, ..] = of("32-true");
    for (precision, share) in [("bf16-mixed", 0.05), ("16-mixed", 0.01)] {
        let [losses, ..] = of(precision);
        assert_ne!(losses, exact);
        assert_close(precision, &losses, &exact, share);
    }
}

#[test]
fn resnet_learns_synthetic_images() {
    let golden = golden();
    let split = Split {
        join: false,
        train: Some(256),
        validation: 0,
        test: Some(128),
        seed: 3,
    };
    let data = crate::data::synthetic_images(&crate::data::RequestedSplits::TrainAndTest(split), 32);
    let of_model = ResNetSize { depth: 8, width: 4 };
    with_resnet(&golden, &[(Axis::Batch, "32")], |trainer| {
        let mut task = trainer.task.clone();
        task.epochs = 6;
        let model = ResNet::new(of_model, data.train.edge(), data.classes);
        let inputs = Inputs::default();
        let mut trainer = Trainer::new(trainer.cell, &task, model, &inputs, trainer.device).unwrap();
        trainer.run(&data, &mut ByteCountObserver).unwrap();
        let test = evaluate(&trainer, &data.test, &mut ByteCountObserver, Phase::Evaluate);
        // The chance level is one in ten.
        let accuracy = test.unwrap().share.rate();
        assert!(accuracy > 0.3, "{accuracy}");
    });
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use super::*;

    #[test]
    fn gpu_resnet_training_follows_pytorch() {
        if !vulkan_is_there() {
            return;
        }
        let golden = golden();
        let axes = [(Axis::Accumulate, "2"), (Axis::BatchNormMomentum, "scaled")];
        let wanted = &golden["steps"]["f32"]["scaled"];
        // Test only with fusion. The tests of the convolutions in `mantissa-precision` cover the kernels without fusion.
        let got = on(vulkan(true), || steps(&golden, &axes));
        for (key, got) in ["losses", "logits", "means", "variances"].iter().zip(got) {
            assert_close(key, &got, &floats(&wanted[key]), 2e-5);
        }
    }
}
