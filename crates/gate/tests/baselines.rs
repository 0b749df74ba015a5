//! Tests of saved baselines.

use std::{collections::BTreeSet, fs};

use mantissa_gate::{Baselines, ChangeVerdict, Fences, GateError, Part, Policy, compare};

use crate::{
    six_cells::{run, unchanged, write_and_read},
    support::fingerprint,
};

#[test]
fn baselines_are_saved_found_and_dropped_by_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (root, runs) = (folder.path().join("baselines"), folder.path().join("runs"));
    let baselines = Baselines::new(&root);
    let first = write_and_read(&runs.join("first"), run(1, unchanged));
    let saved = baselines.save("main", &first).unwrap();
    assert_eq!(saved.machine, "invented-cpu-9000-2-cores-flex-smoke");
    assert_eq!((saved.cells, saved.repeats), (6, 5));
    let file = root.join("main").join(&saved.machine).join("records.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let ids: Vec<_> = text.lines().map(|line| line[..60].to_owned()).collect();
    assert!(ids.is_sorted(), "one line per process, sorted by cell");
    // Saving the same run again writes the same text, so there is no diff.
    baselines.save("main", &first).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let found = baselines.find("main", &first, &BTreeSet::new()).unwrap();
    assert_eq!(found.name, "main");
    let comparison = compare(
        &found,
        &first,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap();
    assert!(
        comparison
            .outcomes()
            .all(|outcome| outcome == ChangeVerdict::Unchanged)
    );
    // Another machine has a separate baseline under the same name.
    let mut elsewhere = run(1, unchanged);
    elsewhere.fingerprint = mantissa_core::Fingerprint {
        cpu: Some("Another".into()),
        ..fingerprint()
    };
    let elsewhere = write_and_read(&runs.join("elsewhere"), elsewhere);
    baselines.save("main", &elsewhere).unwrap();
    assert_eq!(baselines.list().unwrap().len(), 2);
    // For a run on a third machine, `find` fails if the allowed differences fit neither of the two baselines, or both.
    let mut third = run(1, unchanged);
    third.fingerprint.cpu = Some("Third".into());
    third.fingerprint.cores = 4;
    let third = write_and_read(&runs.join("third"), third);
    let find = |parts: &[Part]| baselines.find("main", &third, &parts.iter().copied().collect());
    assert!(matches!(find(&[]), Err(GateError::NoMachine { .. })));
    assert!(
        matches!(find(&[Part::Cpu, Part::Cores]), Err(GateError::NoMachine { .. })),
        "two baselines are comparable"
    );
    assert_eq!(
        baselines
            .find("main", &elsewhere, &BTreeSet::new())
            .unwrap()
            .fingerprint
            .cpu,
        elsewhere.fingerprint.cpu
    );
    assert_eq!(
        baselines.drop("main", Some(&saved.machine)).unwrap(),
        [saved.machine]
    );
    assert_eq!(baselines.drop("main", None).unwrap().len(), 1);
    assert!(baselines.list().unwrap().is_empty());
    assert!(matches!(
        baselines.drop("main", None),
        Err(GateError::NoBaseline { .. })
    ));
}

#[test]
fn invalid_baseline_names_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let run = write_and_read(&folder.path().join("run"), run(1, unchanged));
    let baselines = Baselines::new(&folder.path().join("baselines"));
    for name in [
        "",
        "..",
        ".hidden",
        "a/b",
        "a\\b",
        "a b",
        "é",
        "a\0b",
        &"x".repeat(101),
    ] {
        assert!(
            matches!(baselines.save(name, &run), Err(GateError::BaselineName { .. })),
            "{name:?}"
        );
        assert!(baselines.find(name, &run, &BTreeSet::new()).is_err());
        assert!(baselines.drop(name, None).is_err());
    }
    assert!(!folder.path().join("baselines").exists());
}
