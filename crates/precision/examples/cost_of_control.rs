//! Measures the time of Mantissa's controlled matmul and convolution on this CPU, in each matmul precision, relative to burn's own.
//! The runs alternate, so that other load on the machine affects both equally. Prints medians of the ratios with 95 %
//! confidence intervals. Targets on two cores: `highest` within 1.05, `high` and `medium` within 1.3.
//!
//! `cargo run --release -p mantissa-precision --example cost_of_control [ROUNDS]`

use std::{hint::black_box, time::Instant};

use burn::{
    backend::ops::ConvOptions,
    tensor::{Device, Distribution, Tensor, module::conv2d},
};
use mantissa_analysis::median;
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::Compute;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(200, |text| text.parse().expect("ROUNDS must be an integer"));
    for n in [256, 512, 1024] {
        let (lhs, rhs) = (draw([n, n]), draw([n, n]));
        #[expect(clippy::disallowed_methods, reason = "baseline of the comparison")]
        let burns = || drop(black_box(lhs.clone().matmul(rhs.clone())));
        let ours = |compute: Compute| drop(black_box(compute.matmul(lhs.clone(), rhs.clone())));
        compare(&format!("matmul {n}³"), rounds, burns, ours);
    }
    let (images, filters) = (draw([64, 32, 16, 16]), draw([32, 32, 3, 3]));
    #[expect(clippy::disallowed_methods, reason = "baseline of the comparison")]
    let burns = || {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        drop(black_box(conv2d(images.clone(), filters.clone(), None, options)));
    };
    let ours = |compute: Compute| {
        drop(black_box(compute.convolution(
            images.clone(),
            filters.clone(),
            1,
            1,
        )))
    };
    compare("convolution 64 × 32 × 16 × 16, 3 × 3", rounds, burns, ours);
}

fn draw<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

fn compare(name: &str, rounds: usize, burns: impl Fn(), ours: impl Fn(Compute)) {
    let seconds = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut burn_seconds = vec![];
    let mut ratios = vec![vec![]; MatmulPrecision::ALL.len()];
    // The first round is a warm-up and is not counted.
    for round in 0..=rounds {
        let of_burn = seconds(&burns);
        for (ratios, matmul) in ratios.iter_mut().zip(MatmulPrecision::ALL) {
            let compute = Compute::new(Precision::True32, *matmul, Accumulator::F32);
            let of_ours = seconds(&|| ours(compute));
            if round > 0 {
                ratios.push(of_ours / of_burn);
            }
        }
        burn_seconds.push(of_burn);
    }
    let milliseconds = 1e3 * median(burn_seconds).expect("ROUNDS must be at least 1").value;
    println!("{name}: burn {milliseconds:.2} ms");
    for (ratios, matmul) in ratios.into_iter().zip(MatmulPrecision::ALL) {
        let ratio = median(ratios).expect("ROUNDS must be at least 1");
        let interval = ratio.interval.map_or_else(String::new, |interval| {
            format!(" (95 % CI {:.3} to {:.3})", interval.low, interval.high)
        });
        println!("  {matmul}: {:.3}{interval}", ratio.value);
    }
}
