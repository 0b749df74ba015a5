//! Timing a kernel of another framework: the same operands, the same rule for how often.

use std::time::Instant;

use mantissa_core::{Cell, Kernel, KernelTask};
use mantissa_precision::device::Flex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Formats, Inputs, MeasuredKernel, cache::Copies, matmul::Operands};
use crate::{
    Outcome, Phase, WorkloadError,
    peer::{Launched, Question, Session, hand_over_operands},
    sampling::{sample, warm_up},
    timing::Timing,
};

/// Runs a kernel cell with the program of a session.
pub(crate) fn by_peer(mut session: Session<'_>, task: &KernelTask) -> Result<Outcome, WorkloadError> {
    let cell: &Cell = session.cell;
    let shape = match task.kernel {
        Kernel::Matmul(shape) => shape.of(cell.setting.size()),
        _ => {
            let reason = "of kernels, products alone are handed over to other frameworks";
            return Err(WorkloadError::Unavailable(reason.to_owned()));
        }
    };
    let mut inputs = Inputs::<Flex> {
        setting: &cell.setting,
        stored: cell.setting.precision().parameters(),
        rng: ChaCha8Rng::seed_from_u64(cell.seed),
        device: &Default::default(),
    };
    let operands = Operands::new(shape, &mut inputs);
    let bytes = operands.values() as u64 * u64::from(inputs.stored.storage_bytes());
    let copies = Copies::of(task.cache, cell.setting.backend(), bytes);
    let handed = hand_over_operands(&session.handing(), &operands.named(), copies.count())?;
    let loaded = session.load(&handed)?;

    session.progress(Phase::WarmUp, 0, 1);
    let empty: Result<Vec<_>, _> = (0..Timing::EMPTY)
        .map(|_| session.peer.ask::<Launched>(&Question::Launch { nothing: true }))
        .collect();
    let timing = Timing::by_peer(empty?.iter().map(Launched::timed).collect());
    // The result of the first launch is kept.
    let first: Launched = session.peer.ask(&Question::Launch { nothing: false })?;
    session.progress(Phase::WarmUp, 1, 1);
    let result = session.result()?;
    session.observer.memory_known();
    session.peer.ask::<()>(&Question::Copies)?;

    let mut next = || -> Result<_, WorkloadError> {
        let launched: Launched = session.peer.ask(&Question::Launch { nothing: false })?;
        Ok(launched.at(&session.peer))
    };
    let started = Instant::now();
    let warm = warm_up(task, || Ok(next()?.seconds()))?;
    let warmup_seconds = first.timed().wall + started.elapsed().as_secs_f64();
    let sampled = sample(task, |number| {
        let launched: Launched = session.peer.ask(&Question::Launch { nothing: false })?;
        let launch = launched.at(&session.peer);
        let held_back = session.observer.held_back(launch.window.start);
        session.progress(Phase::Measure, number.into(), task.max_samples.into());
        Ok((launch, held_back))
    })?;
    session.progress(Phase::Evaluate, 0, 1);

    let formats = Formats::of(&cell.setting, task.kernel.kind());
    let error = operands.compare(&result, formats);
    let measured = MeasuredKernel {
        error,
        values: result.len() as u64,
        flops: Some(operands.flops()),
        copy: None,
        read: timing.read(&sampled.launches),
        launches: sampled.launches,
        events: warm.into_iter().chain(sampled.events).collect(),
        copies,
    };
    Ok(measured.outcome((loaded.seconds, warmup_seconds)))
}
