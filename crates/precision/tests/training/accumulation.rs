//! Tests of gradient accumulation: a group of examples yields the same update and the same loss-scale decision for
//! every split into micro-batches.

use burn::tensor::{Device, Int, Tensor, TensorData};
use mantissa_core::{Accumulator, MatmulPrecision, OptimizerKind, Precision};
use mantissa_precision::{
    Compute, GradientSum, LossScaler, LossScaling, Optimizer, OptimizerSettings, ParameterSet, ScaleChange,
};
use proptest::prelude::*;

const INPUTS: usize = 3;
const HIDDEN: usize = 4;
const CLASSES: usize = 2;

/// Classifier with two layers, and its data.
#[derive(Debug, Clone)]
struct Problem {
    weights: Vec<f32>,
    /// Each example is `INPUTS` numbers and a class.
    examples: Vec<(Vec<f64>, i32)>,
}

const SHAPES: [(&str, &[usize]); 4] = [
    ("hidden.weight", &[HIDDEN, INPUTS]),
    ("hidden.bias", &[HIDDEN]),
    ("classes.weight", &[CLASSES, HIDDEN]),
    ("classes.bias", &[CLASSES]),
];

struct Training {
    /// Device with autodiff.
    device: Device,
    compute: Compute,
    parameters: ParameterSet,
    optimizer: Optimizer,
    scaler: LossScaler,
}

impl Training {
    fn new(
        device: &Device,
        problem: &Problem,
        precision: Precision,
        settings: OptimizerSettings,
        scaler: LossScaler,
    ) -> Self {
        let mut weights = problem.weights.iter().copied();
        let parts = SHAPES.map(|(name, shape)| {
            let values: Vec<f32> = weights.by_ref().take(shape.iter().product()).collect();
            (name.to_owned(), shape.to_vec(), values)
        });
        Self {
            device: device.clone().autodiff(),
            compute: Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32),
            parameters: ParameterSet::new(parts, precision.parameters(), device),
            optimizer: Optimizer::new(settings, SHAPES.len()),
            scaler,
        }
    }

    /// Runs one optimizer step over micro-batches of these sizes.
    fn step(&mut self, examples: &[(Vec<f64>, i32)], sizes: &[usize]) -> ScaleChange {
        let (compute, device) = (self.compute, &self.device);
        let working = self.parameters.working(&compute, |name| name.contains('.'));
        let mut gradients = GradientSum::new(SHAPES.len());
        let mut remaining = examples;
        for &size in sizes {
            let (batch, others) = remaining.split_at(size);
            remaining = others;
            let inputs: Vec<f64> = batch.iter().flat_map(|(inputs, _)| inputs.clone()).collect();
            let classes: Vec<i32> = batch.iter().map(|(_, class)| *class).collect();
            let leaves = working.track();
            let dtype = leaves.vector("hidden.bias").dtype();
            let inputs = Tensor::from_data(TensorData::new(inputs, [size, INPUTS]), (device, dtype));
            let classes = Tensor::<1, Int>::from_data(TensorData::new(classes, [size]), device);
            let layer = |input, name: &str| {
                let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
                compute.linear(input, leaves.matrix(&weight), leaves.vector(&bias))
            };
            let logits = layer(compute.gelu(layer(inputs, "hidden")), "classes");
            let loss = compute.cross_entropy_sum(logits, classes);
            gradients.add(
                loss.mul_scalar(self.scaler.scale() / examples.len() as f64),
                &leaves,
            );
        }
        let step = self
            .scaler
            .step(&mut self.optimizer, &mut self.parameters, gradients);
        step.unwrap()
    }

    fn values(&self) -> Vec<f64> {
        let values = self
            .parameters
            .iter()
            .flat_map(|(_, value)| value.to_data().iter::<f64>().collect::<Vec<_>>());
        values.collect()
    }
}

/// Generates a problem of up to a dozen examples and two ways to split them.
fn problem_and_splits() -> impl Strategy<Value = (Problem, [Vec<usize>; 2])> {
    let count = SHAPES
        .iter()
        .map(|(_, shape)| shape.iter().product::<usize>())
        .sum::<usize>();
    let weights = prop::collection::vec(-1.0f32..1.0, count);
    let example = (prop::collection::vec(-2.0f64..2.0, INPUTS), 0..CLASSES as i32);
    let examples = prop::collection::vec(example, 1..=12);
    (weights, examples).prop_flat_map(|(weights, examples)| {
        let (first, second) = (split(examples.len()), split(examples.len()));
        (Just(Problem { weights, examples }), [first, second])
    })
}

/// Generates sizes of micro-batches that add up to `n`, including short ones.
fn split(n: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<bool>(), n - 1).prop_map(|ends| {
        let mut sizes = vec![1];
        for end in ends {
            match (end, sizes.last_mut()) {
                (false, Some(size)) => *size += 1,
                _ => sizes.push(1),
            }
        }
        sizes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_into_micro_batches_gives_the_same_updates(
        (problem, splits) in problem_and_splits(),
        kind in prop::sample::select(OptimizerKind::ALL),
    ) {
        // Adam divides by the root of squares, so epsilon must exceed the rounding error of a gradient that is
        // mathematically zero.
        let settings = OptimizerSettings {
            momentum: 0.9,
            epsilon: 1e-3,
            weight_decay: 0.01,
            clip_norm: Some(0.5),
            ..OptimizerSettings::new(kind, 0.05)
        };
        let [first, second] = splits.map(|sizes| {
            let scaler = LossScaler::of(Precision::True64);
            let mut training =
                Training::new(&Device::flex(), &problem, Precision::True64, settings.clone(), scaler);
            for _ in 0..3 {
                training.step(&problem.examples, &sizes);
            }
            training.values()
        });
        for (a, b) in first.iter().zip(&second) {
            prop_assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "{a} is not {b}");
        }
    }
}

/// Returns four examples, the third of which overflows in f16.
fn overflowing_problem() -> Problem {
    let weights = (0..26).map(|i| (i as f32 * 0.7).sin() * 0.5).collect();
    let inputs = |i: i32| vec![0.5 + 0.1 * f64::from(i), -0.3, 0.2 * f64::from(i)];
    let mut examples: Vec<_> = (0..4).map(|i| (inputs(i), i % 2)).collect();
    examples[2].0[1] = 1e6;
    Problem { weights, examples }
}

#[test]
fn an_overflow_in_one_micro_batch_skips_the_whole_step() {
    check_overflow(&Device::flex());
}

fn check_overflow(device: &Device) {
    let problem = overflowing_problem();
    let scaling = LossScaling {
        initial: 1024.0,
        growth_interval: 2,
        ..LossScaling::default()
    };
    let settings = OptimizerSettings::new(OptimizerKind::Sgd, 0.1);
    let scaler = LossScaler::new(scaling);
    let mut training = Training::new(device, &problem, Precision::Mixed16, settings, scaler);
    let before = training.values();
    let change = training.step(&problem.examples, &[1, 1, 1, 1]);
    assert_eq!(
        change,
        ScaleChange::BackedOff(512.0),
        "the loss scale must be updated once for four micro-batches"
    );
    assert_eq!(
        training.values(),
        before,
        "the micro-batches without overflow must be skipped as well"
    );

    let good: Vec<_> = [0, 1, 3].map(|i| problem.examples[i].clone()).to_vec();
    let changes: Vec<_> = (0..3).map(|_| training.step(&good, &[1, 1, 1])).collect();
    let want = [ScaleChange::Kept, ScaleChange::Grew(1024.0), ScaleChange::Kept];
    assert_eq!(
        changes, want,
        "the growth interval must count steps, not micro-batches"
    );
    assert_ne!(training.values(), before);
}

#[test]
fn gradients_are_f32_under_mixed_settings() {
    let problem = overflowing_problem();
    for precision in [Precision::MixedBf16, Precision::Mixed16] {
        let settings = OptimizerSettings::new(OptimizerKind::Sgd, 0.1);
        let scaler = LossScaler::of(precision);
        let training = Training::new(&Device::flex(), &problem, precision, settings, scaler);
        let working = training
            .parameters
            .working(&training.compute, |name| name.contains('.'));
        let leaves = working.track();
        let weight = leaves.vector("hidden.weight");
        assert_eq!(weight.dtype(), training.compute.operand(weight.clone()).dtype());
        let mut gradients = GradientSum::new(SHAPES.len());
        gradients.add(weight.clone().sum(), &leaves);
        gradients.add(weight.mul_scalar(2f64.powi(-12)).sum(), &leaves);
        let sums = gradients.into_parts();
        let sum = sums[0].as_ref().unwrap();
        assert_eq!(sum.dtype(), burn::tensor::DType::F32, "{precision}");
        // This value rounds to 1 in both 16-bit formats.
        let wanted = 1.0 + 2f32.powi(-12);
        assert!(
            sum.to_data().iter::<f32>().all(|x| x == wanted),
            "{precision}: {sum}"
        );
    }
}

#[test]
fn gradients_of_repeated_rows_are_summed_in_f32() {
    let device = Device::flex();
    for precision in [Precision::TrueBf16, Precision::True16, Precision::True32] {
        let compute = Compute::from(precision);
        let table = ("table".to_owned(), vec![2, 3], vec![1.0; 6]);
        let parameters = ParameterSet::new([table], precision.parameters(), &device);
        let leaves = parameters.track();
        let rows = Tensor::<1, Int>::zeros([5000], &device.clone().autodiff());
        let read = compute.embedding(leaves.matrix("table"), rows);
        assert_eq!(read.dtype(), leaves.matrix("table").dtype());
        let mut gradients = GradientSum::new(1);
        gradients.add(read.sum(), &leaves);
        let sum = gradients.into_parts().remove(0).unwrap().to_data();
        // Sums of ones stop at 256 in bf16, and at 2048 in f16.
        let once_rounded = precision.parameters().round(5000.0).value as f32;
        let wanted = [once_rounded, once_rounded, once_rounded, 0.0, 0.0, 0.0];
        assert_eq!(sum.iter::<f32>().collect::<Vec<_>>(), wanted, "{precision}");
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_testing::alone;

    use super::*;

    #[test]
    fn an_overflow_skips_the_whole_step() {
        if let Some(device) = crate::vulkan_with_f16(false) {
            check_overflow(&device);
        }
    }

    #[test]
    fn an_overflow_skips_the_whole_step_with_fusion() {
        alone(|| {
            if let Some(device) = crate::vulkan_with_f16(true) {
                check_overflow(&device);
            }
        });
    }
}
