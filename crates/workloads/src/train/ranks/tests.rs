//! Trainings whose ranks are threads, compared with trainings of one rank.

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_collectives::{CollectiveError, Gradient, Group, Single, ThreadGroup, Traffic};
use mantissa_core::*;
use mantissa_precision::{GradientSum, LossScaler, LossScaling, ParameterSet, ScaleChange};
use mantissa_testing::worse;

use super::{Ranks, message::GradientMessage};
use crate::{
    data::{Dataset, Tokenized},
    train::{
        Trainer,
        testing::{ByteCountObserver, cell, data, on_ranks, trainer, training_results},
    },
};

/// Series, parameters and events of a training.
type Results = (Vec<Series>, Vec<Vec<f64>>, Vec<Event>);

/// Change of a task or of a trainer before the training.
#[derive(Clone, Copy, Default)]
struct Changes {
    task: Option<fn(&mut TrainTask)>,
    trainer: Option<fn(&mut Trainer<'_>)>,
}

/// Returns the cell and the task of a training with dropout.
fn changed(axes: &[(Axis, &str)], changes: Changes) -> (Cell, TrainTask) {
    let (cell, mut task) = cell(axes, false);
    if let Some(change) = changes.task {
        change(&mut task);
    }
    (cell, task)
}

/// Trains on one rank of a group.
fn train_rank(
    (cell, task): &(Cell, TrainTask),
    data: &Dataset<Tokenized>,
    changes: Changes,
    group: &mut dyn Group,
) -> Results {
    let mut trainer = trainer(cell, task, data);
    trainer.ranks = Ranks::new(group, &cell.setting);
    if let Some(change) = changes.trainer {
        change(&mut trainer);
    }
    trainer.ranks.agree(cell.id.as_str(), &data.source.hash).unwrap();
    trainer.run(data, &mut ByteCountObserver).unwrap();
    training_results(trainer)
}

/// Trains on several ranks, and checks that all of them have the same results.
fn train_on_ranks(ranks: u32, axes: &[(Axis, &str)], data: &Dataset<Tokenized>, changes: Changes) -> Results {
    let devices = ranks.to_string();
    let axes = [
        axes,
        &[
            (Axis::Devices, devices.as_str()),
            (Axis::ReduceAlgorithm, "linear"),
        ],
    ]
    .concat();
    let training = changed(&axes, changes);
    let mut results = on_ranks(ranks as usize, |mut group| {
        train_rank(&training, data, changes, &mut group)
    });
    let first = results.remove(0);
    // `assert_eq` would print every parameter.
    assert!(results.into_iter().all(|other| other == first), "{axes:?}");
    first
}

fn train_alone(axes: &[(Axis, &str)], data: &Dataset<Tokenized>, changes: Changes) -> Results {
    train_rank(&changed(axes, changes), data, changes, &mut Single)
}

/// 22 examples in micro-batches of 4: the last one has 2 examples, and the last step has fewer micro-batches than ranks.
const EXAMPLES: u32 = 22;

#[test]
fn ranks_with_one_micro_batch_equal_accumulation_bit_for_bit() {
    let (data, _cache) = data(EXAMPLES, 5, 3);
    let clipped = Changes {
        task: Some(|task| task.updates.clip_norm = Some(0.5)),
        ..Changes::default()
    };
    let cases: [(&[(Axis, &str)], Changes); 6] = [
        (&[], Changes::default()),
        (
            &[(Axis::Precision, "bf16-mixed"), (Axis::Optimizer, "lamb")],
            clipped,
        ),
        (
            &[
                (Axis::Precision, "64-true"),
                (Axis::ReduceFormat, "f64"),
                (Axis::Optimizer, "lars"),
            ],
            clipped,
        ),
        (
            &[(Axis::Precision, "bf16-true"), (Axis::Optimizer, "adamw")],
            Changes::default(),
        ),
        (&[(Axis::Checkpointing, "on"), (Axis::Optimizer, "sgd")], clipped),
        (&[(Axis::LearningRateScaling, "linear")], Changes::default()),
    ];
    for ranks in [2, 3, 4] {
        for (axes, changes) in cases {
            let accumulate = ranks.to_string();
            let alone = train_alone(
                &[axes, &[(Axis::Accumulate, accumulate.as_str())]].concat(),
                &data,
                changes,
            );
            // A parameter server adds in the order of the linear all-reduce.
            for reduce in ["all-reduce", "parameter-server"] {
                let axes = [axes, &[(Axis::Reduce, reduce)]].concat();
                let together = train_on_ranks(ranks, &axes, &data, changes);
                assert!(together == alone, "{ranks} ranks, {axes:?}");
            }
        }
    }
}

#[test]
fn ranks_have_the_dropout_masks_of_the_joined_batch() {
    let (data, _cache) = data(EXAMPLES, 5, 3);
    let without_dropout = Changes {
        task: Some(|task| {
            let Model::Distilbert(size) = &mut task.model else {
                unreachable!("`cell` creates a DistilBERT task")
            };
            (size.dropout, size.attention_dropout, size.seq_classif_dropout) = (0.0, 0.0, 0.0);
        }),
        ..Changes::default()
    };
    let parameters = |results: Results| results.1.concat();
    // In f64, the order of additions changes the parameters by less than the tolerance.
    for checkpointing in ["off", "on"] {
        let axes = |batch| {
            [
                (Axis::Precision, "64-true"),
                (Axis::ReduceFormat, "f64"),
                (Axis::Checkpointing, checkpointing),
                (Axis::Batch, batch),
            ]
        };
        let joined = parameters(train_alone(&axes("8"), &data, Changes::default()));
        let difference = |other: Results| {
            let pairs = joined.iter().zip(parameters(other));
            pairs.map(|(one, other)| (one - other).abs()).fold(0.0, worse)
        };
        let together = train_on_ranks(2, &axes("4"), &data, Changes::default());
        assert!(difference(together) < 1e-12);
        let accumulated = [&axes("2")[..], &[(Axis::Accumulate, "2")]].concat();
        let accumulated = train_on_ranks(2, &accumulated, &data, Changes::default());
        assert!(difference(accumulated) < 1e-12);
        let plain = train_alone(&axes("8"), &data, without_dropout);
        assert!(difference(plain) > 1e-4, "the masks have no effect");
    }
}

#[test]
fn all_ranks_take_one_decision_on_overflows() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    // The first steps overflow at this scale, and the scale is doubled soon after.
    let changes = Changes {
        trainer: Some(|trainer| {
            trainer.scaler = Some(LossScaler::new(LossScaling {
                initial: 2f64.powi(22),
                growth_interval: 1,
                ..LossScaling::default()
            }));
        }),
        ..Changes::default()
    };
    let mixed = (Axis::Precision, "16-mixed");
    let alone = train_alone(&[mixed, (Axis::Accumulate, "2")], &data, changes);
    let skips = |results: &Results| {
        let skipped = |event: &&Event| event.detail.contains("step skipped");
        results.2.iter().filter(skipped).count()
    };
    assert!(skips(&alone) > 0 && skips(&alone) < 6, "{}", skips(&alone));
    for reduce in ["all-reduce", "parameter-server"] {
        let together = train_on_ranks(2, &[mixed, (Axis::Reduce, reduce)], &data, changes);
        assert!(together == alone, "{reduce}");
    }
}

/// Trains with an asynchronous server. Returns the results of the server, and its histogram of staleness. Checks that all ranks have equal
/// parameters.
fn train_asynchronously(
    ranks: u32,
    axes: &[(Axis, &str)],
    data: &Dataset<Tokenized>,
    changes: Changes,
) -> (Results, Vec<u64>) {
    let devices = ranks.to_string();
    let asynchronous = [
        (Axis::Devices, devices.as_str()),
        (Axis::Reduce, "parameter-server-async"),
    ];
    let (cell, task) = changed(&[axes, &asynchronous].concat(), changes);
    let mut results = on_ranks(ranks as usize, |mut group| {
        let mut trainer = trainer(&cell, &task, data);
        trainer.ranks = Ranks::new(&mut group, &cell.setting);
        if let Some(change) = changes.trainer {
            change(&mut trainer);
        }
        trainer.run(data, &mut ByteCountObserver).unwrap();
        let staleness = std::mem::take(&mut trainer.log.samples.staleness);
        let results = training_results(trainer);
        (results, staleness)
    });
    let server = results.remove(0);
    for ((_, parameters, _), staleness) in results {
        assert!(parameters == server.0.1, "{axes:?}");
        assert_eq!(staleness, [0; 0]);
    }
    server
}

#[test]
fn asynchronous_server_without_staleness_equals_one_rank_bit_for_bit() {
    let (data, _cache) = data(EXAMPLES, 5, 3);
    let clipped = Changes {
        task: Some(|task| task.updates.clip_norm = Some(0.5)),
        ..Changes::default()
    };
    let overflowing = Changes {
        trainer: Some(|trainer| {
            trainer.scaler = Some(LossScaler::new(LossScaling {
                initial: 2f64.powi(22),
                growth_interval: 1,
                ..LossScaling::default()
            }));
        }),
        ..Changes::default()
    };
    let cases: [(&[(Axis, &str)], Changes); 4] = [
        (&[], Changes::default()),
        (&[(Axis::Accumulate, "2"), (Axis::Optimizer, "lamb")], clipped),
        (
            &[(Axis::Precision, "64-true"), (Axis::ReduceFormat, "f64")],
            clipped,
        ),
        (&[(Axis::Precision, "16-mixed")], overflowing),
    ];
    for (axes, changes) in cases {
        let alone = train_alone(axes, &data, changes);
        let steps = alone.0[0].values().count() as u64;
        for ranks in [2, 4] {
            let axes = [axes, &[(Axis::Staleness, "0")]].concat();
            let (results, staleness) = train_asynchronously(ranks, &axes, &data, changes);
            assert!(results == alone, "{ranks} ranks, {axes:?}");
            assert_eq!(staleness, [steps], "{ranks} ranks, {axes:?}");
        }
    }
}

#[test]
fn asynchronous_server_applies_every_gradient_within_the_bound() {
    let (data, _cache) = data(EXAMPLES, 5, 3);
    for bound in [1, 8] {
        let text = bound.to_string();
        let axes = [(Axis::Batch, "1"), (Axis::Staleness, text.as_str())];
        let ((series, ..), staleness) = train_asynchronously(4, &axes, &data, Changes::default());
        // Two epochs of 22 examples.
        assert_eq!(staleness.iter().sum::<u64>(), 44, "{staleness:?}");
        assert!(staleness.len() <= bound + 1, "bound {bound}: {staleness:?}");
        // Three workers start with the first parameters, of which the bound allows two or three.
        assert!(staleness.len() > 1, "bound {bound}: {staleness:?}");
        assert!(series[0].values().all(f64::is_finite));
    }
}

#[test]
fn asynchronous_server_converts_gradients_to_its_loss_scale() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    let axes = [
        (Axis::Precision, "16-mixed"),
        (Axis::Optimizer, "sgd"),
        (Axis::Devices, "2"),
        (Axis::Reduce, "parameter-server-async"),
    ];
    let (cell, task) = changed(&axes, Changes::default());
    let scale = 1024.0;
    // Applies a gradient whose values are all the given one. Returns the change, the new scale and the parameters.
    let apply = |gradient_scale: f64, value: f64| {
        let results = on_ranks(2, |mut group| {
            let mut trainer = trainer(&cell, &task, &data);
            trainer.ranks = Ranks::new(&mut group, &cell.setting);
            trainer.scaler = Some(LossScaler::new(LossScaling {
                initial: scale,
                ..LossScaling::default()
            }));
            let message = GradientMessage {
                labels: 4,
                examples: 4,
                hits: 2,
                loss: 0.5,
                scale: gradient_scale,
                present: vec![true; trainer.parameters.len()],
                gradient: Gradient::F32(vec![value as f32; trainer.parameters.count()]),
            };
            let change = trainer.apply(&message.encode()).unwrap().scale;
            let scale = trainer.scaler.as_ref().unwrap().scale();
            (change, scale, training_results(trainer).1)
        });
        results.into_iter().next().unwrap()
    };
    let current = apply(scale, 0.5 * scale);
    assert_eq!((current.0, current.1), (Some(ScaleChange::Kept), scale));
    // The same gradient under older scales.
    assert!(apply(2.0 * scale, scale) == current);
    assert!(apply(0.5 * scale, 0.25 * scale) == current);
    let unchanged = training_results(trainer(&cell, &task, &data)).1;
    assert!(current.2 != unchanged);
    // An overflow under an older, larger scale does not halve the scale again.
    let infinite = f64::INFINITY;
    assert!(apply(2.0 * scale, infinite) == (Some(ScaleChange::Skipped), scale, unchanged.clone()));
    let halved = (Some(ScaleChange::BackedOff(0.5 * scale)), 0.5 * scale, unchanged);
    assert!(apply(scale, infinite) == halved);
}

#[test]
fn model_with_batch_norms_has_no_asynchronous_server() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    let axes = [(Axis::Devices, "2"), (Axis::Reduce, "parameter-server-async")];
    let (cell, task) = changed(&axes, Changes::default());
    let errors = on_ranks(2, |mut group| {
        let mut trainer = trainer(&cell, &task, &data);
        trainer.ranks = Ranks::new(&mut group, &cell.setting);
        let value = Tensor::from_data(TensorData::from([0.0_f32]), trainer.device);
        let moments = mantissa_precision::Moments {
            mean: value.clone(),
            variance: value,
        };
        trainer.running = vec![("norm".to_owned(), moments)];
        trainer
            .run(&data, &mut ByteCountObserver)
            .unwrap_err()
            .to_string()
    });
    assert!(
        errors.iter().all(|error| error.contains("running statistics")),
        "{errors:?}"
    );
}

/// Returns the largest difference between the parameters of two trainings, and of their losses.
fn largest_difference(one: &Results, other: &Results) -> f64 {
    let losses = |results: &Results| -> Vec<f64> {
        let series = results.0.iter();
        let losses = series.filter(|series| series.name == SeriesName::TrainLoss);
        losses
            .flat_map(|series| series.values().collect::<Vec<_>>())
            .collect()
    };
    let parameters = |results: &Results| results.1.concat();
    let pairs = |one: Vec<f64>, other: Vec<f64>| {
        assert_eq!(one.len(), other.len());
        let differences = one.into_iter().zip(other).map(|(a, b)| (a - b).abs());
        differences.fold(0.0, f64::max)
    };
    pairs(losses(one), losses(other)).max(pairs(parameters(one), parameters(other)))
}

#[test]
fn ranks_equal_one_rank_with_the_joined_batch() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    let exact = [(Axis::Precision, "64-true"), (Axis::Optimizer, "sgd")];
    let with = |axes: &[(Axis, &'static str)]| [&exact[..], axes].concat();
    let f64_sums = (Axis::ReduceFormat, "f64");
    let joined = train_alone(&with(&[(Axis::Batch, "8")]), &data, Changes::default());
    let two = train_on_ranks(2, &with(&[f64_sums]), &data, Changes::default());
    assert!(
        largest_difference(&joined, &two) < 1e-12,
        "{}",
        largest_difference(&joined, &two)
    );
    let accumulated = with(&[(Axis::Batch, "2"), (Axis::Accumulate, "2"), f64_sums]);
    let two = train_on_ranks(2, &accumulated, &data, Changes::default());
    assert!(
        largest_difference(&joined, &two) < 1e-12,
        "{}",
        largest_difference(&joined, &two)
    );
    // The tolerance is far below the effect of a gradient that is rounded to f32.
    let narrow = train_on_ranks(2, &with(&[]), &data, Changes::default());
    assert!(
        largest_difference(&joined, &narrow) > 1e-10,
        "{}",
        largest_difference(&joined, &narrow)
    );
}

/// Reduces the gradients of parameters with two values each. The argument has the gradients of each rank.
fn reduce(format: &str, gradients: &[Vec<Option<[f32; 2]>>]) -> Vec<Vec<Option<Vec<f32>>>> {
    let devices = gradients.len().to_string();
    let axes = [(Axis::Devices, devices.as_str()), (Axis::ReduceFormat, format)];
    let (cell, _) = cell(&axes, false);
    on_ranks(gradients.len(), |mut group| {
        let device = Device::flex();
        let own = &gradients[group.rank()];
        let named = (0..own.len()).map(|index| (format!("p{index}"), vec![2], vec![0.0_f32; 2]));
        let parameters = ParameterSet::new(named, Format::F32, &device);
        let tensor = |values: [f32; 2]| Tensor::from_data(TensorData::from(values), &device);
        let sum = GradientSum::from_parts(own.iter().map(|values| values.map(tensor)).collect());
        let mut ranks = Ranks::new(&mut group, &cell.setting);
        let reduced = ranks.reduce(sum, &parameters, &device).unwrap();
        let values = |part: Tensor<1>| part.into_data().try_to_vec::<f32>().unwrap();
        reduced
            .into_parts()
            .into_iter()
            .map(|part| part.map(values))
            .collect()
    })
}

#[test]
fn gradients_are_summed_in_the_format_of_the_reduction() {
    // 257 is 256 in bf16. In f16 and bf16, 1 + 2048 = 2048 and 2048 + 1 = 2048.
    let gradients = [[257.0, 1.0], [1.0, 2048.0], [1.0, 1.0]].map(|values| vec![Some(values)]);
    for (format, sums) in [
        ("f64", [259.0, 2050.0]),
        ("f32", [259.0, 2050.0]),
        ("bf16", [258.0, 2048.0]),
        ("f16", [259.0, 2048.0]),
    ] {
        let expected = vec![Some(sums.to_vec())];
        assert_eq!(reduce(format, &gradients), vec![expected; 3], "{format}");
    }
}

#[test]
fn gradient_of_one_rank_is_a_gradient_of_all_ranks() {
    let gradients = [
        vec![None, Some([1.0, -0.0]), None],
        vec![None, None, Some([3.0, 4.0])],
    ];
    let reduced = reduce("f32", &gradients);
    let expected = vec![None, Some(vec![1.0, -0.0]), Some(vec![3.0, 4.0])];
    assert_eq!(reduced, vec![expected; 2]);
    let signed = reduced[1][1].as_ref().unwrap()[1];
    assert!(signed.is_sign_negative(), "a missing gradient must not change −0");
}

#[test]
fn the_check_measures_the_error_of_the_reduction_and_does_not_change_the_training() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    let ways = [
        ("f64", "all-reduce"),
        ("f32", "parameter-server"),
        ("bf16", "all-reduce"),
    ];
    let errors = ways.map(|(format, reduce)| {
        let axes = [
            (Axis::Devices, "3"),
            (Axis::Reduce, reduce),
            (Axis::ReduceFormat, format),
            (Axis::ReduceAlgorithm, "linear"),
        ];
        let training = changed(&axes, Changes::default());
        let checked = on_ranks(3, |mut group| {
            let (cell, task) = &training;
            let mut trainer = trainer(cell, task, &data);
            trainer.ranks = Ranks::new(&mut group, &cell.setting);
            trainer.check_reduction(&data).unwrap();
            let accuracy = trainer.ranks.accuracy.unwrap();
            assert_eq!((accuracy.equal, accuracy.repeats), (30, 30));
            let event = trainer.log.events.pop().unwrap();
            assert_eq!(event.kind, EventKind::Observed, "{}", event.detail);
            assert!(event.detail.contains("linear"), "{}", event.detail);
            trainer.start_over(&crate::Inputs::default()).unwrap();
            trainer.run(&data, &mut ByteCountObserver).unwrap();
            let results = training_results(trainer);
            (accuracy.relative_error, results)
        });
        let unchecked = train_on_ranks(3, &axes[1..], &data, Changes::default());
        assert!(
            checked.iter().all(|(_, results)| *results == unchecked),
            "{format}"
        );
        checked[0].0
    });
    // The unit roundoff of f32 is 2⁻²⁴, and that of bf16 2⁻⁸. Each value is rounded once and added twice.
    let [f64_error, f32_error, bf16_error] = errors;
    assert!(f64_error < 1e-15, "{f64_error}");
    let unit = |bits: i32| 2f64.powi(-bits);
    assert!(f32_error > unit(28) && f32_error < 3.0 * unit(24), "{f32_error}");
    assert!(
        bf16_error > unit(12) && bf16_error < 3.0 * unit(8),
        "{bf16_error}"
    );
}

#[test]
fn each_micro_batch_belongs_to_one_rank() {
    let (cell, _) = cell(&[(Axis::Devices, "3")], false);
    for micro_batches in 0..8 {
        let mut shards = on_ranks(3, |mut group| {
            let ranks = Ranks::new(&mut group, &cell.setting);
            let shard = ranks.shard((0..micro_batches).collect());
            let positions = (0..shard.len()).map(|index| ranks.position(index));
            assert_eq!(positions.collect::<Vec<_>>(), shard);
            shard
        });
        assert!(shards[2].first().is_none_or(|first| *first == 0));
        let mut all: Vec<usize> = shards.drain(..).flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..micro_batches).collect::<Vec<_>>());
    }
}

#[test]
fn ranks_that_differ_do_not_train() {
    let (cell, _) = cell(&[(Axis::Devices, "2")], false);
    let errors = |agree: &(dyn Fn(&mut Ranks<'_>, usize) -> Result<(), crate::WorkloadError> + Sync)| {
        on_ranks(2, |mut group| {
            let rank = group.rank();
            let mut ranks = Ranks::new(&mut group, &cell.setting);
            agree(&mut ranks, rank).unwrap_err().to_string()
        })
    };
    let different_data = errors(&|ranks, rank| ranks.agree("cell", ["aa", "bb"][rank]));
    let message = "they differ in the data: rank 0 has `aa`, and rank 1 has `bb`";
    assert!(
        different_data.iter().all(|error| error.contains(message)),
        "{different_data:?}"
    );
    let different_cells = errors(&|ranks, rank| ranks.agree(["a", "b"][rank], "data"));
    let message = "they differ in the cell: rank 0 has `a`, and rank 1 has `b`";
    assert!(
        different_cells.iter().all(|error| error.contains(message)),
        "{different_cells:?}"
    );
    let error = Ranks::single(&cell.setting).agree("cell", "data").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the cell has 2 devices, but the number of ranks is 1"),
        "{error}"
    );
}

/// Group that counts a message more than it sends, and whose ranks end with different parameters.
struct Miscounting<'a>(&'a mut ThreadGroup);

impl Group for Miscounting<'_> {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn all_reduce(&mut self, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        self.0.all_reduce(gradient)?;
        if self.rank() == 1 {
            *gradient = Gradient::from_f64(gradient.format(), gradient.to_f64().into_iter().map(|x| 2.0 * x));
        }
        Ok(())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        self.0.all_gather(bytes)
    }

    fn broadcast(&mut self, root: usize, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        self.0.broadcast(root, gradient)
    }

    fn gather(&mut self, root: usize, gradient: &Gradient) -> Result<Option<Vec<Gradient>>, CollectiveError> {
        self.0.gather(root, gradient)
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), CollectiveError> {
        self.0.send(to, bytes)
    }

    fn receive(&mut self) -> Result<(usize, Vec<u8>), CollectiveError> {
        self.0.receive()
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.0.barrier()
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        Some(Traffic {
            messages: 2,
            bytes: 100,
        })
    }

    fn finish(self: Box<Self>) -> Result<(), CollectiveError> {
        Ok(())
    }
}

#[test]
fn unexpected_messages_and_parameters_are_warnings() {
    let (data, _cache) = data(EXAMPLES, 0, 3);
    let axes = [
        (Axis::Devices, "2"),
        (Axis::ReduceAlgorithm, "linear"),
        (Axis::Optimizer, "sgd"),
    ];
    let training = changed(&axes, Changes::default());
    let warnings = on_ranks(2, |mut group| {
        let (.., events) = train_rank(&training, &data, Changes::default(), &mut Miscounting(&mut group));
        let warnings = events
            .into_iter()
            .filter(|event| event.kind == EventKind::Warning);
        warnings.map(|event| event.detail).collect::<Vec<_>>()
    });
    for warnings in warnings {
        let contains = |text: &str| warnings.iter().any(|warning| warning.contains(text));
        // Six steps in two epochs. Each rank sends one message per step.
        assert!(
            contains(
                "rank 0 sent 12 messages with 600 bytes, but with `reduce_algorithm=linear` it should send 6 with"
            ),
            "{warnings:?}"
        );
        assert!(contains("rank 1 sent 12 messages"), "{warnings:?}");
        assert!(
            contains("the parameters of rank 1 differ from those of rank 0"),
            "{warnings:?}"
        );
    }
}
