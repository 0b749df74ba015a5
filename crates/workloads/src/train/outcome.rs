//! Outcome of a training.

use mantissa_core::{Axis, Cell, Executed};

use super::{evaluation::Evaluation, log::Log};
use crate::{
    MemoryParts, Outcome, TaskMeasurements,
    data::{Dataset, Part},
    estimate::estimate_for,
};

/// Builds the outcome of a training from its log and its test.
pub(crate) fn outcome<P: Part>(
    cell: &Cell,
    data: &Dataset<P>,
    log: Log,
    test: Evaluation,
    (load_seconds, warmup_seconds): (f64, f64),
    memory: Option<MemoryParts>,
) -> Outcome {
    let (mut samples, totals) = (log.samples, log.totals);
    // `test_correct` allows a paired comparison of two runs, example by example. It is omitted for models that predict tokens, because the tokens
    // of one text are not independent.
    samples.test_correct = (!cell.workload.predicts_tokens()).then_some(test.correct);
    Outcome {
        samples,
        events: log.events,
        diverged: log.diverged,
        data: Some(data.source.clone()),
        executed: Executed::unverified(),
        load_seconds,
        warmup_seconds,
        launches: None,
        measured: TaskMeasurements::Train {
            train_seconds: totals.train_seconds,
            examples: totals.examples,
            predicts_tokens: cell.workload.predicts_tokens(),
            tokens: cell
                .workload
                .uses(Axis::Sequence)
                .then(|| totals.examples * u64::from(cell.setting.sequence())),
            stepping_seconds: totals.stepping_seconds,
            train: totals.train,
            validation: totals.validation,
            test: test.share,
            validated_passages: totals.validated_passages,
            tested_passages: test.passages,
            skipped_steps: totals.skipped_steps,
            non_finite_steps: totals.non_finite_steps,
            clipped_steps: log.clip_norm.map(|_| totals.clipped_steps),
            memory,
            communication: totals.communication,
            estimated: estimate_for(cell, (data.test.words().unwrap_or_default(), data.classes)),
            windows: totals.windows,
        },
    }
}
