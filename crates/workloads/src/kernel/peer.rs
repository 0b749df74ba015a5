//! Times a kernel of another framework with the same operands and the same stopping rule.

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
    copy::Copied,
    matmul::Operands,
    rows::{AdamW, Rows},
};
use crate::{
    Outcome, Phase, WorkloadError,
    peer::{Launched, Request, Session, What, write_operands},
    sampling::{sample, warm_up},
    timing::Timing,
};

/// Runs a kernel cell with the peer program of a session.
pub(crate) fn by_peer(mut session: Session<'_>, task: &KernelTask) -> Result<Outcome, WorkloadError> {
    let cell: &Cell = session.cell;
    let mut inputs = Inputs {
        setting: &cell.setting,
        stored: cell.setting.precision().parameters(),
        rng: ChaCha8Rng::seed_from_u64(cell.seed),
        device: &Device::flex(),
    };
    let operation = of_task(task, &mut inputs);
    let bytes = operation.values() as u64 * u64::from(inputs.stored.storage_bytes());
    let copies = Copies::of(task.cache, cell.setting.backend(), bytes);
    let cell_file = write_operands(&session.handing(), &operation.inputs())?;
    let loaded = session.load(&cell_file)?;

    session.progress(Phase::WarmUp, 0, 1);
    let empty: Result<Vec<_>, _> = (0..Timing::EMPTY)
        .map(|_| session.launch(What::Nothing))
        .collect();
    let timing = Timing::by_peer(empty?.iter().map(Launched::timed).collect());
    // The peer keeps the result of the first launch.
    let first = session.launch(What::Kernel)?;
    session.progress(Phase::WarmUp, 1, 1);
    let result = session.result()?;
    session.observer.memory_known();
    session.peer.ask::<()>(&Request::Copies {
        copies: copies.count(),
    })?;

    let mut next = || -> Result<_, WorkloadError> { Ok(session.launch(What::Kernel)?.at(&session.peer)) };
    let started = Instant::now();
    let warm = warm_up(task, || Ok(next()?.seconds()))?;
    let warmup_seconds = first.timed().wall + started.elapsed().as_secs_f64();
    let sampled = sample(task, |number| {
        let launch = session.launch(What::Kernel)?.at(&session.peer);
        let throttled = session.observer.is_throttled(launch.window.start);
        session.progress(Phase::Measure, number.into(), task.max_samples.into());
        Ok((launch, throttled))
    })?;
    session.progress(Phase::Evaluate, 0, 1);

    let mut copy = None;
    if let Some(traffic) = operation.traffic() {
        let copied = Copied::of(traffic, &inputs, task);
        session.peer.ask::<()>(&Request::LayForCopy {
            values: copied.values,
            copies: copied.copies.count(),
        })?;
        let times = copied.time(task, &timing, || {
            let launch = session.launch(What::Copy)?.at(&session.peer);
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
        read: timing.read(&sampled.launches),
        launches: sampled.launches,
        events: warm.into_iter().chain(sampled.events).collect(),
        copies,
    };
    Ok(measured.outcome((loaded.seconds, warmup_seconds)))
}

fn of_task(task: &KernelTask, inputs: &mut Inputs<'_>) -> Box<dyn Operation> {
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
