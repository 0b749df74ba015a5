//! Trains a small classifier on synthetic data, a spiral with three arms, on the CPU. The precision is set in one line.
//!
//! ```sh
//! cargo run --release -p mantissa-precision --example mixed_precision
//! cargo run --release -p mantissa-precision --example mixed_precision -- 16-mixed
//! ```

use std::{env, error::Error, f32::consts::TAU};

use burn::tensor::{Device, Int, Tensor, TensorData};
use mantissa_precision::{
    Compute, GradientSum, LossScaler, Optimizer, OptimizerKind, OptimizerSettings, ParameterSet, Precision,
    Tracked,
};

const CLASSES: usize = 3;
const HIDDEN: usize = 64;
const EPOCHS: usize = 20;
const BATCH: usize = 32;
/// Micro-batches per optimizer step.
const ACCUMULATE: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let precision = env::args().nth(1).unwrap_or("bf16-mixed".into());
    let accuracy = train(precision.parse()?)?;
    println!("test accuracy {:.1} %", 100.0 * accuracy);
    Ok(())
}

/// Trains the model and returns its accuracy on the test points.
fn train(precision: Precision) -> Result<f64, Box<dyn Error>> {
    let compute = Compute::from(precision);
    let mut random = Random(1);
    let (train, test) = (spiral(960, &mut random), spiral(480, &mut random));
    let device = Device::flex();
    let mut parameters = ParameterSet::new(layers(&mut random), precision.parameters(), &device);
    let settings = OptimizerSettings::new(OptimizerKind::AdamW, 1e-2);
    let mut optimizer = Optimizer::new(settings, parameters.len());
    let mut scaler = LossScaler::of(precision);

    println!("{precision}, {} parameters", parameters.count());
    for epoch in 1..=EPOCHS {
        let mut sum = 0.0;
        for group in train.chunks(BATCH * ACCUMULATE) {
            let working = parameters.working(&compute, |_| true);
            let mut gradients = GradientSum::new(parameters.len());
            for batch in group.chunks(BATCH) {
                let weights = working.track();
                let (points, arms) = upload(batch, &device.clone().autodiff());
                let loss = compute.cross_entropy_sum(model(&weights, &compute, points), arms);
                sum += loss.clone().into_scalar::<f64>();
                gradients.add(loss.mul_scalar(scaler.scale() / group.len() as f64), &weights);
            }
            scaler.step(&mut optimizer, &mut parameters, gradients)?;
        }
        println!("epoch {epoch:2}: loss {:.4}", sum / train.len() as f64);
    }

    let (points, arms) = upload(&test, &device);
    let predicted = model(&parameters.freeze(), &compute, points)
        .argmax(1)
        .flatten::<1>(0, 1);
    let correct: f64 = predicted.equal(arms).int().sum().into_scalar();
    Ok(correct / test.len() as f64)
}

/// Computes logits `[n, CLASSES]` of points `[n, 2]`.
fn model(weights: &Tracked, compute: &Compute, points: Tensor<2>) -> Tensor<2> {
    let linear = |input, layer: &str| {
        let (weight, bias) = (format!("{layer}.weight"), format!("{layer}.bias"));
        compute.linear(input, weights.matrix(&weight), weights.vector(&bias))
    };
    let hidden = compute.gelu(linear(points, "first"));
    let hidden = compute.gelu(linear(hidden, "second"));
    linear(hidden, "classes")
}

/// Returns name, shape and initial values of each parameter. Values are uniform between −1/√inputs and 1/√inputs.
fn layers(random: &mut Random) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let sizes = [
        ("first", 2, HIDDEN),
        ("second", HIDDEN, HIDDEN),
        ("classes", HIDDEN, CLASSES),
    ];
    let layer = |(name, inputs, outputs): (&str, usize, usize)| {
        let bound = (inputs as f32).sqrt().recip();
        let values = (0..inputs * outputs).map(|_| bound * (2.0 * random.next() - 1.0));
        let weight = (format!("{name}.weight"), vec![outputs, inputs], values.collect());
        [
            weight,
            (format!("{name}.bias"), vec![outputs], vec![0.0; outputs]),
        ]
    };
    sizes.into_iter().flat_map(layer).collect()
}

/// A point and the index of its arm, which is its class.
type Example = ([f32; 2], i32);

/// Generates points on the arms of a spiral, with some noise.
fn spiral(n: usize, random: &mut Random) -> Vec<Example> {
    let point = |i: usize| {
        let arm = i % CLASSES;
        let radius = random.next().sqrt();
        let angle = TAU * (arm as f32 / CLASSES as f32 + 0.8 * radius) + 0.4 * (random.next() - 0.5);
        let point = [radius * angle.cos(), radius * angle.sin()];
        (point, arm as i32)
    };
    (0..n).map(point).collect()
}

fn upload(batch: &[Example], device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let points: Vec<f32> = batch.iter().flat_map(|(point, _)| *point).collect();
    let arms: Vec<i32> = batch.iter().map(|(_, arm)| *arm).collect();
    (
        Tensor::from_data(TensorData::new(points, [batch.len(), 2]), device),
        Tensor::from_data(TensorData::new(arms, [batch.len()]), device),
    )
}

/// Generator of numbers in [0, 1): a linear congruential generator with Knuth's constants.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

#[test]
fn settings_with_f32_weights_learn() {
    for precision in [Precision::True32, Precision::Mixed16, Precision::MixedBf16] {
        let accuracy = train(precision).unwrap();
        assert!(accuracy > 0.9, "{precision}: {accuracy}");
    }
}
