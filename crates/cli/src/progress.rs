//! Progress bar: the current cell, its progress, and the remaining time.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mantissa_core::{Axis, Cell, EventKind, Phase, Plan, Record};
use mantissa_runner::{Progress, ProgressEvent};

use crate::printer::{Printer, escape_control_characters};

/// Draws progress if standard error is a terminal, and prints records as JSON on request.
pub(crate) struct Bar<'a> {
    printer: &'a Printer,
    bar: ProgressBar,
    axes: BTreeMap<String, Vec<Axis>>,
    json: bool,
    cell: String,
    time_left: Option<Duration>,
    /// Notes on data and weights that were already printed.
    printed_notes: BTreeSet<String>,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(printer: &'a Printer, json: bool) -> Self {
        let target = if printer.shows_progress() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.expect("the progress template is valid"));
        Self {
            printer,
            bar,
            axes: BTreeMap::new(),
            json,
            cell: String::new(),
            time_left: None,
            printed_notes: BTreeSet::new(),
        }
    }

    fn show(&self, step: &str) {
        let time_left = self
            .time_left
            .map(|time| format!(", about {} left", HumanDuration(time)))
            .unwrap_or_default();
        let message = format!("{}{step}{time_left}", self.cell);
        self.bar
            .set_message(escape_control_characters(&message).into_owned());
    }
}

/// Returns the workload and the values of the axes that its suite sweeps.
pub(crate) fn cell_label(cell: &Cell, swept: &[Axis]) -> String {
    let mut parts = vec![cell.workload.name.clone()];
    for axis in swept {
        match axis {
            Axis::Seed => parts.push(format!("seed={}", cell.seed)),
            axis => parts.extend(cell.setting.get(*axis).map(|value| format!("{axis}={value}"))),
        }
    }
    parts.join(" ")
}

/// Returns the axes that each suite of a plan sweeps.
fn swept_axes(plan: &Plan) -> BTreeMap<String, Vec<Axis>> {
    plan.suites
        .iter()
        .map(|suite| (suite.name.clone(), suite.axes.clone()))
        .collect()
}

fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "preparing",
        Phase::WarmUp => "warming up",
        Phase::Measure => "measuring",
        Phase::Evaluate => "evaluating",
    }
}

impl Progress for Bar<'_> {
    fn on_event(&mut self, event: ProgressEvent<'_>) {
        match event {
            ProgressEvent::Started { folder, plan, total } => {
                self.started(folder, plan, total);
            }
            ProgressEvent::Preparing {
                what,
                done,
                total,
                processes,
            } => self.preparing(what, [done, total, processes]),
            ProgressEvent::Cell {
                cell,
                repeat,
                done,
                left,
            } => {
                let axes = self.axes.get(&cell.suite).map_or(&[][..], Vec::as_slice);
                let repeat_suffix = if repeat > 0 {
                    format!(" (repeat {repeat})")
                } else {
                    String::new()
                };
                self.cell = cell_label(cell, axes) + &repeat_suffix;
                self.time_left = left;
                self.bar.set_position(done as u64);
                self.show("");
            }
            ProgressEvent::Waiting(what) => self.show(&format!(": {what}")),
            ProgressEvent::Stopping => self.bar.suspend(|| {
                self.printer
                    .warn("stopping after the current cell; a second signal stops immediately");
            }),
            ProgressEvent::Step(update) => {
                self.show(&format!(
                    ": {} {}/{}",
                    phase_text(update.phase),
                    update.done,
                    update.total
                ));
            }
            ProgressEvent::Recorded(record) => {
                self.bar.inc(1);
                self.print_input_notes(record);
                if self.json {
                    let line = serde_json::to_string(record).expect("a record is serializable");
                    self.bar.suspend(|| self.printer.data(&line));
                }
            }
            ProgressEvent::Ended => self.bar.finish_and_clear(),
        }
    }
}

impl Bar<'_> {
    /// Prints notes on reading data and weights, such as skipped files, each note once per workload.
    fn print_input_notes(&mut self, record: &Record) {
        let data_notes = record.data.iter().flat_map(|data| &data.notes);
        let weight_notes = record
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Weights);
        for note in data_notes.chain(weight_notes.map(|event| &event.detail)) {
            let note = format!("{}: {note}", record.cell.workload.name);
            if !self.printed_notes.contains(&note) {
                self.bar.suspend(|| self.printer.note(&note));
                self.printed_notes.insert(note);
            }
        }
    }

    fn preparing(&self, what: &'static str, [done, total, processes]: [usize; 3]) {
        if done == 0 {
            self.printer
                .note(&format!("{what}: {total} tasks in {processes} processes"));
            self.bar.set_length(total as u64);
            self.bar.enable_steady_tick(Duration::from_millis(200));
            self.bar.set_message(what);
        }
        self.bar.set_position(done as u64);
    }

    fn started(&mut self, folder: &Path, plan: &Plan, total: usize) {
        self.axes = swept_axes(plan);
        self.printer
            .note(&format!("recording {total} cells into `{}`", folder.display()));
        self.bar.set_length(total as u64);
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }
}
