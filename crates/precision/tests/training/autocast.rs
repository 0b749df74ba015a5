//! The table of autocast against PyTorch's own: `peers/pytorch/golden/autocast.py` asked it.

use std::{collections::BTreeSet, fmt::Write};

use burn::tensor::{DType, Device, Int, Tensor};
use mantissa_core::{Accumulator, Attention, MatmulPrecision, Precision};
use mantissa_precision::{
    Compute, Sight,
    autocast::{OPERATIONS, OpClass},
};
use serde_json::Value;

const DOCS: &str = include_str!("../../../../docs/autocast.md");

fn golden() -> Value {
    serde_json::from_str(include_str!("numbers/autocast.json")).unwrap()
}

fn texts(list: &Value) -> BTreeSet<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect()
}

#[test]
fn the_table_has_every_operation_of_pytorchs_lists_in_its_class() {
    let golden = golden();
    let unlisted = texts(&golden["unlisted"]);
    let of = |class| -> BTreeSet<&str> {
        let rows = OPERATIONS.iter().filter(|row| row.class == class);
        rows.flat_map(|row| row.torch.iter().copied()).collect()
    };
    let lists = [
        (OpClass::Lower, "lower"),
        (OpClass::Full, "full"),
        (OpClass::Widest, "widest"),
    ];
    for (class, list) in lists {
        let ours: BTreeSet<&str> = of(class).difference(&unlisted).copied().collect();
        assert_eq!(ours, texts(&golden["lists"][list]), "{class:?}");
    }
    let names: Vec<&str> = OPERATIONS
        .iter()
        .flat_map(|row| row.torch.iter().copied())
        .collect();
    assert_eq!(
        names.len(),
        names.iter().collect::<BTreeSet<_>>().len(),
        "one row each"
    );
    assert!(of(OpClass::Inputs).is_subset(&unlisted));
}

/// The dtype that an operation returns for inputs of these dtypes.
fn run(operation: &str, compute: Compute, inputs: &[DType]) -> DType {
    let device = Device::flex();
    let matrix = |index: usize| Tensor::<2>::ones([4, 4], (&device, inputs[index]));
    let images = |index: usize| Tensor::<4>::ones([1, 2, 4, 4], (&device, inputs[index]));
    let row = || Tensor::<1>::ones([4], (&device, DType::F32));
    match operation {
        "matmul" => compute.matmul(matrix(0), matrix(1)).dtype(),
        "linear" => compute.linear(matrix(0), matrix(1), row()).dtype(),
        "convolution" => {
            let filters = Tensor::ones([3, 2, 1, 1], (&device, DType::F32));
            compute.convolution(images(0), filters, 1, 0).dtype()
        }
        "attention" => {
            let compute = compute.with_attention(Attention::Fused);
            let parts = [images(0), images(1), images(2)];
            compute.attention(parts, &Sight::everything(), 0.0).dtype()
        }
        "softmax" => compute.softmax(matrix(0)).dtype(),
        "layer_norm" => compute.layer_norm(matrix(0), row(), row(), 1e-5).dtype(),
        "rms_norm" => compute.rms_norm(matrix(0), row(), 1e-5).dtype(),
        "cross_entropy_sum" => {
            let classes = Tensor::<1, Int>::zeros([4], &device);
            compute.cross_entropy_sum(matrix(0), classes).dtype()
        }
        "add" => compute.add(matrix(0), matrix(1)).dtype(),
        "mul" => compute.mul(matrix(0), matrix(1)).dtype(),
        "gelu" => compute.gelu(matrix(0)).dtype(),
        "silu" => compute.silu(matrix(0)).dtype(),
        "dropout" => compute.dropout(matrix(0), 0.1).dtype(),
        "batch_norm" => {
            let channels = || Tensor::<1>::ones([2], (&device, DType::F32));
            let (output, batch) = compute.batch_norm_training(images(0), channels(), channels(), 1e-5);
            let tested = compute.batch_norm(images(0), channels(), channels(), &batch, 1e-5);
            assert_eq!(output.dtype(), tested.dtype());
            output.dtype()
        }
        other => panic!("no method `{other}`"),
    }
}

#[test]
fn every_method_returns_the_format_that_pytorchs_autocast_does() {
    let golden = golden();
    for (precision, lower) in [
        (Precision::Mixed16, DType::F16),
        (Precision::MixedBf16, DType::BF16),
    ] {
        let compute = Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32);
        let dtype = |name: &Value| match name.as_str().unwrap() {
            "lower" => lower,
            _ => DType::F32,
        };
        let mut met = BTreeSet::new();
        for row in golden["observed"].as_array().unwrap() {
            let operation = row["operation"].as_str().unwrap();
            let inputs: Vec<DType> = row["inputs"].as_array().unwrap().iter().map(dtype).collect();
            let got = run(operation, compute, &inputs);
            assert_eq!(got, dtype(&row["output"]), "{precision} {row}");
            met.insert(operation);
        }
        for row in OPERATIONS {
            let method = row.method.map(|operation| operation.method());
            assert!(
                method.is_none_or(|method| met.contains(method)),
                "{method:?} was not asked for"
            );
        }
    }
}

#[test]
fn what_no_method_does_is_f32_under_a_mixed_setting_and_the_one_format_under_a_true_one() {
    let device = Device::flex();
    for (precision, want) in [
        (Precision::MixedBf16, DType::F32),
        (Precision::Mixed16, DType::F32),
        (Precision::TrueBf16, DType::BF16),
        (Precision::True64, DType::F64),
    ] {
        let compute = Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32);
        let product = compute.operand(Tensor::<2>::ones([2, 2], (&device, DType::F32)));
        assert_eq!(compute.full(product).dtype(), want, "{precision}");
    }
}

fn documented(class: OpClass) -> String {
    let mut text = String::from("| PyTorch | here |\n|---|---|\n");
    for row in OPERATIONS.iter().filter(|row| row.class == class) {
        let here = match (row.method, class) {
            (Some(operation), _) => format!("`Compute::{}`", operation.method()),
            (None, OpClass::Lower) => "burn's, on inputs from `Compute::operand`".into(),
            (None, OpClass::Full) => "burn's, on inputs from `Compute::full`".into(),
            (None, OpClass::Widest | OpClass::Inputs) => "burn's, as it is".into(),
        };
        writeln!(text, "| `{}` | {here} |", row.torch.join("` `")).unwrap();
    }
    text
}

#[test]
fn the_documentation_has_the_table_that_runs() {
    let mut wrong = String::new();
    for class in OpClass::ALL {
        let expected = format!("<!-- {class:?} -->\n{}\n", documented(class));
        if !DOCS.contains(&expected) {
            wrong += &expected;
        }
    }
    assert!(wrong.is_empty(), "docs/autocast.md should contain\n{wrong}(end)");
}

#[test]
fn the_widest_of_both_halves_is_f32() {
    let widest = |a, b| OpClass::Widest.dtype(Precision::Mixed16, &[a, b]);
    assert_eq!(widest(DType::F16, DType::BF16), DType::F32);
    assert_eq!(widest(DType::BF16, DType::BF16), DType::BF16);
    assert_eq!(widest(DType::F16, DType::F64), DType::F64);
}
