//! Compares ResNets for ImageNet with torchvision. `peers/pytorch/golden/resnet_imagenet.py` computes and documents the expected numbers.

use mantissa_precision::GradientSum;

use super::*;
use crate::{
    data::ImageBatch,
    models::{ImageNetResNet, Network, Stage},
};

/// Depths with basic blocks and with bottlenecks.
const DEPTHS: [u32; 2] = [18, 50];

fn golden(depth: u32) -> Value {
    let text = match depth {
        18 => include_str!("../../../tests/golden/resnet18-tiny.json"),
        50 => include_str!("../../../tests/golden/resnet50-tiny.json"),
        depth => unreachable!("no golden numbers for a ResNet of {depth} layers"),
    };
    serde_json::from_str(text).unwrap()
}

fn size(golden: &Value, key: &str) -> u32 {
    golden["config"][key].as_u64().unwrap() as u32
}

/// Returns all images as one micro-batch.
fn images(golden: &Value) -> ImageBatch {
    let quarters = floats(&golden["images"]);
    let labels = floats(&golden["labels"]);
    ImageBatch {
        values: quarters.iter().map(|x| (x / 4.0) as f32).collect(),
        edge: size(golden, "edge") as usize,
        labels: labels.iter().map(|x| *x as i32).collect(),
    }
}

/// Calls `run` with a trainer of the model in the golden file.
fn with_imagenet_resnet<T>(
    golden: &Value,
    axes: &[(Axis, &str)],
    run: impl FnOnce(&mut Trainer<ImageNetResNet>) -> T,
) -> T {
    let depth = size(golden, "depth");
    let of_model = ImageNetResNetSize {
        depth,
        width: size(golden, "width"),
        image_size: size(golden, "edge"),
    };
    let task = task(Model::ResnetImagenet(of_model.clone()), 0.1);
    let (edge, classes) = (size(golden, "edge") as usize, size(golden, "classes"));
    let model = ImageNetResNet::new(of_model, edge, classes);
    let axes = [&[(Axis::Optimizer, "sgd")], axes].concat();
    let weights = format!("resnet{depth}-tiny.safetensors");
    with_golden(&task, &axes, (model, &weights), run)
}

/// Returns the logits with the running statistics of the checkpoint, and the logits with the statistics of the batch.
fn logits(golden: &Value, precision: &str) -> [Vec<f64>; 2] {
    with_imagenet_resnet(golden, &[(Axis::Precision, precision)], |trainer| {
        let batch = images(golden);
        let parameters = trainer.working().freeze();
        let (testing, _) = trainer.predict(&parameters, &batch);
        let pass = trainer
            .model
            .pass(&parameters, &trainer.compute, Stage::Observing);
        let input = ImageNetResNet::upload(&batch, trainer.device);
        let training = trainer.model.forward(&pass, &input);
        [testing, training].map(|logits| logits.into_data().iter::<f64>().collect())
    })
}

/// Results of a training step that updates the running statistics but not the weights.
#[derive(Debug, PartialEq)]
struct StepGradients {
    /// Mean loss over the images.
    loss: f64,
    /// Gradients by parameter.
    gradients: Vec<(String, Vec<f64>)>,
    /// Names of the norms, in the order of their running statistics.
    norms: Vec<String>,
    means: Vec<f64>,
    variances: Vec<f64>,
}

fn compute_gradients(golden: &Value, axes: &[(Axis, &str)]) -> StepGradients {
    with_imagenet_resnet(golden, axes, |trainer| {
        let batch = images(golden);
        let share = 1.0 / batch.labels.len() as f64;
        let values = |tensor: &burn::tensor::Tensor<1>| -> Vec<f64> {
            tensor.clone().into_data().iter::<f64>().collect()
        };
        let working = trainer.working();
        let mut sum = GradientSum::new(trainer.parameters.len());
        let loss = trainer.backward(&working, &batch, share, &mut sum);
        trainer.update_running_statistics(loss.moments, 1);
        let names = trainer.parameters.iter().map(|(name, _)| name.to_owned());
        let gradients = sum
            .iter()
            .map(|gradient| values(gradient.expect("every parameter has a gradient")));
        let running = trainer.running.iter();
        StepGradients {
            loss: share * values(&loss.summed.inner())[0],
            gradients: names.zip(gradients).collect(),
            norms: running.clone().map(|(name, _)| name.clone()).collect(),
            means: running
                .clone()
                .flat_map(|(_, moments)| values(&moments.mean))
                .collect(),
            variances: running
                .flat_map(|(_, moments)| values(&moments.variance))
                .collect(),
        }
    })
}

/// Asserts that the difference of every value is at most `share` of the largest value.
fn assert_near(got: &[f64], wanted: &[f64], share: f64, context: &str) {
    let largest = wanted.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    assert_close(got, wanted, share * largest, context);
}

/// Asserts that norm and sum of every gradient differ by at most `share` of the norm.
fn assert_gradients_near(got: &[(String, Vec<f64>)], wanted: &Value, share: f64, context: &str) {
    let wanted = wanted.as_object().unwrap();
    assert_eq!(got.len(), wanted.len(), "{context}");
    for (name, values) in got {
        let [norm, sum] = ["norm", "sum"].map(|key| wanted[name][key].as_f64().unwrap());
        let got_norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let got_sum = values.iter().sum::<f64>();
        let near = |got: f64, wanted: f64| (got - wanted).abs() <= share * norm;
        assert!(
            near(got_norm, norm) && near(got_sum, sum),
            "{context}: {name}: norm {got_norm}, expected {norm}; sum {got_sum}, expected {sum}"
        );
    }
}

#[test]
fn logits_match_torchvision_with_running_and_with_batch_statistics() {
    for depth in DEPTHS {
        let golden = golden(depth);
        for (precision, share) in [("64-true", 1e-10), ("32-true", 1e-5)] {
            let got = logits(&golden, precision);
            for (key, got) in ["evaluation", "training"].iter().zip(got) {
                let context = format!("ResNet-{depth}, {precision}, {key}");
                assert_near(&got, &floats(&golden[*key]["logits"]), share, &context);
            }
        }
    }
}

#[test]
fn loss_gradients_and_running_statistics_match_torchvision_in_f64() {
    for depth in DEPTHS {
        let golden = golden(depth);
        let wanted = &golden["training"];
        let got = compute_gradients(&golden, &[(Axis::Precision, "64-true")]);
        let context = format!("ResNet-{depth}");
        assert_near(&[got.loss], &[wanted["loss"].as_f64().unwrap()], F64, &context);
        assert_gradients_near(&got.gradients, &wanted["gradients"], F64, &context);
        let norms = wanted["norms"].as_array().unwrap();
        let norms: Vec<_> = norms.iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(got.norms, norms, "{context}");
        // The file contains 12 decimals.
        assert_near(&got.means, &floats(&wanted["means"]), 1e-11, &context);
        assert_near(&got.variances, &floats(&wanted["variances"]), 1e-11, &context);
    }
}

#[test]
fn checkpointing_does_not_change_any_bit_of_either_kind_of_block() {
    for depth in DEPTHS {
        let golden = golden(depth);
        for precision in ["32-true", "bf16-mixed", "16-mixed"] {
            let of = |checkpointing| {
                let axes = [(Axis::Precision, precision), (Axis::Checkpointing, checkpointing)];
                compute_gradients(&golden, &axes)
            };
            let off = of("off");
            assert!(off.loss.is_finite(), "ResNet-{depth}, {precision}");
            assert!(of("on") == off, "ResNet-{depth}, {precision}");
        }
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use super::*;

    #[test]
    fn gpu_resnet_training_follows_torchvision() {
        if !vulkan_is_there() {
            return;
        }
        let golden = golden(18);
        let device = vulkan(true);
        let got = on(device.clone(), || logits(&golden, "32-true"));
        for (key, got) in ["evaluation", "training"].iter().zip(got) {
            assert_near(&got, &floats(&golden[*key]["logits"]), 2e-5, key);
        }
        // The gradients of the stem include the backward pass of the max pooling.
        let got = on(device, || compute_gradients(&golden, &[]));
        assert_gradients_near(&got.gradients, &golden["training"]["gradients"], 1e-3, "32-true");
    }
}
