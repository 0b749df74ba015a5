//! Tests of reading runs: damaged files, and several runs of one program.

use std::{fs, path::Path};

use mantissa_gate::{Baselines, GateError, RunMeasurements};
use mantissa_run_folder::FolderError;

use crate::six_cells::{run, unchanged, write_and_read};

#[test]
fn damaged_files_are_rejected_with_their_location() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let whole = write_and_read(&path, run(1, unchanged));
    let root = folder.path().join("baselines");
    let saved = Baselines::new(&root).save("main", &whole).unwrap();
    let records = root.join("main").join(&saved.machine).join("records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    let assert_rejected = |text: &str, part: &str| {
        fs::write(&records, text).unwrap();
        let error = RunMeasurements::read(records.parent().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    assert_rejected("", "contains no records");
    assert_rejected("\n\n", "contains no records");
    assert_rejected("{}\n", "line 1");
    assert_rejected("not json\n", "line 1");
    assert_rejected(&text[..text.len() - 10], "truncated");
    let first = text.lines().next().unwrap();
    assert_rejected(&format!("{text}{first}\n"), "occurs twice");
    assert_rejected(&text.replacen("\"schema\":1", "\"schema\":99", 1), "schema 99");
    assert_rejected(
        &text.replacen("Invented CPU 9000", "Another", 1),
        "another machine",
    );
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    assert_rejected(&text[..last], "30 records");
    let described = records.with_file_name("baseline.json");
    let newer =
        fs::read_to_string(&described)
            .unwrap()
            .replacen("\"schema\": 1", "\"schema\": 9, \"x\": 1", 1);
    fs::write(&described, newer.replacen("\"name\"", "\"title\"", 1)).unwrap();
    assert_rejected(&text, "schema 9");
    assert!(matches!(
        Baselines::new(&root).list(),
        Err(GateError::Folder(FolderError::NewerSchema { .. }))
    ));
    fs::write(&described, "{").unwrap();
    assert_rejected(&text, "baseline.json");
    // A truncated run is rejected; it must be completed first.
    let records = path.join("records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, &text[..text.len() - 10]).unwrap();
    assert!(matches!(
        RunMeasurements::read(&path),
        Err(GateError::Truncated { .. })
    ));
    let first = text.lines().next().unwrap();
    fs::write(&records, format!("{text}{first}\n")).unwrap();
    assert!(
        RunMeasurements::read(&path)
            .unwrap_err()
            .to_string()
            .contains("occurs twice")
    );
    let again = first.replacen("\"attempt\":0", "\"attempt\":1", 1);
    fs::write(&records, format!("{text}{again}\n")).unwrap();
    assert_eq!(
        RunMeasurements::read(&path).unwrap().records(),
        30,
        "a later attempt replaces the earlier one"
    );
}

#[test]
fn only_different_runs_of_one_program_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
    run(1, unchanged).write(&one);
    run(2, unchanged).write(&two);
    let mut changed = run(3, unchanged);
    changed.fingerprint.revision = Some("fedcba".into());
    changed.write(&other);
    let read = |folders: &[&Path]| {
        RunMeasurements::read_all(&folders.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>())
    };
    assert_eq!(read(&[&one, &two]).unwrap().repeats(), 10);
    let through = folder.path().join("two/../one");
    assert!(matches!(
        read(&[&one, &two, &through]),
        Err(GateError::DuplicateFolder { .. })
    ));
    assert!(matches!(
        read(&[&one, &other]),
        Err(GateError::DifferentPrograms { .. })
    ));
    // Two builds of the same revision are different programs.
    for (path, program) in [(&one, "0011"), (&two, "0022")] {
        let mut built = run(1, unchanged);
        built.fingerprint.program = Some(program.into());
        built.write(path);
    }
    assert!(matches!(
        read(&[&one, &two]),
        Err(GateError::DifferentPrograms { .. })
    ));
}
