//! A program that was made worse on purpose, as the environment variable `WORSENED` says: what the gate has to see through.

use std::{path::Path, process::ExitCode, sync::OnceLock};

use mantissa::{
    Examples, Workload, burn,
    burn::{
        module::Module,
        nn::{Linear, LinearConfig},
        tensor::{Tensor, TensorData, activation, backend::Backend},
    },
};

const WIDTH: usize = 256;

#[derive(Module, Debug)]
struct Net<B: Backend> {
    first: Linear<B>,
    second: Linear<B>,
    head: Linear<B>,
}

/// Points, a class for each side of a line.
struct Sides;

fn worsened(how: &str) -> bool {
    std::env::var("WORSENED").is_ok_and(|given| given == how)
}

impl Workload for Sides {
    type Example = [f32; 8];
    type Model<B: Backend> = Net<B>;
    type Input<B: Backend> = Tensor<B, 2>;

    fn examples(&self, _data: Option<&Path>) -> Result<Examples<[f32; 8]>, String> {
        let point = |number: u32| {
            let values: [f32; 8] = std::array::from_fn(|place| (number as f32 * (place as f32 + 1.7)).sin());
            (values, u32::from(values.iter().sum::<f32>() > 0.0))
        };
        Ok(Examples {
            name: "sides of a line".to_owned(),
            synthetic: true,
            train: (0..1_000).map(point).collect(),
            test: None,
        })
    }

    fn bytes(&self, example: &[f32; 8]) -> Vec<u8> {
        example.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn classes(&self) -> u32 {
        2
    }

    fn model<B: Backend>(&self, device: &B::Device) -> Net<B> {
        static KEPT: OnceLock<Vec<u8>> = OnceLock::new();
        if worsened("memory") {
            // Pages that are written are there.
            KEPT.get_or_init(|| vec![1; 64 << 20]);
        }
        Net {
            first: LinearConfig::new(8, WIDTH).init(device),
            second: LinearConfig::new(WIDTH, WIDTH).init(device),
            head: LinearConfig::new(WIDTH, 2).init(device),
        }
    }

    fn input<B: Backend>(&self, examples: &[&[f32; 8]], device: &B::Device) -> Tensor<B, 2> {
        let values: Vec<f32> = examples.iter().copied().flatten().copied().collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), 8]), device)
    }

    fn forward<B: Backend>(&self, net: &Net<B>, points: Tensor<B, 2>) -> Tensor<B, 2> {
        assert!(!worsened("fails"), "made to fail");
        let hidden = activation::relu(net.first.forward(points));
        let hidden = match worsened("work") {
            // The same result after many times the work.
            true => (0..60)
                .map(|_| net.second.forward(hidden.clone()))
                .last()
                .unwrap_or(hidden),
            false => net.second.forward(hidden),
        };
        let logits = net.head.forward(activation::relu(hidden));
        match worsened("learning") {
            true => logits * 0.0,
            false => logits,
        }
    }
}

fn main() -> ExitCode {
    mantissa::main_with(Sides)
}
