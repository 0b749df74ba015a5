//! The formats that runs are exported in.

use std::{collections::BTreeSet, fmt, str::FromStr};

use mantissa_core::{MetricName, UnknownName, nearest};

use super::{column, csv, latex, line, markdown, parquet};
use crate::{Report, ReportError, Run};

/// A format that runs are exported in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values, a row for every cell and metric.
    Csv,
    /// Comma-separated values, a row a cell and three columns a metric.
    CsvWide,
    /// The rows of [`Self::Csv`] in typed columns, for data frames.
    Parquet,
    /// A table a workload, for papers.
    Latex,
    /// A table a workload, as GitHub shows them.
    Markdown,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Csv,
        Self::CsvWide,
        Self::Parquet,
        Self::Latex,
        Self::Markdown,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::CsvWide => "csv-wide",
            Self::Parquet => "parquet",
            Self::Latex => "latex",
            Self::Markdown => "markdown",
        }
    }

    /// How names of its files end.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Csv | Self::CsvWide => "csv",
            Self::Parquet => "parquet",
            Self::Latex => "tex",
            Self::Markdown => "md",
        }
    }

    /// Whether it is UTF-8, which a terminal can show.
    pub const fn is_text(self) -> bool {
        !matches!(self, Self::Parquet)
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ExportFormat {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().copied().find(|format| format.name() == given);
        found.ok_or_else(|| {
            let valid: Vec<&'static str> = Self::ALL.iter().map(|format| format.name()).collect();
            UnknownName {
                what: "format",
                given: given.to_owned(),
                nearest: nearest(given, valid.iter().copied()),
                valid,
            }
        })
    }
}

/// Runs in a format, one after the other; of their metrics the `chosen` ones, or all if there are none. Every cell is in it,
/// the failed and skipped ones with their reasons. The same records give the same bytes.
///
/// # Errors
/// A run without a cell, two runs of one name, and what [`Report::new`] finds.
pub fn export(runs: &[Run], format: ExportFormat, chosen: &[MetricName]) -> Result<Vec<u8>, ReportError> {
    let reports = runs.iter().map(Report::new).collect::<Result<Vec<_>, _>>()?;
    check(&reports)?;
    let tidy = || {
        let mut columns = column::of_cell();
        columns.extend(column::of_metric());
        (columns, line::of_metrics(&reports, chosen))
    };
    match format {
        ExportFormat::Csv => {
            let (columns, lines) = tidy();
            csv::write(&columns, &lines)
        }
        ExportFormat::CsvWide => {
            let mut columns = column::of_cell();
            columns.extend(wide(&reports, chosen).into_iter().flat_map(column::wide));
            csv::write(&columns, &line::of_cells(&reports))
        }
        ExportFormat::Parquet => {
            let (columns, lines) = tidy();
            parquet::write(&columns, &lines)
        }
        ExportFormat::Latex => Ok(latex::latex(&reports, chosen).into_bytes()),
        ExportFormat::Markdown => Ok(markdown::markdown(&reports, chosen).into_bytes()),
    }
}

/// Each run has cells, and a name of its own: it tells their rows apart.
fn check(reports: &[Report<'_>]) -> Result<(), ReportError> {
    let mut names = BTreeSet::new();
    for report in reports {
        let name = report.run.name.clone();
        if report.rows().next().is_none() {
            return Err(ReportError::NoCells { run: name });
        }
        if !names.insert(&report.run.name) {
            return Err(ReportError::SameName { run: name });
        }
    }
    Ok(())
}

/// The metrics that have columns, in the order of the closed list: those asked for, else those that any cell has.
fn wide(reports: &[Report<'_>], chosen: &[MetricName]) -> BTreeSet<MetricName> {
    if !chosen.is_empty() {
        return chosen.iter().copied().collect();
    }
    let rows = reports.iter().flat_map(Report::rows);
    rows.flat_map(|(_, row)| line::metrics_of(row, chosen)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_by_its_name_and_a_slip_is_answered_with_the_nearest_one() {
        for format in ExportFormat::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
        let error = "parket".parse::<ExportFormat>().unwrap_err();
        assert_eq!(error.nearest, Some("parquet"));
    }
}
