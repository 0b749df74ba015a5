//! `mantissa probe`: compares the precision that the hardware executes with the requested one, setting by setting.
//!
//! Each setting is a cell that runs a tiny kernel in a worker process. The probe uses only `executed` of its record. If the device fails,
//! hangs or runs out of memory, the row of the setting reports it, as in a run.

use std::collections::BTreeMap;

use anyhow::Result;
use mantissa_core::{Axis, ExecutedVerdict, Profile, Status};
use mantissa_inputs::Inputs;
use mantissa_report::{Align, Report, Row, Table, load};
use mantissa_runner::{CACHE, Policy, RunSettings, Start, Stop, choose_backend, planned, start};
use mantissa_suite::{PlanOptions, StartingWeights, parse, parse_override, plan};
use mantissa_worker::Burn;

use crate::{args::ProbeArguments, commands::report::draw, exit::Exit, printer::Printer, progress::Bar};

pub(crate) fn probe(arguments: &ProbeArguments, printer: &Printer) -> Result<Exit> {
    let overrides = arguments
        .overrides
        .iter()
        .map(|text| parse_override(text))
        .collect::<Result<Vec<_>, _>>()?;
    // The fused attention kernel has its own arithmetic, which is compared with the setting only on request.
    let probes_attention = overrides
        .iter()
        .any(|sweep| sweep.axes.contains(&Axis::Attention));
    let (file, text) = if probes_attention {
        ("probe_attention.toml", include_str!("probe_attention.toml"))
    } else {
        ("probe.toml", include_str!("probe.toml"))
    };
    let suite = parse("probe", file, text)?;
    let backend = choose_backend(&Burn, arguments.named_backend())?;
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend,
        overrides,
        suite_inputs: false,
        data: vec![],
        weights: StartingWeights::None,
        models: BTreeMap::new(),
        filter: None,
    };
    let folder = tempfile::Builder::new().prefix("mantissa-probe-").tempdir()?;
    let run = Start {
        plan: planned(&Burn, plan(&[suite], &options)?),
        settings: RunSettings {
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
        },
        suites: BTreeMap::new(),
        out: Some(folder.path().to_owned()),
        name: "probe".to_owned(),
        command: vec!["mantissa".to_owned(), "probe".to_owned()],
        program: None,
    };
    let quiet = Printer::new(true);
    start(&Burn, run, Stop::default(), &mut Bar::new(&quiet, arguments.json))?;

    let run = load(folder.path())?;
    let report = Report::new(&run)?;
    let rows: Vec<&Row<'_>> = report.rows().map(|(_, row)| row).collect();
    if !arguments.json {
        let device = mantissa_runner::backends(&Burn)
            .into_iter()
            .find(|state| state.backend == backend)
            .and_then(|state| state.device);
        let title = format!(
            "Executed precision on {} ({backend})",
            device.as_deref().unwrap_or("this device")
        );
        printer.data(&draw(&table(title, &rows)));
    }
    if arguments.explain {
        printer.data(&explanation(&rows));
    }
    let is_accepted = |row: &&Row<'_>| match row.status {
        Some(Status::Skipped) => true,
        _ => row.verdict() == Some(ExecutedVerdict::AsRequested),
    };
    let is_verified = |row: &&Row<'_>| row.verdict() == Some(ExecutedVerdict::AsRequested);
    Ok(if rows.iter().all(is_accepted) && rows.iter().any(is_verified) {
        Exit::Success
    } else {
        Exit::Unexpected
    })
}

/// Instruction classes in machine code and the arithmetic they perform. `tests/cli/sass.rs` checks the machine code of the kernels.
const INSTRUCTIONS: [(&str, &str); 6] = [
    ("HMMA.TF32", "tensor cores, TF32 operands, f32 sums"),
    ("HMMA.BF16", "tensor cores, bf16 operands, f32 sums"),
    ("HMMA.F32", "tensor cores, f16 operands, f32 sums"),
    ("HMMA.F16", "tensor cores, f16 operands, f16 sums"),
    ("FFMA", "ordinary units, f32 operands and sums"),
    ("DFMA", "ordinary units, f64 operands and sums"),
];

/// Explains the instruction classes of the kernels that were launched.
fn explanation(rows: &[&Row<'_>]) -> String {
    let kernels: Vec<String> = rows.iter().map(|row| details(row)).collect();
    let seen = |class: &str| {
        kernels
            .iter()
            .any(|kernels| kernels.contains(&format!(", {class})")))
    };
    let lines: Vec<String> = INSTRUCTIONS
        .iter()
        .filter(|(class, _)| seen(class))
        .map(|(class, meaning)| format!("{class:<10} {meaning}"))
        .collect();
    match lines.is_empty() {
        true => {
            "No kernel with a known instruction class was launched. Only CUDA kernels have one.".to_owned()
        }
        false => lines.join("\n"),
    }
}

fn table(title: String, rows: &[&Row<'_>]) -> Table {
    let header = [
        "operation",
        "precision",
        "matmul",
        "sums",
        "requested",
        "executed",
        "details",
    ];
    let table_row = |row: &&Row<'_>| {
        let mut fields = vec![row.cell.workload.name.clone()];
        fields.extend([Axis::Precision, Axis::Matmul, Axis::Accumulator].map(|axis| row.axis(axis)));
        fields.push(row.requested());
        fields.push(match row.status {
            Some(Status::Ok) => row.executed().unwrap_or_default(),
            _ => row.status_name().to_owned(),
        });
        fields.push(details(row));
        fields
    };
    Table {
        title,
        header: header.map(|title| (title.to_owned(), Align::Left)).to_vec(),
        rows: rows.iter().map(table_row).collect(),
    }
}

/// Returns the rounding and the kernels, or the reason for their absence.
fn details(row: &Row<'_>) -> String {
    if row.status != Some(Status::Ok) {
        return row.remark();
    }
    let executed = row.records.first().map(|record| &record.executed);
    let parts = executed.map(|executed| [executed.rounding.as_deref(), executed.kernel.as_deref()]);
    let parts = parts.iter().flatten().flatten().copied();
    parts.collect::<Vec<_>>().join("\n")
}
