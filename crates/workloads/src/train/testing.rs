//! Test helpers: a small model, synthetic reviews and a training of two epochs.

use std::{sync::LazyLock, thread};

use burn::tensor::Device;
use mantissa_collectives::ThreadGroup;
use mantissa_core::*;

use super::{evaluate::evaluate, trainer::Trainer};
use crate::{
    Inputs, Observer, Phase, Progress,
    data::{ColumnNames, Dataset, Part, Reading, RequestedSplits, Tokenized, load_reviews},
    models::DistilBert,
};

thread_local! {
    /// Number of casts of the weights on this thread.
    pub(super) static CASTS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Observer that reports a heap size of 0 bytes. Without a heap size, the additional step that measures the memory breakdown would not run.
pub(super) struct ByteCountObserver;

impl Observer for ByteCountObserver {
    fn progress(&mut self, _: Progress) {}

    fn heap_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

/// Returns data with these numbers of examples, and the guard of the cache folder.
pub(super) fn data(train: u32, validation: u32, test: u32) -> (Dataset<Tokenized>, tempfile::TempDir) {
    let split = Split {
        join: false,
        train: Some(train),
        validation,
        test: Some(test),
        seed: 1,
    };
    let cache = tempfile::tempdir().unwrap();
    let reading = Reading {
        data: None,
        columns: ColumnNames::default(),
        known: None,
        vocabulary: None,
        cache: cache.path(),
    };
    let data = load_reviews(
        DatasetKind::SyntheticReviews,
        &RequestedSplits::TrainAndTest(split),
        16,
        &reading,
    )
    .unwrap();
    assert_eq!(
        [&data.train, &data.validation, &data.test].map(Part::len),
        [train, validation, test].map(|size| size as usize)
    );
    (data, cache)
}

pub(crate) fn cell(axes: &[(Axis, &str)], drop_last: bool) -> (Cell, TrainTask) {
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

pub(super) fn trainer<'a>(cell: &'a Cell, task: &'a TrainTask, data: &Dataset<Tokenized>) -> Trainer<'a> {
    let Model::Distilbert(size) = &task.model else {
        unreachable!("`cell` creates a DistilBERT task")
    };
    let model = DistilBert::new(size.clone(), data.train.vocabulary(), data.classes);
    static FLEX: LazyLock<Device> = LazyLock::new(Device::flex);
    Trainer::new(cell, task, model, &Inputs::default(), &FLEX).unwrap()
}

pub(super) fn train(trainer: &mut Trainer<'_>, data: &Dataset<Tokenized>) {
    trainer.run(data, &mut ByteCountObserver).unwrap();
    evaluate(trainer, &data.test, &mut ByteCountObserver, Phase::Evaluate).unwrap();
}

/// Returns the series of a training without times, its final parameters, and its events.
pub(super) fn training_results(trainer: Trainer<'_>) -> (Vec<Series>, Vec<Vec<f64>>, Vec<Event>) {
    let mut series = trainer.log.samples.series;
    series.retain(|series| series.name != SeriesName::StepSeconds);
    let values = trainer.parameters.iter();
    let values = values.map(|(_, value)| value.clone().into_data().iter::<f64>().collect());
    (series, values.collect(), trainer.log.events)
}

/// Runs a function on each rank, and returns its results in the order of the ranks.
pub(super) fn on_ranks<T: Send>(ranks: usize, body: impl Fn(ThreadGroup) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let groups = ThreadGroup::new(ranks).into_iter();
        let threads: Vec<_> = groups.map(|group| scope.spawn(|| body(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Events of a training.
mod events {
    use mantissa_precision::{LossScaler, LossScaling};

    use super::*;

    #[test]
    fn loss_scale_changes_are_recorded_as_events() {
        let (data, _cache) = data(22, 0, 3);
        let (cell, task) = cell(&[(Axis::Precision, "16-mixed"), (Axis::Accumulate, "2")], false);
        let mut trainer = trainer(&cell, &task, &data);
        // The first steps overflow at this scale, and the scale is doubled soon after.
        trainer.scaler = Some(LossScaler::new(LossScaling {
            initial: 2f64.powi(22),
            growth_interval: 1,
            ..LossScaling::default()
        }));
        train(&mut trainer, &data);
        let skipped = trainer.log.totals.skipped_steps;
        let (series, _, events) = training_results(trainer);
        let scales = series
            .iter()
            .find(|series| series.name == SeriesName::LossScale)
            .unwrap();
        let scales: Vec<f64> = scales.values().collect();
        assert_eq!(scales.len(), 6, "two epochs of 22 reviews in groups of eight");
        let mut scale = 2f64.powi(22);
        let (mut halved, mut doubled) = (0, 0);
        for (step, now) in (1u64..).zip(&scales) {
            let recorded: Vec<_> = events
                .iter()
                .filter(|event| event.kind == EventKind::LossScale && event.step == Some(step))
                .map(|event| (event.value, event.detail.as_str()))
                .collect();
            let expected = match now / scale {
                1.0 => vec![],
                0.5 => vec![(
                    Some(*now),
                    "a scaled gradient overflowed: step skipped, scale halved",
                )],
                2.0 => vec![(Some(*now), "scale doubled")],
                other => panic!("step {step}: unexpected scale factor {other}"),
            };
            assert_eq!(recorded, expected, "step {step}");
            halved += u64::from(*now < scale);
            doubled += u64::from(*now > scale);
            scale = *now;
        }
        assert!(
            halved > 0 && doubled > 0 && skipped == halved,
            "{halved} halved, {skipped} skipped, {doubled} doubled"
        );
    }

    #[test]
    fn constant_loss_scale_skips_overflowing_steps() {
        let (data, _cache) = data(22, 0, 3);
        let (cell, task) = cell(&[(Axis::Precision, "16-mixed")], false);
        let mut trainer = trainer(&cell, &task, &data);
        trainer.scaler = Some(LossScaler::constant(2f64.powi(40)));
        let before: Vec<_> = trainer
            .parameters
            .iter()
            .map(|(_, value)| value.to_data())
            .collect();
        train(&mut trainer, &data);
        let after: Vec<_> = trainer
            .parameters
            .iter()
            .map(|(_, value)| value.to_data())
            .collect();
        assert_eq!(before, after, "every step overflows");
        let skipped = trainer.log.totals.skipped_steps;
        let (series, _, events) = training_results(trainer);
        let scales = series
            .iter()
            .find(|series| series.name == SeriesName::LossScale)
            .unwrap();
        assert!(scales.values().all(|scale| scale == 2f64.powi(40)));
        let recorded = events.iter().filter(|event| event.kind == EventKind::LossScale);
        let recorded: Vec<_> = recorded
            .map(|event| (event.step, event.detail.as_str()))
            .collect();
        let expected = (1..=12).map(|step| (Some(step), "a scaled gradient overflowed: step skipped"));
        assert_eq!((recorded, skipped), (expected.collect(), 12));
    }

    #[test]
    fn weights_are_cast_once_per_optimizer_step() {
        let (data, _cache) = data(16, 0, 3);
        for accumulate in ["1", "4"] {
            let axes = [(Axis::Precision, "bf16-mixed"), (Axis::Accumulate, accumulate)];
            let (cell, task) = cell(&axes, false);
            let mut trainer = trainer(&cell, &task, &data);
            CASTS.set(0);
            trainer.run(&data, &mut ByteCountObserver).unwrap();
            assert_eq!(u64::from(CASTS.get()), trainer.log.totals.steps, "{accumulate}");
        }
    }

    #[test]
    fn epsilon_that_rounds_to_zero_is_a_warning() {
        let (data, _cache) = data(8, 0, 3);
        let warnings = |axes: &[(Axis, &str)]| {
            let (cell, task) = cell(axes, false);
            let events = trainer(&cell, &task, &data).log.events;
            let warnings = events
                .into_iter()
                .filter(|event| event.kind == EventKind::Warning);
            warnings.map(|event| event.detail).collect::<Vec<_>>()
        };
        let f16 = (Axis::Precision, "16-true");
        assert_eq!(
            warnings(&[f16]),
            ["`adam_eps=1e-8` is rounded to 0 in f16, so that updates may be 0/0"]
        );
        assert_eq!(warnings(&[f16, (Axis::Optimizer, "lamb")]).len(), 1);
        // No warning: 1e-4 is not 0 in f16, SGD does not have an epsilon, bf16 has the range of f32, and mixed settings keep the state in f32.
        for axes in [
            &[f16, (Axis::AdamEps, "1e-4")][..],
            &[f16, (Axis::Optimizer, "sgd")],
            &[(Axis::Precision, "bf16-true")],
            &[(Axis::Precision, "16-mixed")],
        ] {
            assert_eq!(warnings(axes), [""; 0], "{axes:?}");
        }
    }
}

/// Learning rates of a training.
mod rates {
    use super::*;

    const SCALED: Axis = Axis::LearningRateScaling;

    /// Trains for 6 steps of 8 examples, in two micro-batches per step. Returns the learning rates and the final parameters.
    fn train_at(learning_rate: f64, axes: &[(Axis, &str)], updates: &Updates) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (data, _cache) = data(22, 0, 3);
        let axes = [axes, &[(Axis::Accumulate, "2")]].concat();
        let (cell, mut task) = cell(&axes, false);
        (task.learning_rate, task.updates) = (learning_rate, updates.clone());
        let mut trainer = trainer(&cell, &task, &data);
        train(&mut trainer, &data);
        let (series, values, _) = training_results(trainer);
        let rates = series
            .iter()
            .find(|series| series.name == SeriesName::LearningRate)
            .unwrap();
        (rates.values().collect(), values)
    }

    #[test]
    fn learning_rate_scaling_multiplies_the_learning_rate() {
        let updates = Updates::default();
        // A step has 8 examples, a quarter of the 32 examples to which the learning rate refers.
        for (scaling, factor) in [("linear", 0.25), ("sqrt", 0.5), ("none", 1.0)] {
            let scaled = train_at(1e-2, &[(SCALED, scaling)], &updates);
            assert_eq!(scaled, train_at(factor * 1e-2, &[], &updates), "{scaling}");
            assert_eq!(scaled.0, [factor * 1e-2; 6], "{scaling}");
        }
    }

    #[test]
    fn axis_replaces_the_learning_rate_of_the_workload() {
        let updates = Updates::default();
        let axes = [(Axis::LearningRate, "2e-2"), (SCALED, "sqrt")];
        assert_eq!(
            train_at(1e-4, &axes, &updates),
            train_at(2e-2, &axes[1..], &updates)
        );
    }

    #[test]
    fn every_step_uses_the_learning_rate_of_the_schedule() {
        let cosine = Updates {
            learning_rate_schedule: LearningRateSchedule::Cosine,
            warmup_steps: 2,
            ..Updates::default()
        };
        let (rates, values) = train_at(1e-2, &[], &cosine);
        // Cosine decay over the four steps after the warm-up.
        let half = std::f64::consts::FRAC_1_SQRT_2 / 2.0;
        let expected = [0.0, 0.5, 1.0, 0.5 + half, 0.5, 0.5 - half];
        let close = |(rate, expected): (&f64, f64)| (rate / 1e-2 - expected).abs() < 1e-12;
        assert!(
            rates.len() == 6 && rates.iter().zip(expected).all(close),
            "{rates:?}"
        );
        assert_ne!(values, train_at(1e-2, &[], &Updates::default()).1);
    }
}
