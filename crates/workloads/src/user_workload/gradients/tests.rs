use std::{path::Path, sync::Arc};

use burn::{
    module::Module,
    nn::{
        DropoutConfig, EmbeddingConfig, GroupNormConfig, HardSigmoidConfig, InstanceNormConfig,
        LayerNormConfig, LeakyReluConfig, Linear, LinearConfig, PReluConfig, PaddingConfig1d,
        PaddingConfig2d, PositionalEncodingConfig, RmsNormConfig, RotaryEncodingConfig, SoftplusConfig,
        SwiGluConfig, Unfold4dConfig,
        attention::{MhaInput, MultiHeadAttentionConfig, generate_autoregressive_mask},
        conv::{Conv1dConfig, Conv2dConfig},
        gru::GruConfig,
        interpolate::{Interpolate2dConfig, InterpolateMode},
        lstm::LstmConfig,
        pool::{AdaptiveAvgPool2dConfig, AvgPool1dConfig, MaxPool2dConfig},
        transformer::{TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{Int, activation},
};
use mantissa_precision::Precision;

use super::*;
use crate::Examples;

const VALUES: usize = 24;

/// Module, and a function that computes logits from rows of numbers.
struct Case<M> {
    make: fn(&Device) -> M,
    forward: fn(&M, Tensor<2>) -> Tensor<2>,
}

impl<M: Module + 'static> UserWorkload for Case<M> {
    type Example = [f32; VALUES];
    type Model = M;
    type Input = Tensor<2>;

    fn examples(&self, _: Option<&Path>) -> Result<Examples<[f32; VALUES]>, String> {
        unreachable!("the tests create their own examples")
    }

    fn bytes(&self, _: &[f32; VALUES]) -> Vec<u8> {
        vec![]
    }

    fn classes(&self) -> u32 {
        unreachable!("the tests do not use classes")
    }

    fn model(&self, device: &Device) -> M {
        (self.make)(device)
    }

    fn input(&self, examples: &[&[f32; VALUES]], device: &Device) -> Tensor<2> {
        let values: Vec<f32> = examples.iter().copied().flatten().copied().collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), VALUES]), device)
    }

    fn forward(&self, module: &M, input: Tensor<2>) -> Tensor<2> {
        (self.forward)(module, input)
    }
}

fn examples() -> Vec<([f32; VALUES], u32)> {
    let example = |row: usize| {
        let value = |column: usize| (1.3 * (row * VALUES + column) as f32).sin();
        (std::array::from_fn(value), 0)
    };
    (0..3).map(example).collect()
}

/// Asserts that the gradients of a replayed module match burn's gradients in f32, and that the logits in each format of the CPU are close to
/// the logits in f64. Unless `name` contains `dropout`, also asserts that logits in training and in evaluation are equal.
fn assert_agrees<M: Module + 'static>(
    name: &str,
    make: fn(&Device) -> M,
    forward: fn(&M, Tensor<2>) -> Tensor<2>,
) {
    let model = UserModel::new(Arc::new(Case { make, forward }), 3).unwrap();
    let examples = examples();
    if let Err(error) = check(&model, &examples) {
        panic!("{name}: {error}");
    }

    let device = Device::flex();
    let values = ModuleParameters::of(&*model.workload, model.seed).values;
    let inputs: Vec<_> = examples.iter().map(|(example, _)| example).collect();
    let logits = |precision: Precision, trains: bool| {
        let autocast = Autocast::new(Compute::from(precision)).training(trains);
        let format = mantissa_precision::dtype(precision.parameters());
        let constants = Constants::new(model.seed);
        let logits = model.logits(autocast, (&constants, &device), &inputs, |index| {
            let values = values[index].clone();
            let count = values.len();
            Tensor::<1>::from_data(TensorData::new(values, [count]), &device).cast(format)
        });
        logits.into_data().iter::<f32>().collect::<Vec<_>>()
    };
    let exact = logits(Precision::True64, false);
    for (precision, tolerance) in [
        (Precision::True32, 1e-4),
        (Precision::MixedBf16, 0.1),
        (Precision::TrueBf16, 0.1),
        (Precision::Mixed16, 0.02),
        (Precision::True16, 0.02),
    ] {
        let rounded = logits(precision, false);
        if !name.contains("dropout") {
            assert_eq!(logits(precision, true), rounded, "{name} in {precision}");
        }
        let difference = norm(rounded.iter().zip(&exact).map(|(rounded, exact)| rounded - exact));
        let scale = norm(exact.iter().copied());
        assert!(
            difference <= tolerance * scale,
            "{name} in {precision}: got {rounded:?}, expected {exact:?}"
        );
    }
}

/// Reshapes `[n, 24]` to sequences of six tokens.
fn sequences(input: Tensor<2>) -> Tensor<3> {
    let [n, _] = input.dims();
    input.reshape([n, 6, 4])
}

/// Reshapes `[n, 24]` to images of two channels.
fn images(input: Tensor<2>) -> Tensor<4> {
    let [n, _] = input.dims();
    input.reshape([n, 2, 3, 4])
}

fn rows<const D: usize>(output: Tensor<D>) -> Tensor<2> {
    output.flatten(1, D - 1)
}

#[test]
fn replayed_burn_modules_agree_with_burn() {
    assert_agrees(
        "transformer",
        |device| {
            let encoder = TransformerEncoderConfig::new(4, 8, 2, 2).with_norm_first(true);
            let encoder = encoder.with_dropout(0.0);
            (
                PositionalEncodingConfig::new(4).init(device),
                encoder.init(device),
            )
        },
        |(positions, encoder), input| {
            let hidden = positions.forward(sequences(input));
            rows(encoder.forward(TransformerEncoderInput::new(hidden)))
        },
    );
    assert_agrees(
        "quiet transformer with dropout",
        |device| {
            let encoder = TransformerEncoderConfig::new(4, 8, 2, 1).with_quiet_softmax(true);
            encoder.init(device)
        },
        |encoder, input| rows(encoder.forward(TransformerEncoderInput::new(sequences(input)))),
    );
    assert_agrees(
        "masked attention",
        |device| {
            let attention = MultiHeadAttentionConfig::new(4, 2).with_dropout(0.0);
            attention.init(device)
        },
        |attention, input| {
            let (n, device) = (input.dims()[0], input.device());
            let mask = generate_autoregressive_mask(n, 6, &device);
            let output = attention.forward(MhaInput::self_attn(sequences(input)).mask_attn(mask));
            rows(output.context)
        },
    );
    assert_agrees(
        "rotary",
        |device| {
            let projection = LinearConfig::new(4, 4).init(device);
            (RotaryEncodingConfig::new(8, 4).init(device), projection)
        },
        |(rotary, projection), input| rows(rotary.forward(projection.forward(sequences(input)))),
    );
    assert_agrees(
        "lstm",
        |device| LstmConfig::new(4, 5, true).init(device),
        |lstm, input| lstm.forward(sequences(input), None).1.hidden,
    );
    assert_agrees(
        "gru",
        |device| GruConfig::new(4, 5, true).init(device),
        |gru, input| rows(gru.forward(sequences(input), None)),
    );
    assert_agrees(
        "convolutions",
        |device| {
            (
                Conv2dConfig::new([2, 4], [3, 3])
                    .with_padding(PaddingConfig2d::Same)
                    .init(device),
                GroupNormConfig::new(2, 4).init(device),
                MaxPool2dConfig::new([2, 2]).with_strides([1, 1]).init(),
                AdaptiveAvgPool2dConfig::new([2, 2]).init(),
                LinearConfig::new(16, 3).init(device),
            )
        },
        |(convolution, norm, pool, average, head), input| {
            let hidden = activation::relu(norm.forward(convolution.forward(images(input))));
            head.forward(rows(average.forward(pool.forward(hidden))))
        },
    );
    assert_agrees(
        "lines",
        |device| {
            (
                Conv1dConfig::new(4, 4, 3)
                    .with_groups(2)
                    .with_padding(PaddingConfig1d::Explicit(2, 1))
                    .init(device),
                InstanceNormConfig::new(4).init(device),
                AvgPool1dConfig::new(2).with_stride(2).init(),
            )
        },
        |(convolution, norm, pool), input| {
            let lines = sequences(input).swap_dims(1, 2);
            rows(pool.forward(norm.forward(convolution.forward(lines))))
        },
    );
    assert_agrees(
        "gates and dropout",
        |device| {
            (
                RmsNormConfig::new(4).init(device),
                SwiGluConfig::new(4, 6).init(device),
                LayerNormConfig::new(6).with_bias(false).init(device),
                DropoutConfig::new(0.2).init(),
            )
        },
        |(first, gated, second, dropout), input| {
            let hidden = gated.forward(first.forward(sequences(input)));
            rows(dropout.forward(second.forward(hidden)))
        },
    );
    assert_agrees(
        "activations",
        |device| {
            (
                LinearConfig::new(VALUES, 8).init(device),
                PReluConfig::new().init(device),
                LeakyReluConfig::new().init(),
                HardSigmoidConfig::new().init(),
                SoftplusConfig::new().init(),
            )
        },
        |(linear, prelu, leaky, hard, softplus), input| {
            let hidden = prelu.forward(linear.forward(input));
            let hidden =
                leaky.forward(hidden.clone() - 0.1) + hard.forward(hidden.clone()) + softplus.forward(hidden);
            let hidden = activation::gelu_approximate(hidden.clone()) + activation::mish(hidden.clone())
                - activation::log_sigmoid(hidden.clone()) * activation::elu(hidden, 1.0);
            activation::log_softmax(hidden.clone(), 1)
                + activation::softmin(hidden.clone(), 0)
                + activation::silu(hidden).clamp(-0.2, 0.4)
        },
    );
    assert_agrees(
        "table",
        |device| EmbeddingConfig::new(3, 5).init(device),
        |table, input| {
            let numbers: Tensor<2, Int> = (input.abs() * 2.9).int();
            rows(table.forward(numbers))
        },
    );
    assert_agrees(
        "resized",
        |device| {
            (
                Conv2dConfig::new([2, 2], [1, 1]).init(device),
                Interpolate2dConfig::new()
                    .with_output_size(Some([5, 7]))
                    .with_mode(InterpolateMode::Linear)
                    .init(),
                Unfold4dConfig::new([2, 2]).with_padding([1, 1]).init(),
            )
        },
        |(convolution, resize, unfold), input| {
            rows(unfold.forward(resize.forward(convolution.forward(images(input)))))
        },
    );
    assert_agrees(
        "statistics",
        |device| LinearConfig::new(4, 4).init(device),
        |linear, input| {
            let hidden = linear.forward(sequences(input));
            let (variance, mean) = hidden.clone().var_mean(2);
            let normal = (hidden.clone() - mean) / (variance + 1e-3).sqrt();
            let maximum = hidden.clone().max_dim(1).expand([normal.dims()[0], 6, 4]);
            let sums = normal.cumsum(1).sort(2) + maximum.powf_scalar(3.0);
            let flags = sums.clone().greater_elem(0.0);
            rows(sums.mask_fill(flags.bool_not(), -0.5) + hidden.flip([1]).repeat_dim(2, 1))
        },
    );
}

#[test]
fn a_nan_gradient_does_not_hide_a_detached_layer() {
    let case = Case::<(Linear, Linear)> {
        make: |device| {
            let layer = LinearConfig::new(VALUES, 2);
            (layer.init(device), layer.init(device))
        },
        // The gradient of `sqrt(x * 0)` is NaN.
        forward: |(undefined, detached), input| {
            let root = (undefined.forward(input.clone()) * 0.0).sqrt();
            root + detached.forward(input).detach()
        },
    };
    let model = UserModel::new(Arc::new(case), 3).unwrap();
    let error = check(&model, &examples()).unwrap_err().to_string();
    assert!(error.contains("`1.weight`"), "{error}");
}
