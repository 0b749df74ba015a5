//! Every optimizer against PyTorch and timm, step by step: `peers/pytorch/golden/optimizers.py` made the numbers.

use burn::tensor::{DType, Device, Tensor, TensorData};
use mantissa_core::{Format, OptimizerKind};
use mantissa_precision::{GradientSum, Optimizer, OptimizerSettings, ParameterSet, Tracked};
use serde_json::Value;

/// In the order of the golden file, in which the parameters are listed after each step.
const NAMES: [&str; 4] = ["matrix", "vector", "zeros", "late"];

/// Of each element, by itself: six roundings of f32 and of f64's 52 bits hundreds. PyTorch's own f32 is 2·10⁻⁷ from its f64.
const TOLERANCES: [(Format, &str, f64); 2] =
    [(Format::F32, "float32", 1e-6), (Format::F64, "float64", 1e-12)];

fn golden() -> Value {
    serde_json::from_str(include_str!("numbers/optimizers.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

/// What PyTorch was told, but for the learning rate, which changes.
fn settings(run: &Value) -> OptimizerSettings {
    let name = run["optimizer"].as_str().unwrap();
    let kind: OptimizerKind = name.split('-').next().unwrap().parse().unwrap();
    let number = |key: &str| run["options"][key].as_f64();
    OptimizerSettings {
        momentum: number("momentum").unwrap_or(0.0),
        epsilon: number("eps").unwrap_or(0.0),
        weight_decay: number("weight_decay").unwrap_or(0.0),
        ..OptimizerSettings::new(kind, 0.0)
    }
}

/// The golden gradients of a step: a loss of `Σ parameter · gradient` has them.
fn gradients(row: &Value, leaves: &Tracked, dtype: DType) -> GradientSum {
    let device = leaves.vector(NAMES[0]).device();
    let mut sum = GradientSum::new(NAMES.len());
    for name in NAMES.iter().filter(|name| !row[**name].is_null()) {
        let gradient = floats(&row[*name]);
        let shape = [gradient.len()];
        let gradient = Tensor::from_data(TensorData::new(gradient, shape), (&device, dtype));
        sum.add((leaves.vector(name) * gradient).sum(), leaves);
    }
    sum
}

/// The parameters after each step.
fn run(device: &Device, golden: &Value, settings: OptimizerSettings, format: Format) -> Vec<Vec<f64>> {
    let part = |name: &&str| {
        let values: Vec<f32> = floats(&golden["values"][name])
            .iter()
            .map(|x| *x as f32)
            .collect();
        let shape = floats(&golden["shapes"][name])
            .iter()
            .map(|n| *n as usize)
            .collect();
        (name.to_string(), shape, values)
    };
    let mut parameters = ParameterSet::new(NAMES.iter().map(part), format, device);
    let mut optimizer = Optimizer::new(settings, parameters.len());
    let rates = floats(&golden["learning_rates"]);
    let rows = golden["gradients"].as_array().unwrap();
    let step = |(rate, row): (f64, &Value)| {
        let dtype = parameters.iter().next().unwrap().1.dtype();
        let gradients = gradients(row, &parameters.track(), dtype);
        optimizer.set_learning_rate(rate);
        optimizer.step(&mut parameters, gradients);
        let values = parameters.iter().flat_map(|(_, value)| {
            let data = value.to_data();
            data.iter::<f64>().collect::<Vec<_>>()
        });
        values.collect()
    };
    rates.into_iter().zip(rows).map(step).collect()
}

/// The largest difference of an element, relative to it, over all steps.
fn distance(got: &[Vec<f64>], want: &[Value]) -> f64 {
    assert_eq!(got.len(), want.len());
    let elements = got.iter().zip(want).flat_map(|(got, want)| {
        let want = floats(want);
        assert_eq!(got.len(), want.len());
        got.clone().into_iter().zip(want)
    });
    let relative = elements.map(|(got, want)| match got == want {
        true => 0.0,
        false => (got - want).abs() / want.abs(),
    });
    relative.fold(0.0, mantissa_testing::worse)
}

#[test]
fn parameters_are_pytorchs_after_every_step_of_every_optimizer() {
    let (golden, device) = (golden(), Device::flex());
    for (format, runs, tolerance) in TOLERANCES {
        for want in golden[runs].as_array().unwrap() {
            let after = want["after"].as_array().unwrap();
            let apart = distance(&run(&device, &golden, settings(want), format), after);
            assert!(apart <= tolerance, "{} in {format}: {apart:e}", want["optimizer"]);
        }
    }
}

const HALVES: [(Format, &str); 2] = [(Format::F16, "float16"), (Format::Bf16, "bfloat16")];

/// How many elements over all steps are not PyTorch's number, bit for bit; where it has none, there must be none.
fn others(got: &[Vec<f64>], want: &Value) -> usize {
    let wanted = want["after"].as_array().unwrap().iter();
    let wanted: Vec<f64> = wanted
        .flat_map(|row| row.as_array().unwrap())
        .map(|x| x.as_f64().unwrap_or(f64::NAN))
        .collect();
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), wanted.len());
    let same = |(got, want): &(&f64, f64)| *got == want || got.is_nan() && want.is_nan();
    got.iter()
        .flatten()
        .zip(wanted)
        .filter(|pair| !same(pair))
        .count()
}

/// Factors are no halves: as bf16 Adam's 0.999 would be 1, and the mean of squares would never fade.
#[test]
fn halves_are_pytorchs_bit_for_bit_after_every_step_of_every_optimizer() {
    let (golden, device) = (golden(), Device::flex());
    for (format, runs) in HALVES {
        for want in golden[runs].as_array().unwrap() {
            let after = run(&device, &golden, settings(want), format);
            assert_eq!(others(&after, want), 0, "{} in {format}", want["optimizer"]);
            let mut rounded = settings(want);
            rounded.momentum = format.round(rounded.momentum).value;
            (rounded.beta1, rounded.beta2) = (
                format.round(rounded.beta1).value,
                format.round(rounded.beta2).value,
            );
            if rounded != settings(want) && rounded.momentum + rounded.epsilon > 0.0 {
                let after = run(&device, &golden, rounded, format);
                assert!(others(&after, want) > 0, "{} in {format}", want["optimizer"]);
            }
        }
    }
}

#[test]
fn a_wrong_constant_of_an_optimizer_is_far_outside_the_tolerance() {
    let golden = golden();
    type Fault = fn(&mut OptimizerSettings);
    let faults: [(&str, Fault); 9] = [
        ("sgd-momentum", |settings| settings.momentum = 0.8999),
        ("adam", |settings| settings.epsilon = 1e-7),
        ("adam", |settings| settings.beta1 = 0.8999),
        ("adam", |settings| settings.beta2 = 0.99899),
        ("adamw", |settings| settings.weight_decay = 0.0201),
        ("adamw", |settings| settings.kind = OptimizerKind::Adam),
        ("lars", |settings| settings.weight_decay = 0.0201),
        ("lamb", |settings| settings.weight_decay = 0.0201),
        ("lamb", |settings| settings.kind = OptimizerKind::AdamW),
    ];
    for (format, runs, tolerance) in TOLERANCES {
        for (optimizer, fault) in faults {
            let runs = golden[runs].as_array().unwrap();
            let want = runs.iter().find(|run| run["optimizer"] == optimizer).unwrap();
            let mut settings = settings(want);
            fault(&mut settings);
            let apart = distance(
                &run(&Device::flex(), &golden, settings.clone(), format),
                want["after"].as_array().unwrap(),
            );
            assert!(apart > 2.0 * tolerance, "{settings:?} in {format}: {apart:e}");
        }
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use mantissa_testing::alone;

    use super::*;

    fn f16s_are_pytorchs(device: &Device) {
        let golden = golden();
        for want in golden["float16"].as_array().unwrap() {
            let after = run(device, &golden, settings(want), Format::F16);
            assert_eq!(others(&after, want), 0, "{}", want["optimizer"]);
        }
    }

    #[test]
    fn halves_are_pytorchs() {
        if let Some(device) = crate::vulkan_with_f16(false) {
            f16s_are_pytorchs(&device);
        }
    }

    #[test]
    fn halves_are_pytorchs_in_fused_kernels() {
        alone(|| {
            if let Some(device) = crate::vulkan_with_f16(true) {
                f16s_are_pytorchs(&device);
            }
        });
    }
}
