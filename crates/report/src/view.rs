//! Report of a run: everything that the renderers show, computed once.

use std::collections::{BTreeMap, HashMap, HashSet};

use mantissa_core::{Axis, CellId, MatmulPrecision, MetricName, Record, Status, SuiteInfo, TaskKind};

use crate::{
    Banner, ClaimVerdict, Reference, ReportError, Row, Run, banner,
    baseline::compare,
    claims, headline, notes, peak, reference, shape,
    units::{self, Scale},
};

/// Report of a run.
#[derive(Debug)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a Run,
    /// Warnings that precede all numbers.
    pub banners: Vec<Banner>,
    /// The suites, in plan order; those without cells are left out.
    pub suites: Vec<Suite<'a>>,
}

/// A suite of the plan.
#[derive(Debug)]
pub struct Suite<'a> {
    /// Title, question and other information from the suite file.
    pub info: &'a SuiteInfo,
    /// Published tables named by the suite.
    pub references: Vec<Reference>,
    /// Workloads, in plan order.
    pub groups: Vec<Group<'a>>,
    /// Warnings that precede its numbers.
    pub banners: Vec<Banner>,
    /// Claims of articles, tested on its cells.
    pub claims: Vec<ClaimVerdict<'a>>,
}

/// Cells of one workload of a suite, which may be compared with each other.
#[derive(Debug)]
pub struct Group<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// Kind of task.
    pub kind: TaskKind,
    /// Axes whose values differ between its cells.
    pub varying: Vec<Axis>,
    /// Varying axes without precision and matmul, which have columns of their own.
    pub axes: Vec<Axis>,
    /// Metric by which speeds are compared.
    pub speed: MetricName,
    /// First of allocator, device and host memory that any cell has.
    pub memory: Option<MetricName>,
    /// Rows of its cells, in plan order.
    pub rows: Vec<Row<'a>>,
    /// Sentences on the suite's question, computed from the rows.
    pub answer: Vec<String>,
    /// Notes on the intervals and comparisons of its table.
    pub notes: Vec<String>,
    /// Smallest and largest magnitude of each metric.
    magnitudes: BTreeMap<MetricName, (f64, f64)>,
}

impl<'a> Report<'a> {
    /// Computes the report of a run.
    pub fn new(run: &'a Run) -> Result<Self, ReportError> {
        let mut by_cell: HashMap<&CellId, Vec<&Record>> = HashMap::new();
        for record in &run.records {
            by_cell.entry(&record.cell.id).or_default().push(record);
        }
        let mut rows: HashMap<&str, Vec<Row<'a>>> = HashMap::new();
        let mut planned = HashSet::new();
        for entry in &run.plan.cells {
            planned.insert(&entry.cell.id);
            let records = by_cell.get(&entry.cell.id).cloned().unwrap_or_default();
            let row = Row::new(run, &entry.cell, entry.skip.clone(), records);
            rows.entry(&entry.cell.suite).or_default().push(row);
        }
        // Also show records whose cell is not in the plan. They come from a folder put together by hand.
        let mut seen = HashSet::new();
        for cell in run
            .records
            .iter()
            .map(|record| &record.cell)
            .filter(|cell| !planned.contains(&cell.id))
        {
            if seen.insert(&cell.id) {
                let records = by_cell.get(&cell.id).cloned().unwrap_or_default();
                rows.entry(&cell.suite)
                    .or_default()
                    .push(Row::new(run, cell, None, records));
            }
        }
        let mut suites = Vec::new();
        for info in &run.plan.suites {
            if let Some(rows) = rows.remove(info.name.as_str()) {
                suites.push(Suite::new(run, info, rows)?);
            }
        }
        peak::share(&mut suites);
        Ok(Self {
            run,
            banners: banner::of_run(run),
            suites,
        })
    }

    /// Returns the maximum number of rows per table, which keeps a page small enough for a browser.
    pub(crate) fn rows_shown(&self) -> usize {
        let groups = self.suites.iter().flat_map(|suite| &suite.groups);
        shown_of(&groups.map(|group| group.rows.len()).collect::<Vec<_>>())
    }

    /// Iterates over all rows with their groups.
    pub fn rows(&self) -> impl Iterator<Item = (&Group<'a>, &Row<'a>)> {
        let groups = self.suites.iter().flat_map(|suite| &suite.groups);
        groups.flat_map(|group| group.rows.iter().map(move |row| (group, row)))
    }
}

/// Returns the maximum number of rows shown per table. It limits tables only if they have too many rows together.
pub(crate) fn shown_of(tables: &[usize]) -> usize {
    /// Maximum number of rows of all tables together.
    const MOST: usize = 2_000;
    /// Minimum number of rows per table.
    const LEAST: usize = 5;
    if tables.iter().sum::<usize>() <= MOST {
        return MOST;
    }
    (MOST / tables.len()).max(LEAST)
}

impl<'a> Suite<'a> {
    fn new(run: &Run, info: &'a SuiteInfo, rows: Vec<Row<'a>>) -> Result<Self, ReportError> {
        let references = info
            .references
            .iter()
            .map(|name| reference(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut groups: Vec<(&'a str, Vec<Row<'a>>)> = Vec::new();
        for row in rows {
            let workload = row.cell.workload.name.as_str();
            match groups.iter_mut().find(|(name, _)| *name == workload) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((workload, vec![row])),
            }
        }
        let groups: Vec<_> = groups
            .into_iter()
            .map(|(name, rows)| Group::new(name, rows))
            .collect();
        let banners = banner::of_suite(run, &references, &groups);
        let tested = info.claims.iter().map(|claim| claims::test(run, claim, &groups));
        let claims = tested.collect();
        Ok(Self {
            claims,
            info,
            references,
            groups,
            banners,
        })
    }
}

impl<'a> Group<'a> {
    fn new(workload: &'a str, mut rows: Vec<Row<'a>>) -> Self {
        let kind = rows
            .first()
            .map_or(TaskKind::Train, |row| row.cell.workload.kind());
        let varying: Vec<Axis> = Axis::ALL
            .iter()
            .copied()
            .filter(|axis| varies(&rows, *axis))
            .collect();
        let has = |metric: &MetricName| rows.iter().any(|row| row.metrics.contains_key(metric));
        let kernel = rows.first().and_then(|row| shape::kernel(&row.cell.workload));
        let speed = match kernel {
            None if kind == TaskKind::Evaluate => MetricName::SamplesPerSecond,
            None if kind == TaskKind::Generate => MetricName::DecodeTokensPerSecond,
            None => MetricName::TrainSeconds,
            Some(kernel) if kernel.kind().multiplies() => MetricName::FlopsPerSecond,
            Some(_) => MetricName::ValuesPerSecond,
        };
        let memory = MEMORY.iter().copied().find(has);
        compare(&mut rows, speed, memory);
        let own_column = |axis: &Axis| matches!(axis, Axis::Precision | Axis::Matmul);
        let axes = varying.iter().copied().filter(|axis| !own_column(axis)).collect();
        let mut magnitudes: BTreeMap<MetricName, (f64, f64)> = BTreeMap::new();
        for (metric, estimate) in rows.iter().flat_map(|row| &row.metrics) {
            let size = estimate.value.abs();
            let (least, most) = magnitudes.entry(*metric).or_insert((size, size));
            (*least, *most) = (least.min(size), most.max(size));
        }
        let mut group = Self {
            workload,
            kind,
            varying,
            axes,
            speed,
            memory,
            rows,
            answer: Vec::new(),
            notes: Vec::new(),
            magnitudes,
        };
        group.answer = headline::answer(&group);
        group.notes = notes::of_group(&group);
        group
    }

    /// Iterates over the rows that ran to their end.
    pub fn ok(&self) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(|row| row.status == Some(Status::Ok))
    }

    /// Returns at most `most` rows, in plan order. Rows that failed or violated an expectation take precedence.
    pub(crate) fn shown(&self, most: usize) -> Vec<&Row<'a>> {
        if self.rows.len() <= most {
            return self.rows.iter().collect();
        }
        let fell_short = |row: &Row<'_>| {
            let ended = row.status.is_some_and(|status| status != Status::Skipped);
            ended && (!row.is_ok() || !row.unexpected.is_empty())
        };
        let (first, rest): (Vec<_>, Vec<_>) =
            (0..self.rows.len()).partition(|&at| fell_short(&self.rows[at]));
        let mut shown: Vec<usize> = first.into_iter().chain(rest).take(most).collect();
        shown.sort_unstable();
        shown.into_iter().map(|at| &self.rows[at]).collect()
    }

    /// Returns the scale on which a metric of a row is shown. All rows share one scale for comparison, unless their values are too
    /// far apart and the small ones would lose their digits.
    pub fn scale(&self, metric: MetricName, value: f64) -> Scale {
        /// Above this ratio, two decimals on the scale of the largest value leave fewer than two digits of the smallest.
        const ONE_SCALE_WITHIN: f64 = 50.0;
        let (smallest, largest) = self.magnitudes.get(&metric).copied().unwrap_or_default();
        let together = largest <= smallest * ONE_SCALE_WITHIN;
        Scale::of(metric, if together { largest } else { value })
    }

    /// Formats a row's value of a metric on the group's scale.
    pub fn value(&self, metric: MetricName, row: &Row<'_>) -> String {
        let shown = row
            .metric(metric)
            .map(|e| self.scale(metric, e.value).text(e.value));
        shown.unwrap_or_else(|| units::ABSENT.to_owned())
    }

    /// Returns the reason if all rows were skipped for the same one.
    pub(crate) fn skipped_alike(&self) -> Option<&str> {
        let mut reasons = self.rows.iter().map(|row| {
            let skipped = row.status == Some(Status::Skipped);
            row.reason.as_deref().filter(|_| skipped)
        });
        let first = reasons.next()??;
        reasons.all(|reason| reason == Some(first)).then_some(first)
    }

    /// Returns `true` if any row has this metric.
    pub fn has(&self, metric: MetricName) -> bool {
        self.magnitudes.contains_key(&metric)
    }

    /// Returns true if a row has this metric with a value other than 0.
    pub(crate) fn occurs(&self, metric: MetricName) -> bool {
        self.magnitudes.get(&metric).is_some_and(|(_, most)| *most > 0.0)
    }

    /// Returns `true` if its cells differ in an axis.
    pub fn varies(&self, axis: Axis) -> bool {
        self.varying.contains(&axis)
    }

    /// Returns a label that distinguishes a row from the others: `bf16-mixed · high · batch 8`, without the axes `left_out`.
    pub fn label(&self, row: &Row<'_>, left_out: &[Axis]) -> String {
        let mut parts = Vec::new();
        let shown = |axis: Axis| !left_out.contains(&axis) && (self.varies(axis) || self.axes.is_empty());
        let (precision, matmul) = (row.cell.setting.precision(), row.cell.setting.matmul());
        if shown(Axis::Precision) {
            parts.push(precision.name().to_owned());
        }
        // Omit a matmul precision that is the only choice.
        let chosen = row.cell.setting.get(Axis::Matmul).is_some()
            && (precision.allows(MatmulPrecision::High) || matmul != MatmulPrecision::Highest);
        if chosen && shown(Axis::Matmul) {
            parts.push(matmul.name().to_owned());
        }
        for &axis in self.axes.iter().filter(|axis| !left_out.contains(axis)) {
            let value = row.axis(axis);
            parts.push(match axis {
                Axis::Optimizer | Axis::Backend | Axis::Gelu => value,
                _ => format!("{} {value}", axis.name().replace('_', " ")),
            });
        }
        parts.join(" · ")
    }
}

/// Metrics of peak memory. The first is the one that the articles print.
pub(crate) const MEMORY: [MetricName; 3] = MetricName::PEAK_MEMORY;

/// Returns `true` if rows differ in an axis.
fn varies(rows: &[Row<'_>], axis: Axis) -> bool {
    rows.windows(2)
        .any(|pair| pair[0].axis(axis) != pair[1].axis(axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_among_many_short_ones_is_shown_in_full() {
        let tables: Vec<usize> = std::iter::once(96).chain([8; 30]).collect();
        assert!(shown_of(&tables) >= 96);
        // Too many rows together: every table gets an equal share, but at least 5 rows.
        assert_eq!(shown_of(&[10_000, 10, 10, 10]), 500);
        assert_eq!(shown_of(&[100; 1_000]), 5);
        assert!(shown_of(&[]) > 0);
    }
}
