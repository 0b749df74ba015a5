//! `mantissa sensitivity`: determines whether a model needs range or precision.
//!
//! Runs the first training of a suite that computes in f32, then tests the trained model with fewer and fewer bits.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use mantissa_analysis::{keeps, min_bits};
use mantissa_core::{
    Cell, EventKind, Format, FormatTrial, Layout, MatmulPrecision, Plan, Precision, Record, Task,
};
use mantissa_report::{Align, Table, load};
use mantissa_run_folder::SampleSelection;
use mantissa_runner::{Stop, start};
use mantissa_worker::Burn;

use crate::{
    args::RunArguments,
    commands::{report::draw, run},
    exit::Exit,
    printer::Printer,
    progress::Bar,
};

pub(crate) fn sensitivity(arguments: &RunArguments, printer: &Printer) -> Result<Exit> {
    let Some(mut prepared) = run::prepare(arguments, printer)? else {
        return Ok(Exit::Success);
    };
    reduce_to_one_cell(&mut prepared.plan)?;
    prepared.settings.repeats = 1;
    prepared.settings.suite_repeats.clear();
    prepared.name.push_str("-sensitivity");
    let stop = Stop::on_signals()?;
    let finish = start(
        &Burn,
        prepared,
        stop.clone(),
        &mut Bar::new(printer, arguments.json),
    )?;
    stop.restore_default_signals();

    let run = load(&finish.path)?;
    // Records of failed attempts do not have a sensitivity event.
    let has_verdict = |record: &&Record| {
        record
            .events
            .iter()
            .any(|event| event.kind == EventKind::Sensitivity)
    };
    let Some(record) = run.records.iter().find(has_verdict) else {
        return run::conclude(&finish, arguments, printer);
    };
    let samples = run
        .samples
        .read(record, SampleSelection::series(&[]))
        .map_err(anyhow::Error::msg)?;
    let trials = samples.map(|samples| samples.trials).unwrap_or_default();
    let verdict = record
        .events
        .iter()
        .find(|event| event.kind == EventKind::Sensitivity);
    let Some(verdict) = verdict else {
        return run::conclude(&finish, arguments, printer);
    };
    if arguments.json {
        printer.data(&serde_json::to_string(&trials)?);
    } else {
        printer.data(&draw(&model_table(&trials)));
        printer.data(&draw(&layer_table(&trials)));
        printer.data(&format!("{} is {}", record.cell.workload.name, verdict.detail));
        printer.data(&finish.path.display().to_string());
    }
    Ok(Exit::Success)
}

/// Timeout in seconds (three years), which never expires. Users stop a long test with Ctrl-C.
const NO_TIMEOUT: f64 = 1e8;

/// Reduces a plan to its first f32 training cell, which then tests its model with fewer bits.
fn reduce_to_one_cell(plan: &mut Plan) -> Result<()> {
    let is_suitable = |cell: &Cell| {
        let setting = &cell.setting;
        matches!(cell.workload.task, Task::Train(_))
            && setting.precision() == Precision::True32
            && setting.matmul() == MatmulPrecision::Highest
    };
    let mut cells = std::mem::take(&mut plan.cells).into_iter();
    let Some(mut planned) = cells.find(|planned| planned.skip.is_none() && is_suitable(&planned.cell)) else {
        bail!(
            "no cell trains under `precision=32-true` and `matmul=highest`\n  hint: `mantissa plan SUITE` lists the cells"
        );
    };
    let Cell {
        suite,
        mut workload,
        setting,
        seed,
        ..
    } = planned.cell;
    if let Task::Train(task) = &mut workload.task {
        task.sensitivity = true;
    }
    planned.cell = Cell::new(&suite, workload, setting, seed);
    plan.cells = vec![planned];
    let suite = plan.suites.iter_mut().find(|found| found.name == suite);
    let suite = suite.context("a plan has the suites of its cells")?;
    // Expectations, claims and the timeout of the suite do not apply: this cell also tests each layer and number of bits.
    suite.expectations.clear();
    suite.claims.clear();
    suite.timeout_seconds = NO_TIMEOUT;
    Ok(())
}

fn model_table(trials: &[FormatTrial]) -> Table {
    let header = [
        ("format", Align::Left),
        ("in f32", Align::Left),
        ("accuracy", Align::Right),
        ("lost", Align::Right),
        ("won", Align::Right),
        ("accuracy kept", Align::Left),
    ];
    let line = |trial: &FormatTrial| {
        vec![
            trial.layout.to_string(),
            trial.kept.join("+"),
            format!("{:.1} %", 100.0 * trial.right as f64 / trial.examples as f64),
            trial.lost.to_string(),
            trial.won.to_string(),
            if keeps(trial) { "yes" } else { "no" }.to_owned(),
        ]
    };
    let model_trials = trials.iter().filter(|trial| trial.layer.is_none());
    Table {
        title: "Test accuracy with matmuls in fewer bits; examples lost and won compared with f32".to_owned(),
        header: header.map(|(title, align)| (title.to_owned(), align)).to_vec(),
        rows: model_trials.map(line).collect(),
    }
}

fn layer_table(trials: &[FormatTrial]) -> Table {
    let header = [
        ("layer", Align::Left),
        ("exponent bits", Align::Right),
        ("fraction bits", Align::Right),
    ];
    let mut layers: Vec<&str> = trials.iter().filter_map(|trial| trial.layer.as_deref()).collect();
    let mut seen = HashSet::new();
    layers.retain(|layer| seen.insert(*layer));
    let line = |layer: &&str| {
        let layer_trials = || {
            trials
                .iter()
                .filter(|trial| trial.layer.as_deref() == Some(*layer))
        };
        let has_fewer_exponent_bits =
            |trial: &&FormatTrial| trial.layout.exponent_bits() < Format::F32.exponent_bits();
        // To find the fewest exponent bits, use only formats with fewer exponent bits than f32 and, among these, those with the most fraction
        // bits. With fewer fraction bits, the fraction would affect the result.
        let max_fraction_bits = layer_trials()
            .filter(has_fewer_exponent_bits)
            .map(|trial| trial.layout.fraction_bits())
            .max();
        let (exponents, fractions): (Vec<&FormatTrial>, Vec<_>) =
            layer_trials().partition(has_fewer_exponent_bits);
        let exponents = exponents
            .into_iter()
            .filter(|trial| Some(trial.layout.fraction_bits()) == max_fraction_bits);
        vec![
            (*layer).to_owned(),
            fewest_bits_text(exponents, Layout::exponent_bits),
            fewest_bits_text(fractions.into_iter(), Layout::fraction_bits),
        ]
    };
    Table {
        title: "Fewest bits that keep the accuracy, one layer at a time, other layers in f32".to_owned(),
        header: header.map(|(title, align)| (title.to_owned(), align)).to_vec(),
        rows: layers.iter().map(line).collect(),
    }
}

fn fewest_bits_text<'t>(trials: impl Iterator<Item = &'t FormatTrial>, bits: fn(Layout) -> u32) -> String {
    let trials: Vec<FormatTrial> = trials.cloned().collect();
    let max = trials.iter().map(|trial| bits(trial.layout)).max().unwrap_or(0);
    min_bits(&trials, bits).map_or_else(|| format!("> {max}"), |bits| bits.to_string())
}
