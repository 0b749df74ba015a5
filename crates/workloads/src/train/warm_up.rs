//! Warm-up before the first timed step: runs every batch shape with a learning rate of 0.

use mantissa_precision::{Launches, LossScaler, Optimizer, OptimizerSettings, observe_launches};

use super::trainer::{Trainer, initial_training_state, scaler};
use crate::{
    Inputs, WorkloadError,
    data::{Dataset, Part},
    models::{Batch, Network},
    outcome::sync,
};

/// Loss scale of the warm-up: gradients are unscaled as in training, but do not overflow.
pub(super) const WARM_UP_LOSS_SCALE: f64 = 2.0;

impl<M: Network> Trainer<'_, M> {
    /// Replaces the optimizer with a new one whose learning rate is 0, which does not change the parameters as long as gradients are
    /// finite.
    pub(super) fn disable_learning(&mut self) {
        let settings = OptimizerSettings {
            learning_rate: 0.0,
            ..self.settings.clone()
        };
        self.optimizer = Optimizer::new(settings, self.parameters.len());
    }

    /// Runs every batch shape of the training with a learning rate of 0. Each training shape runs twice, so that steps with and without optimizer
    /// state are warmed up. With gradient accumulation, a step has two micro-batches.
    pub(super) fn warm_up(&mut self, data: &Dataset<M::Part>) -> Result<(), WorkloadError> {
        self.disable_learning();
        self.scaler = self
            .scaler
            .as_ref()
            .map(|_| LossScaler::constant(WARM_UP_LOSS_SCALE));
        let micro_batches = self.cell.setting.accumulate().min(2) as usize;
        let sizes = |part: &M::Part| micro_batch_sizes(part.len(), self.cell.setting.batch() as usize);
        let mut train_sizes = sizes(&data.train);
        if self.task.drop_last {
            train_sizes.truncate(1);
        }
        for size in train_sizes {
            let batch = |_| data.train.batch(&first_indices(size));
            let group: Vec<_> = (0..micro_batches).map(batch).collect();
            for _ in 0..2 {
                match self.ranks.is_asynchronous() {
                    true => self.warm_up_worker(&group)?,
                    false => self.step(&group).map(drop)?,
                }
            }
        }
        let parameters = self.working().freeze();
        for part in [&data.validation, &data.test] {
            for size in sizes(part) {
                self.predict(&parameters, &part.batch(&first_indices(size)));
            }
        }
        sync(self.device)
    }

    /// Runs the computations of a worker of an asynchronous server. The server has none, and would otherwise need their memory.
    fn warm_up_worker(&mut self, micro_batches: &[Batch<M>]) -> Result<(), WorkloadError> {
        if !self.ranks.is_server() {
            let sums = self.accumulate(micro_batches, 1.0, |_| 0);
            self.update(sums.gradients)?;
        }
        sync(self.device)
    }

    /// Counts the kernel launches of one optimizer step over full micro-batches. Call this after the warm-up.
    pub(super) fn launches(&mut self, data: &Dataset<M::Part>) -> Result<Option<Launches>, WorkloadError> {
        let Some(&size) = micro_batch_sizes(data.train.len(), self.cell.setting.batch() as usize).first()
        else {
            return Ok(None);
        };
        let batch = |_| data.train.batch(&first_indices(size));
        let group: Vec<_> = (0..self.cell.setting.accumulate()).map(batch).collect();
        observe_launches(self.device, || self.step(&group).map(drop))
    }

    /// Resets the optimizer, the loss scaler, the running statistics, the random generator, the number of the next example and the
    /// counters to their initial state.
    /// Initializes the parameters again only if the warm-up made them non-finite, because restoring them from a copy would increase the
    /// peak memory.
    pub(super) fn start_over(&mut self, inputs: &Inputs) -> Result<(), WorkloadError> {
        self.optimizer = Optimizer::new(self.settings.clone(), self.parameters.len());
        self.scaler = scaler(self.cell, self.task);
        self.running = self.initial_running.clone();
        self.next_example = 0;
        self.ranks.start_over();
        if !self.parameters.all_finite().map_err(WorkloadError::device)? {
            self.parameters = initial_training_state(&self.model, self.cell, inputs, self.device)?.parameters;
        }
        self.device.seed(self.cell.seed);
        sync(self.device)
    }
}

/// Returns the distinct micro-batch sizes of a dataset split: the full size, and the size of a shorter last micro-batch.
pub(crate) fn micro_batch_sizes(examples: usize, batch: usize) -> Vec<usize> {
    let full = batch.min(examples);
    let last = if examples > batch { examples % batch } else { 0 };
    [full, last].into_iter().filter(|size| *size > 0).collect()
}

/// Returns the indices of the first `examples` examples.
pub(crate) fn first_indices(examples: usize) -> Vec<usize> {
    (0..examples).collect()
}

/// Records the shape of a micro-batch for the tests.
#[cfg(test)]
pub(super) fn record_shape(purpose: &'static str, examples: usize) {
    tests::SHAPES.with_borrow_mut(|shapes| shapes.insert((purpose, examples)));
}

/// Records the kind of an optimizer step for the tests.
#[cfg(test)]
pub(super) fn record_step(micro_batches: usize, has_state: bool) {
    tests::KINDS.with_borrow_mut(|kinds| {
        kinds.extend((micro_batches > 1).then_some("accumulates gradients"));
        kinds.extend(has_state.then_some("has optimizer state"));
    });
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet};

    use mantissa_core::Axis;

    use super::*;
    use crate::train::{
        memory,
        testing::{ByteCountObserver, cell, data, train, trainer, training_results},
    };

    thread_local! {
        /// Purpose (`trained` or `predicted`) and number of examples of each micro-batch.
        pub(super) static SHAPES: RefCell<BTreeSet<(&'static str, usize)>> = RefCell::default();
        /// Kinds of optimizer steps.
        pub(super) static KINDS: RefCell<BTreeSet<&'static str>> = RefCell::default();
    }

    #[test]
    fn the_warm_up_runs_exactly_the_shapes_of_the_training() {
        let sizes = [
            (11, 5, 3, false),
            (11, 5, 3, true),
            (8, 0, 4, false),
            (3, 4, 9, true),
            (4, 1, 1, false),
        ];
        for (train_size, validation, test, drop_last) in sizes {
            let (data, _cache) = data(train_size, validation, test);
            let (cell, task) = cell(&[(Axis::Accumulate, "2")], drop_last);
            let mut trainer = trainer(&cell, &task, &data);
            let take_recorded = || (SHAPES.take(), KINDS.take());
            take_recorded();
            trainer.warm_up(&data).unwrap();
            let (warm_up_shapes, warm_up_kinds) = take_recorded();
            trainer.start_over(&Inputs::default()).unwrap();
            train(&mut trainer, &data);
            let (shapes, kinds) = take_recorded();
            assert_eq!(
                warm_up_shapes, shapes,
                "{train_size} training, {validation} validation and {test} test examples, drop_last {drop_last}"
            );
            assert!(
                kinds.is_subset(&warm_up_kinds),
                "training: {kinds:?}, warm-up: {warm_up_kinds:?}"
            );
        }
    }

    #[test]
    fn warm_up_and_memory_step_do_not_change_the_training() {
        let (data, _cache) = data(22, 5, 3);
        let settings: [&[(Axis, &str)]; 6] = [
            &[],
            &[(Axis::Precision, "16-mixed"), (Axis::Accumulate, "2")],
            &[(Axis::Precision, "bf16-true")],
            &[(Axis::Optimizer, "sgd")],
            &[(Axis::Optimizer, "lamb"), (Axis::Precision, "bf16-mixed")],
            &[(Axis::Checkpointing, "on")],
        ];
        for axes in settings {
            let (cell, task) = cell(axes, false);
            let mut plain = trainer(&cell, &task, &data);
            train(&mut plain, &data);

            let mut warm = trainer(&cell, &task, &data);
            warm.warm_up(&data).unwrap();
            let parts = memory::measure_parts(&mut warm, &data, &mut ByteCountObserver).unwrap();
            assert!(parts.is_some(), "the memory step did not run");
            warm.start_over(&Inputs::default()).unwrap();
            train(&mut warm, &data);
            // `assert_eq` would print every parameter.
            assert!(training_results(warm) == training_results(plain), "{axes:?}");
        }
    }

    #[test]
    fn start_over_initializes_non_finite_parameters_again() {
        let (data, _cache) = data(8, 0, 3);
        let (cell, task) = cell(&[], false);
        let mut overflowed = trainer(&cell, &task, &data);
        let fresh = training_results(trainer(&cell, &task, &data)).1;
        overflowed.optimizer.set_learning_rate(f64::INFINITY);
        overflowed.step(&[data.train.batch(&first_indices(4))]).unwrap();
        assert!(!overflowed.parameters.all_finite().unwrap());
        overflowed.start_over(&Inputs::default()).unwrap();
        assert!(training_results(overflowed).1 == fresh);
    }
}
