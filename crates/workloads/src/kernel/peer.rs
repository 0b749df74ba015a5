//! Times a kernel of another framework with the same operands and the same stopping rule as burn's.

use std::time::Instant;

use burn::tensor::Device;
use mantissa_core::{Cell, Kernel, KernelTask};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{
    Formats, Inputs, MeasuredKernel, Operation,
    attention::Attention,
    cache::Copies,
    convolution::Convolution,
    copy::CopyBenchmark,
    matmul::Operands,
    rows::{AdamW, Rows},
};
use crate::{
    Outcome, Phase, WorkloadError,
    peer::{LaunchKind, Launched, Request, Session, write_operands},
    sampling::{sample, warm_up},
    timing::Timing,
};

/// Runs a kernel cell with the peer of a session, which is the program of another framework.
pub(crate) fn kernel_by_peer(mut session: Session<'_>, task: &KernelTask) -> Result<Outcome, WorkloadError> {
    let cell: &Cell = session.cell;
    let mut inputs = Inputs {
        setting: &cell.setting,
        stored: cell.setting.precision().parameters(),
        rng: ChaCha8Rng::seed_from_u64(cell.seed),
        device: &Device::flex(),
    };
    let operation = operation_for(task, &mut inputs);
    let bytes = operation.values() as u64 * u64::from(inputs.stored.storage_bytes());
    let copies = Copies::for_state(task.cache, cell.setting.backend(), bytes);
    let cell_file = write_operands(&session.cell_files(), &operation.inputs())?;
    let loaded = session.load(&cell_file)?;

    session.progress(Phase::WarmUp, 0, 1);
    let empty: Result<Vec<_>, _> = (0..Timing::EMPTY_LAUNCHES)
        .map(|_| session.launch(LaunchKind::Nothing))
        .collect();
    let timing = Timing::for_peer(empty?.iter().map(Launched::timed).collect());
    // The peer keeps the result of the first launch, which `result` reads below.
    let first = session.launch(LaunchKind::Kernel)?;
    session.progress(Phase::WarmUp, 1, 1);
    let result = session.result()?;
    session.observer.memory_peak_reached();
    session.peer.request::<()>(&Request::Copies {
        copies: copies.count(),
    })?;

    let mut next =
        || -> Result<_, WorkloadError> { Ok(session.launch(LaunchKind::Kernel)?.to_launch(&session.peer)) };
    let started = Instant::now();
    let warm = warm_up(task, || Ok(next()?.seconds()))?;
    let warmup_seconds = first.timed().wall + started.elapsed().as_secs_f64();
    let sampled = sample(task, |number| {
        let launch = session.launch(LaunchKind::Kernel)?.to_launch(&session.peer);
        let throttled = session.observer.is_throttled(launch.window.start);
        session.progress(Phase::Measure, number.into(), task.max_samples.into());
        Ok((launch, throttled))
    })?;
    session.progress(Phase::Evaluate, 0, 1);

    let mut copy = None;
    if let Some(traffic) = operation.traffic() {
        let benchmark = CopyBenchmark::new(traffic, &inputs, task);
        session.peer.request::<()>(&Request::LayForCopy {
            values: benchmark.values,
            copies: benchmark.copies.count(),
        })?;
        let times = benchmark.time(task, &timing, || {
            let launch = session.launch(LaunchKind::Copy)?.to_launch(&session.peer);
            let throttled = session.observer.is_throttled(launch.window.start);
            Ok((launch, throttled))
        })?;
        copy = Some((traffic, times));
    }

    let formats = Formats::of(&cell.setting, task.kernel.kind());
    let measured = MeasuredKernel {
        error: operation.compare(&result, formats),
        values: result.len() as u64,
        flops: operation.flops(),
        copy,
        cublas: None,
        times: timing.launch_times(&sampled.launches),
        launches: sampled.launches,
        events: warm.into_iter().chain(sampled.events).collect(),
        copies,
    };
    Ok(measured.outcome((loaded.seconds, warmup_seconds)))
}

fn operation_for(task: &KernelTask, inputs: &mut Inputs<'_>) -> Box<dyn Operation> {
    let (kind, size) = (task.kernel.kind(), inputs.setting.size());
    match task.kernel {
        Kernel::Matmul(shape) => Box::new(Operands::new(shape.of(size), inputs)),
        Kernel::Convolution(shape) => Box::new(Convolution::new(shape, size as usize, inputs)),
        Kernel::Attention(shape) => Box::new(Attention::new(shape, size as usize, inputs)),
        Kernel::AdamW(shape) => Box::new(AdamW::new(shape.of(size), inputs)),
        Kernel::Gelu(shape)
        | Kernel::Softmax(shape)
        | Kernel::LayerNorm(shape)
        | Kernel::RmsNorm(shape)
        | Kernel::Cast(shape) => Box::new(Rows::new(kind, shape.of(size), inputs)),
    }
}
