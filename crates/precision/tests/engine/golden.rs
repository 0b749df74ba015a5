//! Rounding and products against PyTorch and exact arithmetic: `peers/pytorch/golden/formats.py` and `matmul.py` made the
//! numbers.

use burn::{
    backend::Dispatch,
    tensor::{DType, Device, Tensor, TensorData},
};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::{Compute, PrecisionBackend};
use serde_json::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn matrix(value: &Value) -> (Vec<f64>, [usize; 2]) {
    let rows = value.as_array().unwrap();
    let values: Vec<f64> = rows
        .iter()
        .flat_map(|row| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()))
        .collect();
    let shape = [rows.len(), values.len() / rows.len()];
    (values, shape)
}

fn compute(precision: Precision, matmul: MatmulPrecision) -> Compute {
    Compute::new(precision, matmul, Accumulator::F32)
}

/// The golden product under a setting, and its relative Frobenius distance to the golden result named `want`.
fn distance(device: &Device, compute: Compute, stored: DType, want: &str) -> f64 {
    let golden = read(include_str!("numbers/matmul.json"));
    let upload = |name: &str| {
        let (values, shape) = matrix(&golden[name]);
        Tensor::<2>::from_data(TensorData::new(values, shape), (device, stored))
    };
    let product = compute.matmul(upload("left"), upload("right"));
    let (want, _) = matrix(&golden[want]);
    let got = product.into_data();
    let (mut difference, mut norm) = (0.0, 0.0);
    for (got, want) in got.iter::<f64>().zip(&want) {
        difference += (got - want).powi(2);
        norm += want * want;
    }
    (difference / norm).sqrt()
}

#[test]
fn every_rounding_is_pytorchs_bit_for_bit() {
    let golden = read(include_str!("numbers/rounding.json"));
    let device = Device::flex();
    let one = Tensor::<2>::ones([1, 1], (&device, DType::F32));
    for row in golden["rounding"].as_array().unwrap() {
        let bits = |name: &str| row[name].as_u64().unwrap() as u32;
        let x = f32::from_bits(bits("f32"));
        let input = Tensor::<2>::from_data([[x]], (&device, DType::F32));
        let same = |got: f32, name: &str| {
            let want = f32::from_bits(bits(name));
            let equal = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(equal, "{} to {name}: {got:e} is not {want:e}", row["what"]);
        };
        for (name, dtype) in [("bf16", DType::BF16), ("f16", DType::F16)] {
            let ours = Dispatch::round_to(input.clone().into_dispatch(), dtype.into());
            let ours = Dispatch::round_to(ours, DType::F32.into());
            same(Tensor::<2>::from_dispatch(ours).into_scalar(), name);
        }
        // A product with one shows what the multiplier saw. Adding to +0 turns −0 into +0, as it should.
        let seen: f32 = compute(Precision::True32, MatmulPrecision::High)
            .matmul(input, one.clone())
            .into_scalar();
        match f32::from_bits(bits("tf32")) {
            0.0 => assert_eq!(seen, 0.0, "{}", row["what"]),
            _ => same(seen, "tf32"),
        }
    }
}

#[test]
fn products_are_those_of_operands_rounded_as_asked() {
    let device = Device::flex();
    let double = compute(Precision::True64, MatmulPrecision::Highest);
    let single = |matmul, want| distance(&device, compute(Precision::True32, matmul), DType::F32, want);
    // What f32 sums of 40 products may lose.
    const SUMS: f64 = 5e-7;
    assert!(distance(&device, double, DType::F64, "exact") < 1e-15);
    assert!(single(MatmulPrecision::Highest, "exact") < SUMS);
    assert!(single(MatmulPrecision::High, "tf32") < SUMS);
    assert!(single(MatmulPrecision::Medium, "bf16") < SUMS);
    assert!(single(MatmulPrecision::High, "exact") > 1e-4);
    assert!(single(MatmulPrecision::Medium, "exact") > 1e-3);
}

#[test]
fn half_products_sum_in_f32_and_round_once() {
    let mixed = compute(Precision::MixedBf16, MatmulPrecision::Highest);
    // One rounding to 8 bits: at most 2⁻⁸ for each element, about 2⁻⁸/√3 in the norm.
    let error = distance(&Device::flex(), mixed, DType::F32, "bf16");
    assert!((5e-4..2.5e-3).contains(&error), "{error}");
}

/// FNV-1a, as `peers/pytorch/golden/formats.py` has it.
fn fingerprint(bytes: impl Iterator<Item = u8>) -> String {
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{digest:016x}")
}

#[test]
fn a_million_values_are_narrowed_and_every_half_is_widened_as_pytorch_does() {
    use half::{bf16, f16};

    let golden = read(include_str!("numbers/rounding.json"));
    let device = Device::flex();
    let values: Vec<f32> = (0..1_000_000u32)
        .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)))
        .collect();
    let count = values.len();
    let rounded = |dtype: DType| {
        let tensor = Tensor::<1>::from_data(TensorData::new(values.clone(), [count]), (&device, DType::F32));
        let half = Dispatch::round_to(tensor.into_dispatch(), dtype.into());
        Tensor::<1>::from_dispatch(half).into_data()
    };
    let narrowed = |bits: Vec<u16>| {
        let canonical = |(bits, value): (u16, &f32)| if value.is_nan() { 0xffff } else { bits };
        fingerprint(
            bits.into_iter()
                .zip(&values)
                .map(canonical)
                .flat_map(u16::to_le_bytes),
        )
    };
    let bf16s = rounded(DType::BF16).try_into_vec::<bf16>().unwrap();
    assert_eq!(
        golden["fingerprints"]["bf16"]["narrowed"],
        narrowed(bf16s.iter().map(|x| x.to_bits()).collect())
    );
    let f16s = rounded(DType::F16).try_into_vec::<f16>().unwrap();
    assert_eq!(
        golden["fingerprints"]["f16"]["narrowed"],
        narrowed(f16s.iter().map(|x| x.to_bits()).collect())
    );

    let widened = |data: TensorData| {
        let dtype = data.dtype();
        let tensor = Tensor::<1>::from_data(data, (&device, dtype));
        let wide = Dispatch::round_to(tensor.into_dispatch(), DType::F32.into());
        let wide = Tensor::<1>::from_dispatch(wide).into_data();
        let canonical = |x: f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
        fingerprint(
            wide.try_into_vec::<f32>()
                .unwrap()
                .into_iter()
                .map(canonical)
                .flat_map(u32::to_le_bytes),
        )
    };
    let all = || 0..=u16::MAX;
    let bf16s: Vec<bf16> = all().map(bf16::from_bits).collect();
    assert_eq!(
        golden["fingerprints"]["bf16"]["widened"],
        widened(TensorData::new(bf16s, [1 << 16]))
    );
    let f16s: Vec<f16> = all().map(f16::from_bits).collect();
    assert_eq!(
        golden["fingerprints"]["f16"]["widened"],
        widened(TensorData::new(f16s, [1 << 16]))
    );
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use mantissa_testing::alone;

    use super::*;

    fn highest_is_f32(device: &Device) {
        let highest = compute(Precision::True32, MatmulPrecision::Highest);
        assert!(distance(device, highest, DType::F32, "exact") < 5e-7);
    }

    #[test]
    fn highest_is_true_f32() {
        if let Some(device) = crate::vulkan(false) {
            highest_is_f32(&device);
        }
    }

    #[test]
    fn highest_is_true_f32_in_fused_kernels() {
        alone(|| {
            if let Some(device) = crate::vulkan(true) {
                highest_is_f32(&device);
            }
        });
    }
}
