//! The smoke profile of the shipped suites.

mod long {
    use std::{collections::BTreeSet, fs};

    use serde_json::Value;

    use crate::support::{TestDir, root, stderr, stdout};

    /// Returns the accuracy of guessing the most frequent class, plus ten standard errors.
    fn bound(record: &Value) -> f64 {
        let task = &record["cell"]["workload"]["task"]["train"];
        let (chance, examples) = match record["data"]["classes"].as_array() {
            Some(classes) => {
                let tested = |class: &Value| class["examples"][2].as_f64().unwrap();
                let examples: f64 = classes.iter().map(tested).sum();
                (
                    classes.iter().map(tested).fold(0.0, f64::max) / examples,
                    examples,
                )
            }
            // Synthetic reviews have two classes of the same probability.
            None => {
                assert_eq!(task["dataset"], "synthetic-reviews");
                (0.5, task["split"]["test"].as_f64().unwrap())
            }
        };
        chance + 10.0 * (chance * (1.0 - chance) / examples).sqrt()
    }

    /// Returns the path of a suite.
    fn path_of(suite: &str) -> String {
        let folders = fs::read_dir(root().join("suites")).unwrap();
        let paths = folders.map(|folder| folder.unwrap().path().join(format!("{suite}.toml")));
        let path = paths.into_iter().find(|path| path.exists()).unwrap();
        path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn every_training_learns_with_five_seeds() {
        let dir = TestDir::new();
        let output = dir.run(&["plan", "--all", "--profile=smoke", "--backend=flex", "--json"]);
        let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let cells = plan["cells"].as_array().unwrap().iter();
        let trainings = cells
            .map(|planned| &planned["cell"])
            .filter(|cell| cell["workload"]["task"]["train"].is_object());
        let planned: BTreeSet<(&str, &str)> = trainings
            .map(|cell| {
                (
                    cell["suite"].as_str().unwrap(),
                    cell["workload"]["name"].as_str().unwrap(),
                )
            })
            .collect();
        assert!(planned.len() >= 8, "{planned:?}");

        let suites: BTreeSet<String> = planned.iter().map(|(suite, _)| path_of(suite)).collect();
        let mut arguments = vec![
            "run",
            "--out=run",
            "--profile=smoke",
            "--backend=flex",
            "--filter=precision=32-true",
        ];
        arguments.extend(suites.iter().map(String::as_str));
        arguments.extend(["-a", "seed=1,2,3,4,5"]);
        let output = dir.run(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut learned = BTreeSet::new();
        for record in dir.records("run") {
            let (cell, bound) = (&record["cell"], bound(&record));
            let accuracy = record["metrics"]["test_accuracy"]["value"].as_f64().unwrap();
            println!("{accuracy:.3}, above {bound:.3}: {cell}");
            assert!(accuracy > bound, "{accuracy} is not above {bound}: {cell}");
            learned.insert(cell["workload"]["name"].as_str().unwrap().to_owned());
        }
        let expected = planned
            .iter()
            .map(|(_, workload)| (*workload).to_owned())
            .collect();
        assert_eq!(learned, expected);
    }
}
