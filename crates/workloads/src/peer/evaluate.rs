//! Evaluation by another framework, with the same examples in the same micro-batches.

use std::time::Instant;

use super::{
    cell_files::{write_files, write_with_setting},
    program::{Predicted, Request},
    session::Session,
};
use crate::{
    Outcome, Phase, ReadWeights, WorkloadError,
    data::{Dataset, Labelled, Part},
    evaluate::{Predictions, agreement, evaluate_part, micro_batches, outcome, warn_if_failed},
    initial_state::Purpose,
    model_and_data::ModelTask,
    models::Network,
};

/// Evaluation cell whose model and data are not loaded yet.
pub(super) struct EvaluationTask<'a> {
    pub session: Session<'a>,
}

impl ModelTask for EvaluationTask<'_> {
    type Output = Outcome;

    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let Self { mut session } = self;
        let cell_file = write_files(&session.cell_files(), &model, &data, Purpose::Testing)?;
        let loaded = session.load(&cell_file)?;

        let started = Instant::now();
        session.progress(Phase::WarmUp, 0, 1);
        let batches = micro_batches(session.cell, &data.test);
        for indices in [batches.first(), batches.last()].into_iter().flatten() {
            request_predictions(&mut session.peer, &data.test, indices)?;
            request_predictions(&mut session.peer, &data.test, indices)?;
        }
        let warmup_seconds = started.elapsed().as_secs_f64();

        let total = batches.len() as u64;
        session.progress(Phase::Measure, 0, total);
        let (cell, part) = (session.cell, &data.test);
        let predict = |indices: &[usize]| request_predictions(&mut session.peer, part, indices);
        let tested = evaluate_part(cell, part, predict, session.observer)?;
        // The comparison with f32 does not count towards the setting's time, energy or memory.
        session.progress(Phase::Evaluate, 0, total);
        session.observer.memory_peak_reached();
        let read = session.inputs.weights_of(&cell.workload.name);
        let read = read.map(|_| ReadWeights::ByPeer);
        let reference = cell.setting.in_f32();
        let mut events = vec![];
        let agreement = if read.is_some() && reference != cell.setting {
            let cell_file = write_with_setting(&session.cell_files(), &cell_file, &reference)?;
            let result = session.load(&cell_file).and_then(|_| {
                let predict = |indices: &[usize]| request_predictions(&mut session.peer, part, indices);
                agreement(cell, part, tested.predicted(), predict, session.observer)
            });
            warn_if_failed(result.map(Some), &mut events)?
        } else {
            None
        };
        let seconds = (loaded.seconds, warmup_seconds);
        Ok(outcome(cell, &data, tested, read, agreement, events, seconds))
    }
}

/// Requests predictions for test examples. Rejects a response with a wrong number of predictions, because all later predictions would be
/// assigned to the wrong examples.
fn request_predictions<P: Part>(
    peer: &mut super::Peer,
    test: &P,
    examples: &[usize],
) -> Result<Predictions, WorkloadError> {
    let part = "test";
    let Predicted {
        window,
        predicted,
        losses,
    } = peer.request(&Request::Predict { part, examples })?;
    let expected = test.batch(examples).labels().len();
    if [predicted.len(), losses.len()] != [expected; 2] {
        return Err(WorkloadError::device(format!(
            "the peer returned a wrong number of results: expected {expected} predictions, got {} predictions and {} losses",
            predicted.len(),
            losses.len()
        )));
    }
    Ok(Predictions {
        predicted,
        losses: losses.into_iter().map(|loss| loss.unwrap_or(f64::NAN)).collect(),
        window: peer.to_instants(window),
        allocator: peer.allocator,
    })
}
