//! A run whose quantities all have different digits. None of its numbers was measured.

use mantissa_core::{
    Axis, AxisValue, Bounds, Cell, Claim, ClaimSource, Claimed, Comparison, DatasetKind, DistilBertSize,
    EvaluateTask, GenerateTask, LlamaSize, Metric, MetricName, Model, Status, SuiteInfo, Task, Workload,
};
use mantissa_report::Run;

use crate::advice::samples_with_errors;
use crate::support::{RunBuilder, cell, matmul, record, run, suite, synthetic, workload};

pub const EXAMPLES: u64 = 1_000;
const PROCESSES: u32 = 5;

/// Pseudorandom numbers in [0, 1), so that no two quantities have the same digits.
struct Digits(u64);

impl Digits {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a value that varies between processes by up to 1.5 %.
    fn near(&mut self, value: f64) -> f64 {
        value * (1.0 + 0.015 * (2.0 * self.next() - 1.0))
    }
}

/// Values of a setting: metrics, the number of wrong predictions, and whether a metric is the same in every process.
struct Values<'t> {
    axes: &'t [(Axis, &'t str)],
    metrics: &'t [(MetricName, f64)],
    wrong: Option<usize>,
}

fn add(
    run: &mut Run,
    digits: &mut Digits,
    (name, workload): (&str, &Workload),
    values: &Values<'_>,
    seeds: &[u64],
) {
    let setting = cell(name, workload, values.axes).setting;
    for seed in seeds {
        let cell = Cell::new(name, workload.clone(), setting.clone(), *seed);
        run.plan(&cell, None);
        let wrong = values
            .wrong
            .map(|wrong| wrong + (*seed as usize * wrong * 37) % 11);
        // Counted bytes are the same in every process of a seed.
        let of_seed = if seeds.len() > 1 { digits.near(1.0) } else { 1.0 };
        for repeat in 0..PROCESSES {
            let mut record = record(&cell, Status::Ok, None);
            record.repeat = repeat;
            record.data = Some(synthetic());
            for (metric, value) in values.metrics {
                let value = if metric.is_counted() {
                    *value * of_seed
                } else {
                    digits.near(*value)
                };
                record
                    .metrics
                    .insert(*metric, Metric::reading(*metric, value, "invented"));
            }
            let samples = wrong.map(|wrong| {
                let right = EXAMPLES - wrong as u64;
                let accuracy = mantissa_analysis::wilson(right, EXAMPLES).unwrap();
                record.metrics.insert(
                    MetricName::TestAccuracy,
                    accuracy.metric(MetricName::TestAccuracy),
                );
                samples_with_errors(wrong)
            });
            run.measured(record, samples);
        }
    }
}

const F32: (Axis, &str) = (Axis::Precision, "32-true");
const HIGH: (Axis, &str) = (Axis::Matmul, "high");
const BF16: (Axis, &str) = (Axis::Precision, "bf16-mixed");

fn claim(metric: MetricName) -> Claim {
    let values = |pair: (Axis, &str)| [(pair.0, pair.0.parse(pair.1).unwrap())];
    let values = |pair| -> std::collections::BTreeMap<Axis, AxisValue> { values(pair).into() };
    Claim {
        says: "Mixed precision costs less".into(),
        source: ClaimSource {
            title: "An article".into(),
            url: "https://example.org/article".into(),
            hardware: None,
        },
        workload: None,
        of: values(BF16),
        claimed: Claimed::Ratio(Comparison {
            against: values(F32),
            metrics: vec![metric],
            within: Bounds {
                above: None,
                below: Some(1.0),
            },
        }),
    }
}

fn info(name: &str, axes: &[Axis]) -> SuiteInfo {
    suite(name, &format!("Suite {name}"), &[], axes)
}

/// Creates a run with a training, a training under several seeds, gradient accumulation, an evaluation, a generation and matmuls, each
/// setting in five processes.
pub fn traced_run() -> Run {
    let by_precision = [Axis::Precision, Axis::Matmul];
    let mut training = info("training", &by_precision);
    training.claims = vec![
        claim(MetricName::TrainSeconds),
        claim(MetricName::ActivationsBytes),
    ];
    let mut run = run(vec![
        training,
        info("seeds", &[Axis::Precision, Axis::Seed]),
        info("accumulation", &[Axis::Batch, Axis::Accumulate]),
        info("ladder", &[Axis::Precision, Axis::Batch]),
        info("evaluation", &by_precision),
        info("generation", &by_precision),
        info("kernels", &[Axis::Precision, Axis::Size]),
    ]);
    let digits = &mut Digits(42);
    train(&mut run, digits);
    accumulate(&mut run, digits);
    climb(&mut run, digits);
    evaluate(&mut run, digits);
    generate(&mut run, digits);
    multiply(&mut run, digits);
    run
}

fn train(run: &mut Run, digits: &mut Digits) {
    let settings = [
        (
            &[F32][..],
            97.31,
            4.867e9,
            6_413.0,
            103,
            [0.6713e9, 1.3426e9, 0.6819e9, 0.0, 2.1934e9],
        ),
        (
            &[F32, HIGH],
            61.47,
            4.529e9,
            5_279.0,
            109,
            [0.6714e9, 1.3428e9, 0.6821e9, 0.0, 2.0957e9],
        ),
        (
            &[BF16],
            43.83,
            2.957e9,
            3_187.0,
            151,
            [0.6716e9, 1.3432e9, 0.6823e9, 0.3359e9, 1.1283e9],
        ),
    ];
    for (axes, seconds, memory, joules, wrong, parts) in settings {
        let metrics = [
            (MetricName::TrainSeconds, seconds),
            (MetricName::StepSeconds, seconds / 1_327.0),
            (MetricName::HostPeakBytes, memory),
            (MetricName::EnergyCounterJoules, joules),
            (MetricName::WeightsBytes, parts[0]),
            (MetricName::OptimizerBytes, parts[1]),
            (MetricName::GradientsBytes, parts[2]),
            (MetricName::WeightCopiesBytes, parts[3]),
            (MetricName::ActivationsBytes, parts[4]),
        ];
        let values = Values {
            axes,
            metrics: &metrics,
            wrong: Some(wrong),
        };
        add(run, digits, ("training", &workload("model")), &values, &[123]);
    }
    for (axes, seconds, memory, wrong, activations) in [
        (&[F32], 83.59, 3.641e9, 97, 1.7193e9),
        (&[BF16], 39.17, 2.293e9, 101, 0.9371e9),
    ] {
        let metrics = [
            (MetricName::TrainSeconds, seconds),
            (MetricName::HostPeakBytes, memory),
            (MetricName::WeightsBytes, 0.3917e9),
            (MetricName::OptimizerBytes, 0.7841e9),
            (MetricName::GradientsBytes, 0.4019e9),
            (MetricName::WeightCopiesBytes, 0.0),
            (MetricName::ActivationsBytes, activations),
        ];
        let values = Values {
            axes,
            metrics: &metrics,
            wrong: Some(wrong),
        };
        add(run, digits, ("seeds", &workload("model")), &values, &[1, 2, 3]);
    }
}

fn accumulate(run: &mut Run, digits: &mut Digits) {
    for (batch, steps, seconds, memory, wrong) in [
        ("16", "1", 71.93, 5.319e9, 113),
        ("4", "4", 89.71, 2.371e9, 117),
        ("2", "8", 103.9, 1.913e9, 119),
    ] {
        let metrics = [
            (MetricName::TrainSeconds, seconds),
            (MetricName::HostPeakBytes, memory),
        ];
        let axes = [(Axis::Batch, batch), (Axis::Accumulate, steps)];
        let values = Values {
            axes: &axes,
            metrics: &metrics,
            wrong: Some(wrong),
        };
        add(run, digits, ("accumulation", &workload("model")), &values, &[123]);
    }
}

/// Adds settings of which each changes one technique of the previous one.
fn climb(run: &mut Run, digits: &mut Digits) {
    const BATCH: (Axis, &str) = (Axis::Batch, "4");
    let settings = [
        (&[F32][..], 53.71, 6.173e9, 137),
        (&[BF16], 37.19, 4.391e9, 139),
        (&[BF16, BATCH], 41.93, 3.517e9, 141),
    ];
    for (axes, seconds, memory, wrong) in settings {
        let metrics = [
            (MetricName::TrainSeconds, seconds),
            (MetricName::HostPeakBytes, memory),
        ];
        let values = Values {
            axes,
            metrics: &metrics,
            wrong: Some(wrong),
        };
        add(run, digits, ("ladder", &workload("stepwise")), &values, &[123]);
    }
}

fn evaluate(run: &mut Run, digits: &mut Digits) {
    let task = EvaluateTask {
        model: Model::Distilbert(DistilBertSize::BASE),
        dataset: DatasetKind::SyntheticReviews,
        test: None,
    };
    let workload = Workload {
        name: "evaluated".into(),
        task: Task::Evaluate(task),
    };
    for (axes, rate, memory, loss, wrong) in [
        (&[F32][..], 217.3, 1.871e9, 0.29173, 127),
        (&[BF16], 493.7, 1.193e9, 0.31379, 131),
    ] {
        let metrics = [
            (MetricName::SamplesPerSecond, rate),
            (MetricName::HostPeakBytes, memory),
            (MetricName::TestLoss, loss),
        ];
        let values = Values {
            axes,
            metrics: &metrics,
            wrong: Some(wrong),
        };
        add(run, digits, ("evaluation", &workload), &values, &[123]);
    }
}

fn generate(run: &mut Run, digits: &mut Digits) {
    let task = GenerateTask {
        model: Model::Llama(LlamaSize::LLAMA2_7B),
        prompt_tokens: 4,
        new_tokens: 4,
        temperature: 0.0,
        min_samples: 5,
        max_samples: 5,
        max_seconds: 1.0,
        max_noise: 0.1,
    };
    let workload = Workload {
        name: "generated".into(),
        task: Task::Generate(task),
    };
    for (axes, rate, memory, first) in [
        (&[F32][..], 61.37, 9.173e9, 0.23719),
        (&[BF16], 117.9, 5.437e9, 0.14173),
    ] {
        let metrics = [
            (MetricName::DecodeTokensPerSecond, rate),
            (MetricName::TokenSeconds, 1.07 / rate),
            (MetricName::FirstTokenSeconds, first),
            (MetricName::HostPeakBytes, memory),
        ];
        let values = Values {
            axes,
            metrics: &metrics,
            wrong: None,
        };
        add(run, digits, ("generation", &workload), &values, &[123]);
    }
}

fn multiply(run: &mut Run, digits: &mut Digits) {
    for (precision, rate, error, ulps) in [
        ("32-true", 1.3719e12, 2.173e-7, 13.0),
        ("bf16-true", 3.7931e12, 3.719e-3, 17.0),
        ("16-true", 2.9173e12, 4.513e-4, 19.0),
    ] {
        for (size, factor) in [("256", 0.6173), ("1024", 1.0)] {
            let metrics = [
                (MetricName::FlopsPerSecond, rate * factor),
                (MetricName::RelativeError, error * f64::powf(factor, -0.3719)),
                (MetricName::QuantisationError, error * 0.6371 * factor),
                (MetricName::AccumulationError, error * 0.2917 * factor),
                (MetricName::RoundingError, error * 0.0513 * factor),
                (MetricName::MaxUlp, ulps * factor),
            ];
            let axes = [(Axis::Precision, precision), (Axis::Size, size)];
            let values = Values {
                axes: &axes,
                metrics: &metrics,
                wrong: None,
            };
            add(run, digits, ("kernels", &matmul()), &values, &[123]);
        }
    }
}
