//! Text generation by another framework, with the same number of tokens after the same prompts.

use std::time::Instant;

use mantissa_core::GenerateTask;

use super::{
    cell_files::write_prompts,
    program::{GeneratedText, Request},
    session::Session,
};
use crate::{
    Outcome, Phase, ReadWeights, WorkloadError,
    data::Tokenized,
    generate::{Generated, generate_texts, warm_up},
    models::Network,
};

/// Runs a generation cell.
pub(super) fn generate<M: Network<Part = Tokenized>>(
    mut session: Session<'_>,
    task: &GenerateTask,
    model: &M,
) -> Result<Outcome, WorkloadError> {
    let cell_file = write_prompts(&session.handing(), model, task)?;
    let loaded = session.load(&cell_file)?;

    let started = Instant::now();
    session.progress(Phase::WarmUp, 0, 1);
    let warm = warm_up(task.into(), || write(&mut session))?;
    let warmup_seconds = started.elapsed().as_secs_f64();

    let (n, max_samples) = (session.cell.setting.batch() as usize, task.max_samples);
    session.progress(Phase::Measure, 0, max_samples.into());
    let texts = generate_texts(task, n, |number| {
        let written = write(&mut session)?;
        session.progress(Phase::Measure, number.into(), max_samples.into());
        let throttled = session.observer.is_throttled(written.window.start);
        Ok((written, throttled))
    })?;
    // The following work does not count towards the setting's time, energy or memory.
    session.progress(Phase::Evaluate, 0, max_samples.into());
    session.observer.memory_known();
    let read = session.inputs.weights_of(&session.cell.workload.name);
    let read = read.map(|_| ReadWeights::ByPeer);
    let seconds = (loaded.seconds, warmup_seconds);
    Ok(texts.outcome(task, n, read, vec![warm], seconds))
}

fn write(session: &mut Session<'_>) -> Result<Generated, WorkloadError> {
    let GeneratedText {
        window,
        tokens,
        seconds,
        finite,
    } = session.peer.ask(&Request::Write)?;
    Ok(Generated {
        tokens,
        seconds,
        finite,
        window: session.peer.moments(window),
    })
}
