//! Export formats.

use std::{collections::BTreeSet, fmt, str::FromStr};

use mantissa_core::{MetricName, UnknownName, nearest};

use super::{column, csv, latex, line, markdown, parquet};
use crate::{Report, ReportError, Run};

/// A format for exported runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values with one row per cell and metric.
    Csv,
    /// Comma-separated values with one row per cell and three columns per metric.
    CsvWide,
    /// The rows of [`Self::Csv`] in typed columns, for data frames.
    Parquet,
    /// One table per workload, for papers.
    Latex,
    /// One table per workload in GitHub-flavoured Markdown.
    Markdown,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: &'static [Self] = &[
        Self::Csv,
        Self::CsvWide,
        Self::Parquet,
        Self::Latex,
        Self::Markdown,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::CsvWide => "csv-wide",
            Self::Parquet => "parquet",
            Self::Latex => "latex",
            Self::Markdown => "markdown",
        }
    }

    /// Returns the file name extension.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Csv | Self::CsvWide => "csv",
            Self::Parquet => "parquet",
            Self::Latex => "tex",
            Self::Markdown => "md",
        }
    }

    /// Returns `true` if the format is UTF-8 text that a terminal can show.
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

/// Exports runs in a format, one after the other. `chosen` selects metrics; if `chosen` is empty, all metrics are exported. Every cell is
/// included; failed and skipped cells have a reason. The same records produce the same bytes.
///
/// # Errors
/// Fails if a run has no cells, if two runs have the same name, or if [`Report::new`] fails.
pub fn export(runs: &[Run], format: ExportFormat, chosen: &[MetricName]) -> Result<Vec<u8>, ReportError> {
    let reports = runs.iter().map(Report::new).collect::<Result<Vec<_>, _>>()?;
    check(&reports)?;
    let tidy = || {
        let mut columns = column::cell_columns();
        columns.extend(column::metric_columns());
        (columns, line::of_metrics(&reports, chosen))
    };
    match format {
        ExportFormat::Csv => {
            let (columns, lines) = tidy();
            csv::write(&columns, &lines)
        }
        ExportFormat::CsvWide => {
            let mut columns = column::cell_columns();
            columns.extend(
                wide_metrics(&reports, chosen)
                    .into_iter()
                    .flat_map(column::wide_columns),
            );
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

/// Checks that each run has cells and a unique name. Only the name distinguishes the rows of two runs.
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

/// Returns the metrics that get columns, in the order of [`MetricName`]: the chosen ones, or else those that any cell has.
fn wide_metrics(reports: &[Report<'_>], chosen: &[MetricName]) -> BTreeSet<MetricName> {
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
    fn formats_are_parsed_by_name_and_a_typo_suggests_the_nearest() {
        for format in ExportFormat::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
        let error = "parket".parse::<ExportFormat>().unwrap_err();
        assert_eq!(error.nearest, Some("parquet"));
    }
}
