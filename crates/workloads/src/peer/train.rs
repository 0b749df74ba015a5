//! Training by another framework, with the same steps in the same order.

use std::time::Instant;

use mantissa_core::TrainTask;
use mantissa_precision::ScaleChange;

use super::{
    cell_files::write_files,
    program::{Predicted, Request, Stepped},
    session::Session,
};
use crate::{
    Outcome, Phase, Share, WorkloadError,
    data::{Dataset, Labelled, Part},
    initial_state::Purpose,
    model_and_data::ModelTask,
    models::Network,
    train::{Evaluation, Log, StepResult, first_indices, learning_rate, micro_batch_sizes, order, outcome},
};

/// Training cell whose model and data are not loaded yet.
pub(super) struct TrainingTask<'a> {
    pub session: Session<'a>,
    pub task: &'a TrainTask,
}

impl ModelTask for TrainingTask<'_> {
    type Output = Outcome;

    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let Self { mut session, task } = self;
        let cell_file = write_files(&session.cell_files(), &model, &data, Purpose::Training)?;
        let load_seconds = session.load(&cell_file)?.seconds;

        let started = Instant::now();
        session.progress(Phase::WarmUp, 0, 1);
        warm_up(&mut session, task, &data)?;
        let warmup_seconds = started.elapsed().as_secs_f64();

        let mut log = Log::new(vec![]);
        run(&mut session, task, &data, &mut log)?;
        session.progress(Phase::Evaluate, 0, 1);
        let test = evaluate(&mut session, "test", &data.test)?;
        let seconds = (load_seconds, warmup_seconds);
        Ok(outcome(session.cell, &data, log, test, seconds, None))
    }
}

/// Warms up before the first timed step, as in `train/warm_up.rs`.
fn warm_up<P: Part>(
    session: &mut Session<'_>,
    task: &TrainTask,
    data: &Dataset<P>,
) -> Result<(), WorkloadError> {
    let setting = &session.cell.setting;
    let batch = setting.batch() as usize;
    // The peer divides the micro-batches among its devices.
    let micro_batches = (setting.accumulate().min(2) * setting.devices()) as usize;
    let mut train_sizes = micro_batch_sizes(data.train.len(), batch);
    if task.drop_last {
        train_sizes.truncate(1);
    }
    for size in train_sizes {
        let group = vec![first_indices(size); micro_batches];
        for _ in 0..2 {
            step(session, &group, 0.0)?;
        }
    }
    for (name, part) in [("validation", &data.validation), ("test", &data.test)] {
        for size in micro_batch_sizes(part.len(), batch) {
            predict(session, name, &first_indices(size))?;
        }
    }
    session.peer.request(&Request::StartOver)
}

fn run<P: Part>(
    session: &mut Session<'_>,
    task: &TrainTask,
    data: &Dataset<P>,
    log: &mut Log,
) -> Result<(), WorkloadError> {
    let (cell, started) = (session.cell, Instant::now());
    for epoch in 0..task.epochs {
        let groups = order(cell, task, data.train.len(), epoch);
        let total = groups.len() as u64 * u64::from(task.epochs);
        let rate = learning_rate(cell, task, total);
        log.totals.train = Share::default();
        for group in groups {
            let rate = rate.at(log.totals.steps);
            let stepped = step(session, &group, rate)?;
            let label_count = |indices: &Vec<usize>| data.train.batch(indices).labels().len() as u64;
            let scale = stepped.scales.map(|[_, after]| after);
            let result = StepResult {
                loss: stepped.loss.unwrap_or(f64::NAN),
                hits: stepped.hits,
                labels: group.iter().map(label_count).sum(),
                examples: group.iter().map(Vec::len).sum::<usize>() as u64,
                scale: scale_change(&stepped),
                norm: None,
            };
            log.totals.windows.push(session.peer.to_instants(stepped.window));
            log.record_step(&result, stepped.window.seconds(), rate, scale);
            session.progress(Phase::Measure, log.totals.steps, total);
        }
        if !data.validation.is_empty() {
            let validation = evaluate(session, "validation", &data.validation)?;
            log.record_validation(epoch, validation);
        }
    }
    log.totals.train_seconds = started.elapsed().as_secs_f64();
    Ok(())
}

/// Returns how a step changed the loss scale.
fn scale_change(stepped: &Stepped) -> Option<ScaleChange> {
    let [before, after] = stepped.scales?;
    Some(match stepped.skipped {
        true if after < before => ScaleChange::BackedOff(after),
        true => ScaleChange::Skipped,
        false if after > before => ScaleChange::Grew(after),
        false => ScaleChange::Kept,
    })
}

fn step(
    session: &mut Session<'_>,
    group: &[Vec<usize>],
    learning_rate: f64,
) -> Result<Stepped, WorkloadError> {
    session.peer.request(&Request::Step {
        micro_batches: group,
        learning_rate,
    })
}

fn predict(session: &mut Session<'_>, part: &str, examples: &[usize]) -> Result<Predicted, WorkloadError> {
    session.peer.request(&Request::Predict { part, examples })
}

/// Predicts every example of a split, in order.
fn evaluate<P: Part>(session: &mut Session<'_>, name: &str, part: &P) -> Result<Evaluation, WorkloadError> {
    let predicts_tokens = session.cell.workload.predicts_tokens();
    let (mut loss, mut passages, mut correct) = (0.0, vec![], String::with_capacity(part.len()));
    for indices in crate::evaluate::micro_batches(session.cell, part) {
        let batch = part.batch(&indices);
        let predictions = predict(session, name, &indices)?;
        loss += predictions
            .losses
            .iter()
            .map(|loss| loss.unwrap_or(f64::NAN))
            .sum::<f64>();
        let is_correct = || {
            let pairs = predictions.predicted.iter().zip(batch.labels());
            pairs.map(|(a, b)| a == b)
        };
        correct.extend(is_correct().map(|correct| if correct { '1' } else { '0' }));
        if predicts_tokens {
            passages.extend(Share::by_passage(&batch.label_counts(), is_correct()));
        }
    }
    Ok(Evaluation::new(loss, correct, passages))
}
