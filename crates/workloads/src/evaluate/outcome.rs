//! Outcome of an evaluation.

use mantissa_core::{Axis, Cell, Event, Executed, Samples};

use super::predictions::EvaluationResult;
use crate::{
    Outcome, ReadWeights, Share, TaskMeasurements,
    data::{Dataset, Part},
};

/// Builds the outcome of an evaluation. `read` describes the weights if they were read from a checkpoint. The last argument contains the seconds of
/// loading and of the warm-up.
pub(crate) fn outcome<P: Part>(
    cell: &Cell,
    data: &Dataset<P>,
    result: EvaluationResult,
    read: Option<ReadWeights>,
    agreement: Option<(Share, Vec<Share>)>,
    events: Vec<Event>,
    (load_seconds, warmup_seconds): (f64, f64),
) -> Outcome {
    let predicts_tokens = cell.workload.predicts_tokens();
    let (agreement, agreeing_passages) = agreement.unzip();
    let n = result.correct.len() as u64;
    let hits = result.correct.bytes().filter(|bit| *bit == b'1').count() as u64;
    let tokens = cell.workload.uses(Axis::Sequence);
    let batch = cell.setting.batch() as usize;
    let examples = batch.min(data.test.len()) as u64;
    let diverged = !result.loss.is_finite();
    Outcome {
        samples: Samples {
            series: vec![result.seconds],
            // Skip random weights (their accuracy is meaningless) and tokens of one text (they are not independent).
            test_correct: read.filter(|_| !predicts_tokens).map(|_| result.correct),
            ranges: vec![],
            trials: vec![],
            staleness: vec![],
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
            full_batches: (data.test.len() / batch) as u64,
            predicts_tokens,
            tokens: tokens.then(|| examples * u64::from(cell.setting.sequence())),
            loss: result.loss,
            test: Share { hits, n },
            agreement,
            tested_passages: result.passages,
            passage_losses: result.passage_losses,
            agreeing_passages: agreeing_passages.unwrap_or_default(),
            windows: result.windows,
        },
    }
}
