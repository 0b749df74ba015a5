//! Testing by another framework: the same examples in the same micro-batches.

use std::time::Instant;

use super::{
    hand_over::{hand_over, hand_over_again},
    program::{Predicted, Question},
    session::Session,
};
use crate::{
    Outcome, Phase, ReadWeights, WorkloadError,
    data::Dataset,
    evaluate::{Said, agreement, go_through, micro_batches, outcome},
    models::Network,
    start::Purpose,
    subject::Work,
};

/// A test without its model and its data.
pub(super) struct Testing<'a> {
    pub session: Session<'a>,
}

impl Work for Testing<'_> {
    type Output = Outcome;

    fn on<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let Self { mut session } = self;
        let handed = hand_over(&session.handing(), &model, &data, Purpose::Testing)?;
        let loaded = session.load(&handed)?;

        let started = Instant::now();
        session.progress(Phase::WarmUp, 0, 1);
        let batches = micro_batches(session.cell, &data.test);
        for indices in [batches.first(), batches.last()].into_iter().flatten() {
            predict(&mut session, indices)?;
            predict(&mut session, indices)?;
        }
        let warmup_seconds = started.elapsed().as_secs_f64();

        let total = batches.len() as u64;
        session.progress(Phase::Measure, 0, total);
        let (cell, part) = (session.cell, &data.test);
        let predict = |indices: &[usize]| said(&mut session.peer, indices);
        let tested = go_through(cell, part, predict, session.observer)?;
        // What comes next is not the setting's, in time, in energy or in memory.
        session.progress(Phase::Evaluate, 0, total);
        session.observer.memory_known();
        let read = session.inputs.weights_of(&cell.workload.name);
        let read = read.map(|_| ReadWeights::ByAnother);
        let reference = cell.setting.in_f32();
        let agreement = if read.is_some() && reference != cell.setting {
            let handed = hand_over_again(&session.handing(), &handed, &reference)?;
            session.load(&handed)?;
            let predict = |indices: &[usize]| said(&mut session.peer, indices);
            let predicted = tested.predicted();
            Some(agreement(cell, part, predicted, predict, session.observer)?)
        } else {
            None
        };
        let seconds = (loaded.seconds, warmup_seconds);
        Ok(outcome(cell, &data, tested, read, agreement, vec![], seconds))
    }
}

fn predict(session: &mut Session<'_>, examples: &[usize]) -> Result<Said, WorkloadError> {
    said(&mut session.peer, examples)
}

fn said(peer: &mut super::Peer, examples: &[usize]) -> Result<Said, WorkloadError> {
    let part = "test";
    let Predicted {
        window,
        predicted,
        losses,
    } = peer.ask(&Question::Predict { part, examples })?;
    Ok(Said {
        predicted,
        losses: losses.into_iter().map(|loss| loss.unwrap_or(f64::NAN)).collect(),
        window: peer.moments(window),
        allocator: peer.allocator,
    })
}
