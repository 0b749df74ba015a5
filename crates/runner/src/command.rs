//! Command line that reproduces a record.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_core::{Axis, Cell, Plan, command_line};

use crate::RunSettings;

/// Returns the command line of this process as words. Bytes that are not UTF-8 are replaced.
pub fn this_command() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("mantissa".to_owned()).chain(words).collect()
}

/// Command lines of the cells of a plan.
pub(crate) struct Commands {
    /// Suites with several workloads, whose commands need a filter.
    multi_workload_suites: BTreeSet<String>,
}

impl Commands {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut workloads: BTreeMap<&str, &str> = BTreeMap::new();
        let mut multi_workload_suites = BTreeSet::new();
        for cell in plan.cells.iter().map(|planned| &planned.cell) {
            let first = workloads.entry(&cell.suite).or_insert(&cell.workload.name);
            if *first != cell.workload.name && !multi_workload_suites.contains(&cell.suite) {
                multi_workload_suites.insert(cell.suite.clone());
            }
        }
        Self {
            multi_workload_suites,
        }
    }

    /// Returns `mantissa run <suite> --profile … --backend … -a axis=value …`. The command sets every axis that the
    /// suite sweeps or that was overridden. All other axes resolve to the same values, because the command contains
    /// profile and backend. A filter selects the workload if the suite has several. For a suite without a file, the name
    /// of the suite is the subcommand: `mantissa <suite> --backend …`.
    pub(crate) fn reproduce(&self, plan: &Plan, settings: &RunSettings, cell: &Cell) -> String {
        let mut words = vec!["mantissa".to_owned()];
        match settings.suites.get(&cell.suite) {
            Some(path) => words.extend([
                "run".to_owned(),
                path.display().to_string(),
                "--profile".to_owned(),
                plan.profile.to_string(),
            ]),
            None => words.push(cell.suite.clone()),
        }
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--backend", settings.backend.to_string());
        let swept = plan.suite(&cell.suite).map_or(&[][..], |suite| &suite.axes);
        for axis in swept {
            let value = match axis {
                Axis::Seed => Some(cell.seed.to_string()),
                axis => cell.setting.get(*axis).map(|value| value.to_string()),
            };
            if let Some(value) = value {
                option("-a", format!("{axis}={value}"));
            }
        }
        if self.multi_workload_suites.contains(&cell.suite) {
            option("--filter", cell.workload.name.clone());
        }
        let inputs = &settings.inputs;
        for path in inputs.data.values() {
            option("--data", path.display().to_string());
        }
        if let Some(path) = &inputs.vocabulary {
            option("--vocabulary", path.display().to_string());
        }
        // Include only the weights of this workload: the command runs this suite alone, and a run rejects weights that no workload uses.
        let workload = &cell.workload.name;
        if let Some(path) = inputs.weights.get(workload) {
            option("--weights", format!("{workload}={}", path.display()));
        } else if let Some(path) = inputs.weights.get("") {
            option("--weights", path.display().to_string());
        }
        if inputs.random {
            option("--init", "random".to_owned());
        }
        if !settings.peer.is_empty() {
            option("--peer", settings.peer.join(" "));
        }
        if !settings.mpirun.is_empty() && cell.setting.devices() > 1 {
            option("--mpirun", settings.mpirun.join(" "));
        }
        command_line(&words)
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Backend, Profile};
    use mantissa_suite::{PlanOptions, StartingWeights, parse, parse_override, plan};

    use super::*;
    use crate::testing;

    const SUITE: &str = r#"
        title = "t"
        question = "q"
        [axes]
        "precision+matmul" = [["32-true", "high"], ["32-true", "highest"], ["bf16-mixed", "highest"]]
        seed = [1, 2]
        [[workload]]
        name = "small"
        task = "kernel"
        kernel = "matmul"
        [[workload]]
        name = "other"
        task = "kernel"
        kernel = "matmul"
        max_samples = 30
    "#;

    /// Plans the suite with these overrides and this filter.
    fn plan_with(overrides: &[String], filter: Option<String>) -> Plan {
        let options = PlanOptions {
            profile: Profile::Smoke,
            backend: Backend::Flex,
            overrides: overrides
                .iter()
                .map(|text| parse_override(text).unwrap())
                .collect(),
            suite_inputs: false,
            data: vec![],
            weights: StartingWeights::None,
            models: Default::default(),
            filter,
        };
        plan(&[parse("tiny", "tiny.toml", SUITE).unwrap()], &options).unwrap()
    }

    #[test]
    fn the_reproduce_command_plans_exactly_one_cell() {
        let settings = RunSettings {
            suites: [("tiny".to_owned(), "tiny.toml".into())].into(),
            ..testing::settings()
        };
        let original = plan_with(&["size=96,128".into()], None);
        assert_eq!(original.cells.len(), 24);
        for planned in &original.cells {
            let command = Commands::of(&original).reproduce(&original, &settings, &planned.cell);
            let words: Vec<&str> = command.split(' ').collect();
            let values_of = |flag: &str| {
                let pairs = words.windows(2).filter(move |pair| pair[0] == flag);
                pairs.map(|pair| pair[1].to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(
                (values_of("--profile"), values_of("--backend")),
                (vec!["smoke".into()], vec!["flex".into()])
            );
            let replanned = plan_with(&values_of("-a"), values_of("--filter").pop());
            let ids: Vec<_> = replanned.cells.iter().map(|planned| &planned.cell.id).collect();
            assert_eq!(ids, [&planned.cell.id], "{command}");
        }
    }
}
