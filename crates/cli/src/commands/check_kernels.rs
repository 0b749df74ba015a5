//! `mantissa check-kernels`: compares candidate kernels with float64.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result, bail};
use mantissa_core::{Backend, CheckVerdict, KernelCheck, Profile};
use mantissa_inputs::Inputs;
use mantissa_report::{Align, Table};
use mantissa_runner::{
    CACHE, Engine as _, Policy, Progress as _, ProgressEvent, RunSettings, Stop, check_kernels, planned,
};
use mantissa_suite::{PlanOptions, StartingWeights, parse, plan};
use mantissa_worker::Burn;

use crate::{
    args::CheckKernelsArguments, commands::report::draw, exit::Exit, printer::Printer, progress::Bar,
};

/// Checks every candidate kernel that is not checked yet on this card and prints all results.
pub(crate) fn check(arguments: &CheckKernelsArguments, printer: &Printer) -> Result<Exit> {
    let backend = Backend::Cuda;
    if let Err(reason) = Burn.available(backend) {
        bail!(mantissa_runner::RunError::Unavailable { backend, reason });
    }
    let settings = RunSettings {
        backend,
        inputs: Inputs {
            cache: CACHE.into(),
            ..Inputs::default()
        },
        suite_inputs: [].into(),
        save_weights: false,
        repeats: 1,
        suite_repeats: [].into(),
        suites: [].into(),
        peer: vec![],
        mpirun: vec![],
        directory: None,
        policy: Policy::default(),
    };
    if arguments.again {
        let path = Burn
            .kernel_folder(backend, &settings.resolved_inputs().cache)
            .join(KernelCheck::FILE);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("cannot delete `{}`", path.display()))?;
        }
    }
    let suites = [
        parse("probe", "probe.toml", include_str!("probe.toml"))?,
        parse(
            "attention",
            "probe_attention.toml",
            include_str!("probe_attention.toml"),
        )?,
    ];
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend,
        overrides: vec![],
        suite_inputs: false,
        data: vec![],
        weights: StartingWeights::None,
        models: BTreeMap::new(),
        filter: None,
    };
    let plan = planned(&Burn, plan(&suites, &options)?);
    let stop = Stop::on_signals()?;
    let mut bar = Bar::new(printer, arguments.json);
    let checks = check_kernels(&Burn, &plan, &settings, &stop, &mut bar)?;
    bar.on_event(ProgressEvent::Ended);
    if arguments.json {
        for check in &checks {
            printer.data(&serde_json::to_string(check).expect("a kernel check is serializable"));
        }
    } else {
        printer.data(&draw(&table(&checks)));
    }
    let failed = |check: &KernelCheck| !matches!(check.verdict, CheckVerdict::Passed | CheckVerdict::Refused);
    Ok(match checks.iter().any(failed) {
        true => Exit::Unexpected,
        false if checks.is_empty() => Exit::MissingRequirement,
        false => Exit::Success,
    })
}

fn table(checks: &[KernelCheck]) -> Table {
    let header = ["operation", "setting", "candidate", "verdict", "shapes", "detail"];
    let row = |check: &KernelCheck| {
        vec![
            check.operation.to_string(),
            check.setting.clone(),
            check.candidate.clone(),
            check.verdict.to_string(),
            check.shapes.to_string(),
            check.detail.clone().unwrap_or_default(),
        ]
    };
    Table {
        title: "Candidate kernels against float64".to_owned(),
        header: header.map(|title| (title.to_owned(), Align::Left)).to_vec(),
        rows: checks.iter().map(row).collect(),
    }
}
