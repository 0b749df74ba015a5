//! Benchmark of planning 100,000 cells, which should take at most one second.

use std::{fmt::Write, hint::black_box};

use criterion::{Criterion, criterion_group, criterion_main};
use mantissa_core::{Backend, DatasetKind, Plan, Profile};
use mantissa_suite::{PlanOptions, StartingWeights, Suite, parse, plan};

const CELLS: usize = 100_000;

/// Returns a training suite that sweeps names, numbers, joined axes and seeds. Some combinations of precision and matmul precision are
/// skipped, as intended.
fn suite() -> Suite {
    let mut text = String::from(
        "title = 't'\nquestion = 'q'\n[[workload]]\nname = 'w'\ntask = 'train'\nmodel = 'distilbert'\n\
         dataset = 'reviews'\nepochs = 1\nlearning_rate = 1e-4\nsplit.validation = 10\n[axes]\n\
         precision = ['64-true', '32-true', '16-mixed', 'bf16-mixed', 'bf16-true']\n\
         matmul = ['highest', 'medium']\noptimizer = ['sgd', 'adam']\nadam_eps = [1e-8, 1e-6, 1e-4, 1e-2, 1.0]\n\
         'batch+accumulate' = [[1, 32], [2, 16], [4, 8], [8, 4], [16, 2]]\nseed = [",
    );
    for seed in 0..200 {
        write!(text, "{seed}, ").expect("writing to a string");
    }
    parse("bench", "bench.toml", &(text + "]")).expect("the suite must be valid")
}

fn plan_all(suites: &[Suite]) -> Plan {
    let options = PlanOptions {
        profile: Profile::Full,
        backend: Backend::Cuda,
        overrides: vec![],
        suite_inputs: false,
        data: vec![DatasetKind::Reviews],
        weights: StartingWeights::None,
        models: Default::default(),
        filter: None,
    };
    plan(suites, &options).expect("the plan must be valid")
}

fn planning(criterion: &mut Criterion) {
    let suites = [suite()];
    assert_eq!(plan_all(&suites).cells.len(), CELLS);
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    group.bench_function(format!("{CELLS} cells"), |bencher| {
        // Dropping the plan is excluded from the measurement.
        bencher.iter_with_large_drop(|| plan_all(black_box(&suites)));
    });
    group.finish();
}

criterion_group!(benches, planning);
criterion_main!(benches);
