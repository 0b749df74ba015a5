//! Tests of the shipped suites: all are valid, can be planned in every profile, and contain the expected cells.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use mantissa_core::{
    Axis, Backend, Cell, DistilBertSize, Kernel, Model, OptimizerKind, Plan, Profile, Split, Status, Task,
};
use mantissa_suite::{PlanOptions, StartingWeights, Suite, load, plan};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut found: Vec<_> = folders
        .iter()
        .flat_map(|folder| self::files(folder))
        .chain(files)
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    found.sort();
    found
}

fn shipped() -> Vec<Suite> {
    files(&root().join("suites"))
        .iter()
        .map(|path| load(path).unwrap_or_else(|errors| panic!("{errors}")))
        .collect()
}

fn planned(suites: &[Suite], profile: Profile, backend: Backend) -> Plan {
    plan(
        suites,
        &PlanOptions {
            profile,
            backend,
            overrides: vec![],
            suite_inputs: false,
            data: vec![],
            weights: StartingWeights::Random,
            models: Default::default(),
            filter: None,
        },
    )
    .unwrap()
}

fn suite(name: &str) -> Vec<Suite> {
    shipped()
        .into_iter()
        .filter(|suite| suite.name() == name)
        .collect()
}

#[test]
fn every_suite_can_be_planned_and_is_complete() {
    let suites = shipped();
    assert!(suites.len() >= 3);
    for &profile in Profile::ALL {
        let plan = planned(&suites, profile, Backend::Flex);
        for info in &plan.suites {
            let runnable = plan.runnable().filter(|cell| cell.suite == info.name).count();
            assert!(
                runnable > 0,
                "{} does not have a runnable cell in {profile}",
                info.name
            );
            assert!(info.question.ends_with('?'), "{}", info.name);
            assert!(
                info.analysis.split("\n\n").count() >= 2,
                "the analysis of {} is too short",
                info.name
            );
            for reference in &info.references {
                let file = root().join("references").join(reference).with_extension("toml");
                assert!(
                    file.is_file(),
                    "{} refers to the missing file {}",
                    info.name,
                    file.display()
                );
            }
        }
    }
}

#[test]
fn every_file_of_a_suite_exists() {
    let suites = shipped();
    let inputs = |suite: &'_ Suite| {
        Profile::ALL
            .iter()
            .map(|profile| suite.inputs(*profile).clone())
            .collect::<Vec<_>>()
    };
    let inputs: Vec<_> = suites.iter().flat_map(inputs).collect();
    let named = inputs.iter().flat_map(|files| {
        let paths = files.data.values().chain(files.weights.values());
        paths.chain(&files.vocabulary)
    });
    let named: Vec<&PathBuf> = named.collect();
    assert!(!named.is_empty());
    for path in named {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn distilbert_suite_has_the_rows_of_the_article() {
    let article = [
        ("64-true", "highest"),
        ("32-true", "highest"),
        ("32-true", "high"),
        ("32-true", "medium"),
        ("16-mixed", "highest"),
        ("16-mixed", "high"),
        ("16-mixed", "medium"),
        ("bf16-mixed", "highest"),
        ("bf16-mixed", "high"),
        ("bf16-mixed", "medium"),
        ("16-true", "highest"),
        ("bf16-true", "highest"),
    ];
    for &profile in Profile::ALL {
        let plan = planned(&suite("distilbert-imdb"), profile, Backend::Flex);
        let rows: Vec<_> = plan
            .runnable()
            .map(|cell| (cell.setting.precision().name(), cell.setting.matmul().name()))
            .collect();
        assert_eq!(rows, article, "{profile}");
        assert_eq!(plan.cells.len() - rows.len(), 6, "{profile}");
        for cell in plan.runnable() {
            let may_diverge = plan.suites[0].allowed_statuses(cell).contains(&Status::Diverged);
            assert_eq!(may_diverge, cell.setting.precision().name() == "16-true");
        }
    }
}

#[test]
fn full_distilbert_suite_has_the_recipe_of_the_article() {
    let plan = planned(&suite("distilbert-imdb"), Profile::Full, Backend::Cuda);
    for cell in plan.runnable() {
        let Task::Train(task) = &cell.workload.task else {
            panic!("{cell:?}")
        };
        assert_eq!(task.model, Model::Distilbert(DistilBertSize::BASE));
        let split = Split {
            join: true,
            train: Some(35_000),
            validation: 5_000,
            test: Some(10_000),
            seed: 123,
        };
        assert_eq!(
            (&task.split, task.epochs, task.learning_rate, task.drop_last),
            (&split, 3, 5e-5, true)
        );
        let setting = &cell.setting;
        assert_eq!(
            (
                setting.batch(),
                setting.sequence(),
                setting.accumulate(),
                cell.seed
            ),
            (12, 512, 1, 123)
        );
        assert_eq!(setting.optimizer(), OptimizerKind::Adam);
    }
}

#[test]
fn accumulation_suite_has_equal_effective_batches() {
    for &profile in Profile::ALL {
        let plan = planned(&suite("accumulation"), profile, Backend::Flex);
        let pair = |cell: &Cell| (cell.setting.batch(), cell.setting.accumulate());
        let pairs: BTreeSet<_> = plan.runnable().map(pair).collect();
        let whole = pairs
            .iter()
            .filter(|(batch, accumulate)| batch * accumulate == 32)
            .count();
        assert!(whole >= 3, "{profile}: {pairs:?}");
        assert!(
            pairs.contains(&(8, 1)) && pairs.contains(&(8, 4)),
            "{profile}: {pairs:?}"
        );
        let precisions: BTreeSet<_> = plan.runnable().map(|cell| cell.setting.precision()).collect();
        assert_eq!(plan.runnable().count(), pairs.len() * precisions.len());
        assert_eq!(precisions.len(), [1, 2, 3][profile as usize]);
    }
}

#[test]
fn matmul_suite_bounds_the_error_of_every_cell() {
    for &profile in Profile::ALL {
        let plan = planned(&suite("matmul"), profile, Backend::Flex);
        assert_eq!(plan.runnable().count(), plan.cells.len());
        for cell in plan.runnable() {
            let bounded = plan.suites[0]
                .expectations_of(cell)
                .any(|stated| !stated.at_most.is_empty());
            assert!(bounded, "{}", cell.setting);
        }
        let sizes: BTreeSet<_> = plan.runnable().map(|cell| cell.setting.size()).collect();
        let largest = [256, 8192, 16384][profile as usize];
        assert_eq!(sizes.last(), Some(&largest));
    }
}

#[test]
fn smoke_cells_are_small() {
    for cell in planned(&shipped(), Profile::Smoke, Backend::Flex).runnable() {
        match &cell.workload.task {
            Task::Kernel(task) => {
                let size = cell.setting.size();
                let small = match task.kernel {
                    Kernel::Matmul(shape) => shape.of(size).iter().product::<usize>() <= 512 * 512 * 512,
                    Kernel::Convolution(shape) => shape.batch <= 2 && shape.channels <= 32 && size <= 28,
                    Kernel::Attention(shape) => shape.batch * shape.heads <= 8 && size <= 128,
                    other => {
                        let shape = other.rows().expect("every other kernel has rows");
                        shape.of(size).iter().product::<usize>() <= 1 << 20
                    }
                };
                assert!(task.max_seconds <= 1.0 && small, "{}", cell.setting);
            }
            Task::Evaluate(task) => assert!(task.test.is_some_and(|test| test <= 600)),
            Task::Generate(task) => assert!(task.new_tokens <= 32 && task.max_seconds <= 5.0),
            Task::Train(task) => {
                let Model::Distilbert(size) = &task.model else {
                    continue;
                };
                let tokens = task.split.train.unwrap() * task.epochs * cell.setting.sequence();
                assert!(
                    size.dim <= 128 && tokens <= 300_000,
                    "{} tokens of {}",
                    tokens,
                    cell.setting
                );
                assert!(cell.setting.get(Axis::Sequence).is_some());
            }
        }
    }
}
