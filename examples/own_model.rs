//! Runs your own model and data under every precision setting. Copy this file, and replace `Net` with your module and
//! `Spirals` with your data.
//!
//! ```text
//! cargo run --release -p mantissa --example own_model -- run examples/own_model.toml
//! ```

use std::{f32::consts::TAU, path::Path, process::ExitCode};

use mantissa::{
    Examples, UserWorkload, burn,
    burn::{
        module::Module,
        nn::{Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
        tensor::{Device, Tensor, TensorData, activation},
    },
};

/// The model. Any burn module works.
#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: LayerNorm,
    second: Linear,
    dropout: Dropout,
    head: Linear,
}

/// Points on two spirals, one spiral per class.
struct Spirals;

impl UserWorkload for Spirals {
    type Example = [f32; 2];
    type Model = Net;
    type Input = Tensor<2>;

    fn examples(&self, _data: Option<&Path>) -> Result<Examples<[f32; 2]>, String> {
        // Read your data here; `_data` is the path of `--data`.
        const POINTS: u32 = 2_000;
        let point = |number: u32| {
            let class = number % 2;
            let way = number as f32 / POINTS as f32;
            let angle = 2.0 * TAU * way + TAU / 2.0 * class as f32;
            ([way * angle.cos(), way * angle.sin()], class)
        };
        Ok(Examples {
            name: "two spirals".to_owned(),
            synthetic: true,
            train: (0..POINTS).map(point).collect(),
            test: None,
        })
    }

    fn bytes(&self, example: &[f32; 2]) -> Vec<u8> {
        example.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn classes(&self) -> u32 {
        2
    }

    fn model(&self, device: &Device) -> Net {
        const WIDTH: usize = 64;
        Net {
            first: LinearConfig::new(2, WIDTH).init(device),
            norm: LayerNormConfig::new(WIDTH).init(device),
            second: LinearConfig::new(WIDTH, WIDTH).init(device),
            dropout: DropoutConfig::new(0.05).init(),
            head: LinearConfig::new(WIDTH, 2).init(device),
        }
    }

    fn input(&self, examples: &[&[f32; 2]], device: &Device) -> Tensor<2> {
        let values: Vec<f32> = examples.iter().copied().flatten().copied().collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), 2]), device)
    }

    fn forward(&self, net: &Net, points: Tensor<2>) -> Tensor<2> {
        let hidden = activation::relu(net.first.forward(points));
        let hidden = activation::gelu(net.second.forward(net.norm.forward(hidden)));
        net.head.forward(net.dropout.forward(hidden))
    }
}

fn main() -> ExitCode {
    mantissa::main_with(Spirals)
}
