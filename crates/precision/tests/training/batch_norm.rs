//! Batch norm against PyTorch's: `peers/pytorch/golden/batch_norm.py` asked it.

use burn::tensor::{DType, Device, Tensor, TensorData};
use mantissa_core::{Format, Precision};
use mantissa_precision::{BatchNormMomentum, Compute, Moments, dtype, micro_batch_momentum};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("numbers/batch_norm.json")).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap();
    list.iter().map(|number| number.as_f64().unwrap()).collect()
}

fn tensor<const D: usize>(values: &Value, shape: [usize; D], options: (&Device, DType)) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers(values), shape), options)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Every value within this share of the largest.
fn assert_close(what: &str, got: &[f64], wanted: &Value, share: f64) {
    let wanted = numbers(wanted);
    assert_eq!(got.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    for (got, wanted) in got.iter().zip(wanted) {
        let off = (got - wanted).abs();
        assert!(
            off <= share * largest,
            "{what}: {got} and not {wanted}, of at most {largest}"
        );
    }
}

#[test]
fn outputs_gradients_and_running_statistics_are_pytorchs_in_every_format() {
    // A share of the largest value: the sums' rounding in f64 and f32, one unit in the last place of a half.
    let formats = [
        ("f64", Format::F64, Precision::True64, 1e-13),
        ("f32", Format::F32, Precision::True32, 1e-6),
        ("f16", Format::F16, Precision::Mixed16, 1.0 / 1024.0),
        ("bf16", Format::Bf16, Precision::MixedBf16, 1.0 / 128.0),
    ];
    let golden = golden();
    let shape: [usize; 4] = serde_json::from_value(golden["shape"].clone()).unwrap();
    let epsilon = golden["epsilon"].as_f64().unwrap();
    let momentum = golden["momentum"].as_f64().unwrap();
    let device = Device::flex();
    let tracking = device.clone().autodiff();
    for (name, format, precision, share) in formats {
        let compute = Compute::from(precision);
        let (images, wide) = (dtype(format), dtype(precision.parameters()));
        let wanted = &golden["formats"][name];
        let parameter = |name: &str| tensor::<1>(&golden[name], [shape[1]], (&tracking, wide)).require_grad();
        let (scale, shift) = (parameter("scale"), parameter("shift"));
        // Running statistics are summed in f32 at least.
        let of_sums = if format == Format::F64 { 1e-13 } else { 1e-6 };
        let mut running = Moments::unit(shape[1], wide, &device);
        for (index, batch) in golden["batches"].as_array().unwrap().iter().enumerate() {
            let what = format!("{name}, batch {index}");
            let batch = tensor::<4>(batch, shape, (&tracking, images)).require_grad();
            let (output, moments) =
                compute.batch_norm_training(batch.clone(), scale.clone(), shift.clone(), epsilon);
            assert_close(
                &what,
                &values(output.clone().inner()),
                &wanted["outputs"][index],
                share,
            );
            let moments = Moments {
                mean: moments.mean.inner(),
                variance: moments.variance.inner(),
            };
            running = running.follow(moments, momentum);
            assert_close(
                &what,
                &values(running.mean.clone()),
                &wanted["running"][index]["mean"],
                of_sums,
            );
            let variance = &wanted["running"][index]["variance"];
            assert_close(&what, &values(running.variance.clone()), variance, of_sums);
            if index == 0 {
                let weights = tensor(&golden["weights"], shape, (&tracking, images));
                let grads = (output * weights).sum().backward();
                let wanted = &wanted["gradients"];
                assert_close(
                    &what,
                    &values(batch.grad(&grads).unwrap()),
                    &wanted["images"],
                    share,
                );
                assert_close(
                    &what,
                    &values(scale.grad(&grads).unwrap()),
                    &wanted["scale"],
                    share,
                );
                assert_close(
                    &what,
                    &values(shift.grad(&grads).unwrap()),
                    &wanted["shift"],
                    share,
                );
            }
        }
        let first = tensor::<4>(&golden["batches"][0], shape, (&device, images));
        let evaluated = compute.batch_norm(first, scale.inner(), shift.inner(), &running, epsilon);
        assert_close(name, &values(evaluated), &wanted["evaluated"], share);
    }
}

/// The reason for the momentum that is scaled: where micro-batches look alike, it leaves what one whole batch leaves, and
/// the momentum that is kept does not.
#[test]
fn a_scaled_momentum_leaves_after_all_micro_batches_what_a_whole_batch_leaves() {
    let device = Device::flex();
    let batch = || Moments {
        mean: Tensor::from_data(TensorData::from([3.0_f64]), (&device, DType::F64)),
        variance: Tensor::from_data(TensorData::from([0.25_f64]), (&device, DType::F64)),
    };
    let start = || Moments::unit(1, DType::F64, &device);
    let whole = start().follow(batch(), 0.1);
    let after = |momentum: BatchNormMomentum| {
        let each = micro_batch_momentum(momentum, 0.1, 8);
        (0..8).fold(start(), |running, _| running.follow(batch(), each))
    };
    let off = |a: Moments| {
        let mean = values(a.mean)[0] - values(whole.mean.clone())[0];
        mean.abs()
            .max((values(a.variance)[0] - values(whole.variance.clone())[0]).abs())
    };
    assert!(off(after(BatchNormMomentum::Scaled)) < 1e-12);
    assert!(off(after(BatchNormMomentum::Keep)) > 1.0);
}
