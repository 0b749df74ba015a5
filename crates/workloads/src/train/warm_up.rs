//! Work before the first timed step: every shape is computed once, without learning.

use mantissa_precision::{Launches, LossScaler, Optimizer, OptimizerSettings, observe_launches};

use super::{Trainer, beginning, scaler};
use crate::{
    Inputs, WorkloadError,
    data::{Dataset, Part},
    models::Network,
    outcome::sync,
};

impl<M: Network> Trainer<'_, M> {
    /// Replaces the optimizer by a new one of the same kind with a learning rate of 0, which does not change finite parameters.
    pub(super) fn rest(&mut self) {
        let settings = OptimizerSettings {
            learning_rate: 0.0,
            ..self.settings.clone()
        };
        self.optimizer = Optimizer::new(settings, self.parameters.len());
    }

    /// Computes every shape and every kind of step of the training without learning: steps that accumulate gradients, and steps of an optimizer
    /// that has state. A constant loss scale is divided out, and does not overflow.
    pub(super) fn warm_up(&mut self, data: &Dataset<M::Part>) -> Result<(), WorkloadError> {
        self.rest();
        self.scaler = self.scaler.as_ref().map(|_| LossScaler::constant(2.0));
        let micro_batches = self.cell.setting.accumulate().min(2) as usize;
        let sizes = |part: &M::Part| sizes(part.len(), self.cell.setting.batch() as usize);
        let mut of_training = sizes(&data.train);
        if self.task.drop_last {
            of_training.truncate(1);
        }
        for size in of_training {
            let batch = |_| data.train.batch(&first(size));
            let group: Vec<_> = (0..micro_batches).map(batch).collect();
            for _ in 0..2 {
                self.step(&group)?;
            }
        }
        let parameters = self.working().freeze();
        for part in [&data.validation, &data.test] {
            for size in sizes(part) {
                self.predict(&parameters, &part.batch(&first(size)));
            }
        }
        sync(self.device)
    }

    /// Returns the kernel launches of a step over whole micro-batches, after the warm-up.
    pub(super) fn launches(&mut self, data: &Dataset<M::Part>) -> Result<Option<Launches>, WorkloadError> {
        let Some(&size) = sizes(data.train.len(), self.cell.setting.batch() as usize).first() else {
            return Ok(None);
        };
        let batch = |_| data.train.batch(&first(size));
        let group: Vec<_> = (0..self.cell.setting.accumulate()).map(batch).collect();
        observe_launches(self.device, || self.step(&group).map(drop))
    }

    /// Resets optimizer, running statistics and generators. The learning rate of 0 has not changed the parameters unless gradients were not
    /// finite; in that case, the parameters are initialized again. A copy of the parameters would increase the memory peak.
    pub(super) fn start_over(&mut self, inputs: &Inputs) -> Result<(), WorkloadError> {
        self.optimizer = Optimizer::new(self.settings.clone(), self.parameters.len());
        self.scaler = scaler(self.cell, self.task);
        self.running = self.first_running.clone();
        self.micro_batches = 0;
        if !self.parameters.all_finite().map_err(WorkloadError::Device)? {
            self.parameters = beginning(&self.model, self.cell, inputs, self.device)?.parameters;
        }
        self.device.seed(self.cell.seed);
        sync(self.device)
    }
}

/// Returns the sizes of the micro-batches of a part: that of a whole one, and that of a short last one if it differs.
pub(crate) fn sizes(examples: usize, batch: usize) -> Vec<usize> {
    let whole = batch.min(examples);
    let rest = if examples > batch { examples % batch } else { 0 };
    [whole, rest].into_iter().filter(|size| *size > 0).collect()
}

/// Returns the indices of the first examples.
pub(crate) fn first(examples: usize) -> Vec<usize> {
    (0..examples).collect()
}

/// Records the shapes of micro-batches for the tests.
#[cfg(test)]
pub(super) fn record_shape(purpose: &'static str, examples: usize) {
    tests::MET.with_borrow_mut(|met| met.insert((purpose, examples)));
}

/// Records the kinds of steps for the tests.
#[cfg(test)]
pub(super) fn record_step(micro_batches: usize, has_state: bool) {
    tests::KINDS.with_borrow_mut(|kinds| {
        kinds.extend((micro_batches > 1).then_some("adds gradients"));
        kinds.extend(has_state.then_some("has state"));
    });
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet};

    use mantissa_core::Axis;

    use super::*;
    use crate::train::{
        memory,
        testing::{Counting, cell, data, learnt, train, trainer},
    };

    thread_local! {
        /// Purpose (a training differentiates, a prediction does not) and examples of each micro-batch.
        pub(super) static MET: RefCell<BTreeSet<(&'static str, usize)>> = RefCell::default();
        pub(super) static KINDS: RefCell<BTreeSet<&'static str>> = RefCell::default();
    }

    #[test]
    fn every_shape_of_the_training_was_met_before_and_no_other() {
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
            let met = || (MET.take(), KINDS.take());
            met();
            trainer.warm_up(&data).unwrap();
            let (shapes, kinds) = met();
            trainer.start_over(&Inputs::default()).unwrap();
            train(&mut trainer, &data);
            let (shapes_met, kinds_met) = met();
            assert_eq!(
                shapes, shapes_met,
                "{train_size}, {validation}, {test}, {drop_last}"
            );
            assert!(kinds_met.is_subset(&kinds), "{kinds_met:?} after {kinds:?}");
        }
    }

    #[test]
    fn what_comes_before_changes_no_bit_of_what_is_learnt() {
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
            plain.device.seed(cell.seed);
            train(&mut plain, &data);

            let mut warm = trainer(&cell, &task, &data);
            warm.warm_up(&data).unwrap();
            let parts = memory::parts(&mut warm, &data, &mut Counting).unwrap();
            assert!(parts.is_some(), "the memory step was not made");
            warm.start_over(&Inputs::default()).unwrap();
            train(&mut warm, &data);
            // Not `assert_eq`: it would print every parameter.
            assert!(learnt(warm) == learnt(plain), "{axes:?}");
        }
    }

    #[test]
    fn parameters_that_overflowed_before_are_made_again() {
        let (data, _cache) = data(8, 0, 3);
        let (cell, task) = cell(&[], false);
        let mut spoilt = trainer(&cell, &task, &data);
        let fresh = learnt(trainer(&cell, &task, &data)).1;
        spoilt.optimizer.set_learning_rate(f64::INFINITY);
        spoilt.step(&[data.train.batch(&first(4))]).unwrap();
        assert!(!spoilt.parameters.all_finite().unwrap());
        spoilt.start_over(&Inputs::default()).unwrap();
        assert!(learnt(spoilt).1 == fresh);
    }
}
