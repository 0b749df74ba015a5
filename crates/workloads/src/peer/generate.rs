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
    let cell_file = write_prompts(&session.cell_files(), model, task)?;
    let loaded = session.load(&cell_file)?;

    let started = Instant::now();
    session.progress(Phase::WarmUp, 0, 1);
    let warm_up_event = warm_up(task.into(), || generate_text(&mut session))?;
    let warmup_seconds = started.elapsed().as_secs_f64();

    let (n, max_samples) = (session.cell.setting.batch() as usize, task.max_samples);
    session.progress(Phase::Measure, 0, max_samples.into());
    let texts = generate_texts(task, n, |number| {
        let text = generate_text(&mut session)?;
        session.progress(Phase::Measure, number.into(), max_samples.into());
        let throttled = session.observer.is_throttled(text.window.start);
        Ok((text, throttled))
    })?;
    // The following work does not count towards the setting's time, energy or memory.
    session.progress(Phase::Evaluate, 0, max_samples.into());
    session.observer.memory_peak_reached();
    let read = session.inputs.weights_of(&session.cell.workload.name);
    let read = read.map(|_| ReadWeights::ByPeer);
    let seconds = (loaded.seconds, warmup_seconds);
    Ok(texts.outcome(task, n, read, vec![warm_up_event], seconds))
}

fn generate_text(session: &mut Session<'_>) -> Result<Generated, WorkloadError> {
    let GeneratedText {
        window,
        tokens,
        seconds,
        finite,
    } = session.peer.request(&Request::Write)?;
    Ok(Generated {
        tokens,
        seconds,
        finite,
        window: session.peer.to_instants(window),
    })
}
