//! Tests of runs that cannot be compared: other machines, and no cell in common.

use std::collections::BTreeSet;

use mantissa_core::{Axis, Backend, Cell, Gpu, MetricName, Profile, Setting};
use mantissa_gate::{Fences, GateError, Mismatch, Part, Policy, compare};

use crate::{
    six_cells::{read_back, run, unchanged},
    support::{InventedRun, cell},
};

#[test]
fn mismatches_are_rejected_unless_allowed() {
    let gpu = |name: &str, driver: &str| Gpu {
        name: name.into(),
        driver: Some(driver.into()),
        uuid: None,
        memory_bytes: None,
        compute_capability: None,
        cuda: None,
        sm_clock_max_hz: None,
        power_limit_watts: None,
        ecc: None,
        persistence: None,
    };
    let run_on = |backend: Backend, gpu: Option<Gpu>| {
        let mut run = run(1, unchanged);
        for cell in run
            .cells
            .iter_mut()
            .chain(run.records.iter_mut().map(|record| &mut record.cell))
        {
            let mut setting = Setting::of(&cell.workload, backend);
            for axis in [Axis::Precision, Axis::Size] {
                setting.set(axis, cell.setting.get(axis).unwrap()).unwrap();
            }
            *cell = Cell::new("kernels", cell.workload.clone(), setting, 123);
        }
        run.fingerprint.gpu = gpu;
        run
    };
    let mut other = run(2, unchanged);
    other.fingerprint.cpu = Some("Another CPU".into());
    let mut profile = run(2, unchanged);
    profile.profile = Profile::Full;
    let h200 = || run_on(Backend::Cuda, Some(gpu("H200", "580.65.06")));
    for (before, after, part) in [
        (run(1, unchanged), other, Part::Cpu),
        (run(1, unchanged), profile, Part::Profile),
        (
            h200(),
            run_on(Backend::Cuda, Some(gpu("H100", "580.65.06"))),
            Part::Gpu,
        ),
        (
            h200(),
            run_on(Backend::Cuda, Some(gpu("H200", "570.65.06"))),
            Part::Driver,
        ),
    ] {
        let (before, after) = (read_back(before), read_back(after));
        let compare_allowing =
            |allowed: &BTreeSet<Part>| compare(&before, &after, &Policy::default(), allowed, &Fences::new());
        let error = compare_allowing(&BTreeSet::new()).unwrap_err().to_string();
        assert!(
            error.contains(part.name()) && error.contains("--allow-mismatch"),
            "{error}"
        );
        assert!(compare_allowing(&BTreeSet::from([Part::Build])).is_err());
        assert_eq!(
            compare_allowing(&BTreeSet::from([part]))
                .unwrap()
                .mismatches
                .len(),
            1
        );
    }
    // A change of a driver's minor version is not a mismatch.
    let before = read_back(h200());
    let after = read_back(run_on(Backend::Cuda, Some(gpu("H200", "580.95.05"))));
    assert!(Mismatch::between(&before, &after).is_empty());
    // The backend is part of the identity of a cell, so these runs have no cell in common, and only the backend is a mismatch.
    let vulkan = read_back(run_on(Backend::Vulkan, Some(gpu("H200", "580.65.06"))));
    let mismatches = Mismatch::between(&before, &vulkan);
    assert_eq!(
        mismatches
            .iter()
            .map(|mismatch| mismatch.part)
            .collect::<Vec<_>>(),
        [Part::Backend]
    );
}

#[test]
fn runs_without_common_cells_are_rejected() {
    let other = InventedRun::new(&[cell(&[(Axis::Size, "512")])], 5, |_, _| {
        vec![(MetricName::FlopsPerSecond, 1.0)]
    });
    let (before, after) = (read_back(run(1, unchanged)), read_back(other));
    let error = compare(
        &before,
        &after,
        &Policy::default(),
        &BTreeSet::new(),
        &Fences::new(),
    )
    .unwrap_err();
    assert!(matches!(error, GateError::NothingInCommon { .. }));
}
