//! Outcome of an evaluation.

use mantissa_core::{Axis, Cell, Event, Executed, Samples};

use super::predictions::EvaluationResult;
use crate::{
    Outcome, ReadWeights, Share, TaskMeasurements,
    data::{Dataset, Part},
};

/// Builds the outcome of an evaluation. `read` are the weights read from a checkpoint. The last argument is the time of loading and of the
/// warm-up in seconds.
pub(crate) fn outcome<P: Part>(
    cell: &Cell,
    data: &Dataset<P>,
    tested: EvaluationResult,
    read: Option<ReadWeights>,
    agreement: Option<(Share, Vec<Share>)>,
    events: Vec<Event>,
    (load_seconds, warmup_seconds): (f64, f64),
) -> Outcome {
    let words = cell.workload.predicts_tokens();
    let (agreement, agreeing_passages) = agreement.unzip();
    let n = tested.correct.len() as u64;
    let hits = tested.correct.bytes().filter(|bit| *bit == b'1').count() as u64;
    let tokens = cell.workload.concerns(Axis::Sequence);
    let batch = cell.setting.batch() as usize;
    let examples = batch.min(data.test.len()) as u64;
    let diverged = !tested.loss.is_finite();
    Outcome {
        samples: Samples {
            series: vec![tested.seconds],
            // Skip random weights (their accuracy is meaningless) and tokens of one text (they are not independent).
            test_correct: read.filter(|_| !words).map(|_| tested.correct),
            ranges: vec![],
            trials: vec![],
        },
        events,
        diverged: diverged.then(|| "the test loss is not finite".to_owned()),
        data: Some(data.source.clone()),
        executed: Executed::unverified(),
        load_seconds,
        warmup_seconds,
        launches: None,
        measured: TaskMeasurements::Evaluate {
            weights: read,
            examples,
            full: (data.test.len() / batch) as u64,
            words,
            tokens: tokens.then(|| examples * u64::from(cell.setting.sequence())),
            loss: tested.loss,
            test: Share { hits, n },
            agreement,
            tested_passages: tested.passages,
            passage_losses: tested.passage_losses,
            agreeing_passages: agreeing_passages.unwrap_or_default(),
            windows: tested.windows,
        },
    }
}
