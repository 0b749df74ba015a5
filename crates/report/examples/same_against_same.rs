//! A/A comparison of the processes of each cell: compares every two processes, and one half of the processes with the other. Skips cells
//! with fewer than ten repeats, each of which ran in a fresh process.
//!
//! ```sh
//! mantissa run suites/kernels/matmul.toml --profile smoke --backend flex --repeats 10 --out same
//! cargo run --release -p mantissa-report --example same_against_same -- same
//! ```

use std::{collections::BTreeMap, error::Error, path::Path};

use mantissa_analysis::{Estimate, Groups, Interval, Process, Sample, Verdict, judge, median_over_processes};
use mantissa_core::{Better, CellId, MetricName, Record, Status};

/// Minimum number of processes of a cell. Two halves of five processes are enough for a significant difference.
const FEWEST: usize = 10;

/// Smallest relevant change, as in a report.
const THRESHOLD: f64 = 0.02;

/// Returns `true` if a process belongs to the first half, given its index among the repeats of its cell and the number of repeats.
type Half = fn(usize, usize) -> bool;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: same_against_same RUN")?;
    let run = mantissa_report::load(Path::new(&folder))?;
    let cells = rates(&run.records);
    let (mut pairs, mut overlapping) = (0, 0);
    let mut widths = vec![];
    for rates in &cells {
        let intervals: Vec<(f64, Interval)> = rates
            .iter()
            .filter_map(|rate| Some((rate.value, rate.interval?)))
            .collect();
        widths.extend(
            intervals
                .iter()
                .map(|(value, interval)| (interval.high - interval.low) / value),
        );
        for (index, (_, one)) in intervals.iter().enumerate() {
            let others = &intervals[index + 1..];
            pairs += others.len();
            overlapping += others.iter().filter(|(_, other)| one.overlaps(*other)).count();
        }
    }
    widths.sort_by(f64::total_cmp);
    let width = widths
        .get(widths.len() / 2)
        .ok_or("no cell has ten processes and intervals")?;
    println!(
        "{} cells, {} processes",
        cells.len(),
        cells.iter().map(Vec::len).sum::<usize>()
    );
    println!(
        "interval within a process, width: {:.2} % of the value (median)",
        100.0 * width
    );
    println!(
        "intervals of two processes overlap: {overlapping} of {pairs} ({:.1} %)",
        percent(overlapping, pairs)
    );
    let halves: [(&str, Half); 2] = [
        ("first half against second", |index, n| index < n / 2),
        ("even rounds against odd", |index, _| index % 2 == 0),
    ];
    for (name, is_first) in halves {
        let Compared {
            overlapping,
            told_apart,
            beyond,
        } = compare(&cells, is_first);
        println!(
            "{name}, {} cells: intervals over processes overlap in {overlapping}; {told_apart} told apart (p ≤ 5 %), {beyond} of them beyond {} %",
            cells.len(),
            100.0 * THRESHOLD
        );
    }
    Ok(())
}

/// Returns the throughputs of each cell with enough repeats, in the order of the repeats.
fn rates(records: &[Record]) -> Vec<Vec<Estimate>> {
    let mut cells: BTreeMap<&CellId, Vec<(u32, Estimate)>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.status == Status::Ok) {
        let rate = record
            .metrics
            .get(&MetricName::FlopsPerSecond)
            .and_then(Estimate::from_metric);
        if let Some(rate) = rate {
            cells
                .entry(&record.cell.id)
                .or_default()
                .push((record.repeat, rate));
        }
    }
    let enough = cells.into_values().filter(|rates| rates.len() >= FEWEST);
    enough
        .map(|mut rates| {
            rates.sort_by_key(|(repeat, _)| *repeat);
            rates.into_iter().map(|(_, rate)| rate).collect()
        })
        .collect()
}

/// Numbers of cells by the result of comparing their two halves.
#[derive(Default)]
struct Compared {
    /// Cells for which the intervals of the two halves overlap. An interval is that of the median over processes.
    overlapping: usize,
    /// Cells whose halves differ significantly, without correction for the number of cells.
    told_apart: usize,
    /// Cells whose halves differ significantly and by a relevant amount.
    beyond: usize,
}

fn compare(cells: &[Vec<Estimate>], is_first: Half) -> Compared {
    let mut compared = Compared::default();
    for rates in cells {
        let half = |first: bool| -> Vec<f64> {
            let numbered = rates.iter().enumerate();
            let half = numbered.filter(|(index, _)| is_first(*index, rates.len()) == first);
            half.map(|(_, rate)| rate.value).collect()
        };
        let (baseline, candidate) = (half(true), half(false));
        let intervals = over_processes(&baseline).zip(over_processes(&candidate));
        compared.overlapping += usize::from(intervals.is_some_and(|(one, other)| one.overlaps(other)));
        let judged = judge(&[Groups {
            baseline: &baseline,
            candidate: &candidate,
            better: Better::Higher,
            threshold: THRESHOLD,
        }]);
        let Some(judgement) = judged.first() else { continue };
        compared.told_apart += usize::from(judgement.adjusted_p.is_some_and(|p| p <= 0.05));
        let differs = matches!(judgement.verdict, Verdict::Improved | Verdict::Regressed);
        compared.beyond += usize::from(differs);
    }
    compared
}

/// Returns the confidence interval of the median over processes, with one value per process.
fn over_processes(values: &[f64]) -> Option<Interval> {
    let processes = values
        .iter()
        .map(|value| Some(Process::new(&Sample::new([*value])?)));
    let processes: Vec<Process> = processes.collect::<Option<_>>()?;
    median_over_processes(&processes, 0)?.interval
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}
