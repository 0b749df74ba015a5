//! Program with deliberate regressions, selected by the environment variable `WORSENED`, for tests of the gate. The small changes
//! (`some-work=N`, which adds N matmuls, and `some-memory`) are for `.ci/gate-noise`, which measures the power of the gate.

use std::{path::Path, process::ExitCode, sync::OnceLock};

use mantissa::{
    Examples, UserWorkload, burn,
    burn::{
        module::Module,
        nn::{Linear, LinearConfig},
        tensor::{Device, Tensor, TensorData, activation},
    },
};

const WIDTH: usize = 256;

/// Additional bytes of `some-memory`.
const SOME_MEMORY_BYTES: usize = 5 << 19;

/// Number of times that the middle matmul is computed. Only one result counts; the others add work.
const MATMULS: usize = 20;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
    head: Linear,
}

/// Points in two classes, one on each side of a line.
struct Sides;

fn has_regression(name: &str) -> bool {
    std::env::var("WORSENED").is_ok_and(|selected| selected == name)
}

/// Returns the number of additional matmuls.
fn extra_matmuls() -> usize {
    let selected = std::env::var("WORSENED").unwrap_or_default();
    match selected.strip_prefix("some-work=") {
        Some(number) => number.parse().expect("`some-work` must be a number of matmuls"),
        None if selected == "work" => 9 * MATMULS,
        None => 0,
    }
}

impl UserWorkload for Sides {
    type Example = [f32; 8];
    type Model = Net;
    type Input = Tensor<2>;

    fn examples(&self, _data: Option<&Path>) -> Result<Examples<[f32; 8]>, String> {
        let point = |number: u32| {
            let values: [f32; 8] = std::array::from_fn(|index| (number as f32 * (index as f32 + 1.7)).sin());
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

    fn model(&self, device: &Device) -> Net {
        static EXTRA_MEMORY: OnceLock<Vec<u8>> = OnceLock::new();
        let bytes = match () {
            () if has_regression("memory") => 64 << 20,
            () if has_regression("some-memory") => SOME_MEMORY_BYTES,
            () => 0,
        };
        // Write to the pages to make them resident.
        EXTRA_MEMORY.get_or_init(|| vec![1; bytes]);
        Net {
            first: LinearConfig::new(8, WIDTH).init(device),
            second: LinearConfig::new(WIDTH, WIDTH).init(device),
            head: LinearConfig::new(WIDTH, 2).init(device),
        }
    }

    fn input(&self, examples: &[&[f32; 8]], device: &Device) -> Tensor<2> {
        let values: Vec<f32> = examples.iter().copied().flatten().copied().collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), 8]), device)
    }

    fn forward(&self, net: &Net, points: Tensor<2>) -> Tensor<2> {
        assert!(!has_regression("fails"), "deliberate failure");
        let hidden = activation::relu(net.first.forward(points));
        // Mantissa records this function and replays only operations on which the output depends. Therefore, the results of the other matmuls are
        // multiplied by zero and added.
        let others = MATMULS + extra_matmuls() - 1;
        let hidden = (0..others).fold(net.second.forward(hidden.clone()), |sum, _| {
            sum + net.second.forward(hidden.clone()) * 0.0
        });
        let logits = net.head.forward(activation::relu(hidden));
        match has_regression("learning") {
            true => logits * 0.0,
            false => logits,
        }
    }
}

fn main() -> ExitCode {
    mantissa::main_with(Sides)
}
