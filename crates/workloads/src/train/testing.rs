//! A small model, synthetic reviews and a training of two epochs, for the tests of this module.

use mantissa_core::*;
use mantissa_precision::device::Flex;

use super::{Trainer, distilbert, evaluate::evaluate};
use crate::{
    Inputs, Observer, Phase, Progress,
    data::{Dataset, Part, Tokenized, load_reviews},
};

/// Counts bytes, so that the memory step is made.
pub(super) struct Counting;

impl Observer for Counting {
    fn progress(&mut self, _: Progress) {}

    fn heap_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

/// Parts of this many examples.
pub(super) fn data(train: u32, validation: u32, test: u32) -> (Dataset<Tokenized>, tempfile::TempDir) {
    let split = Split {
        join: false,
        train: Some(train),
        validation,
        test: Some(test),
        seed: 1,
    };
    let cache = tempfile::tempdir().unwrap();
    let data = load_reviews(
        DatasetKind::SyntheticReviews,
        &split,
        16,
        None,
        None,
        cache.path(),
    )
    .unwrap();
    assert_eq!(
        [&data.train, &data.validation, &data.test].map(Part::len),
        [train, validation, test].map(|size| size as usize)
    );
    (data, cache)
}

pub(super) fn cell(axes: &[(Axis, &str)], drop_last: bool) -> (Cell, TrainTask) {
    let task = TrainTask {
        model: Model::Distilbert(DistilBertSize {
            n_layers: 2,
            dim: 16,
            n_heads: 2,
            hidden_dim: 32,
            max_position_embeddings: 16,
            dropout: 0.1,
            attention_dropout: 0.1,
            seq_classif_dropout: 0.1,
        }),
        dataset: DatasetKind::SyntheticReviews,
        split: Split {
            join: false,
            train: None,
            validation: 0,
            test: None,
            seed: 1,
        },
        epochs: 2,
        learning_rate: 1e-2,
        weight_decay: 0.1,
        momentum: 0.9,
        drop_last,
        observe_every: 0,
        sensitivity: false,
        updates: Updates::default(),
    };
    let workload = Workload {
        name: "small".into(),
        task: Task::Train(task.clone()),
    };
    let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
    let fixed = [(Axis::Sequence, "16"), (Axis::Batch, "4")];
    for (axis, text) in fixed.iter().chain(axes) {
        setting.set(*axis, axis.parse(text).unwrap()).unwrap();
    }
    (Cell::new("small", workload, setting, 1), task)
}

pub(super) fn trainer<'a>(
    cell: &'a Cell,
    task: &'a TrainTask,
    data: &Dataset<Tokenized>,
) -> Trainer<'a, Flex> {
    let Model::Distilbert(size) = &task.model else {
        unreachable!("made above")
    };
    let model = distilbert(cell, size, data.train.vocabulary(), data.classes).unwrap();
    Trainer::new(cell, task, model, &Inputs::default(), &burn_flex::FlexDevice).unwrap()
}

pub(super) fn train(trainer: &mut Trainer<'_, Flex>, data: &Dataset<Tokenized>) {
    trainer.run(data, &mut Counting).unwrap();
    evaluate(trainer, &data.test, &mut Counting, Phase::Evaluate).unwrap();
}

/// The numbers of a training, times left out, and what it ends with.
pub(super) fn learnt(trainer: Trainer<'_, Flex>) -> (Vec<Series>, Vec<Vec<f64>>, Vec<Event>) {
    let mut series = trainer.log.samples.series;
    series.retain(|series| series.name != "step_seconds");
    let values = trainer.parameters.iter();
    let values = values.map(|(_, value)| value.clone().into_data().iter::<f64>().collect());
    (series, values.collect(), trainer.log.events)
}
