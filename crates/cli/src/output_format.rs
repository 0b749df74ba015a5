//! Output formats and destinations of results.

use std::{path::PathBuf, str::FromStr};

use anyhow::Result;
use mantissa_core::{Better, UnknownName};
use mantissa_gate::{
    GateReport, RunMeasurements,
    render::{Measurements, annotations, bencher, benchmark_action, junit, markdown, mlperf, openmetrics},
};
use mantissa_report::ExportFormat;

/// Output format and its destination.
#[derive(Debug, Clone)]
pub(crate) struct OutputFile {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Markdown,
    Annotations,
    Junit,
    Json,
    Bencher,
    OpenMetrics,
    MlPerf,
    BenchmarkSmaller,
    BenchmarkBigger,
}

impl Format {
    const ALL: [(&str, Self); 9] = [
        ("markdown", Self::Markdown),
        ("annotations", Self::Annotations),
        ("junit", Self::Junit),
        ("json", Self::Json),
        ("bencher", Self::Bencher),
        ("openmetrics", Self::OpenMetrics),
        ("mlperf", Self::MlPerf),
        ("benchmark-smaller", Self::BenchmarkSmaller),
        ("benchmark-bigger", Self::BenchmarkBigger),
    ];

    /// Renders the measurements of one run, for tools that track many runs. Returns `None` for a format of comparisons.
    pub(crate) fn render_run(self, run: &RunMeasurements) -> Result<Option<String>> {
        let measurements = || Measurements::of(run);
        Ok(Some(match self {
            Self::Markdown | Self::Annotations | Self::Junit | Self::Json => return Ok(None),
            Self::Bencher => bencher(&measurements()),
            Self::OpenMetrics => openmetrics(&measurements()),
            Self::MlPerf => mlperf(&measurements())?,
            Self::BenchmarkSmaller => benchmark_action(&measurements(), Better::Lower),
            Self::BenchmarkBigger => benchmark_action(&measurements(), Better::Higher),
        }))
    }

    /// Returns true if the format describes the measurements of one run.
    fn describes_run(self) -> bool {
        !matches!(
            self,
            Self::Markdown | Self::Annotations | Self::Junit | Self::Json
        )
    }

    /// Renders a result: the comparison or the measurements of the run, depending on the format.
    pub(crate) fn render(self, report: &GateReport, run: &RunMeasurements) -> Result<String> {
        Ok(match self {
            Self::Markdown => markdown(report),
            Self::Annotations => annotations(report),
            Self::Junit => junit(report),
            Self::Json => serde_json::to_string_pretty(report)?,
            format => format.render_run(run)?.unwrap_or_default(),
        })
    }
}

/// Export format of recorded runs: tables of several runs, or the measurements of one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Export {
    Tables(ExportFormat),
    Measurements(Format),
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let run_formats = Format::ALL
            .into_iter()
            .filter(|(_, format)| format.describes_run());
        if let Some((_, format)) = run_formats.clone().find(|(name, _)| *name == text) {
            return Ok(Self::Measurements(format));
        }
        text.parse().map(Self::Tables).map_err(|error: UnknownName| {
            let names: Vec<&str> = run_formats.map(|(name, _)| name).collect();
            format!("{error}. Also valid for a single run: `{}`", names.join("`, `"))
        })
    }
}

impl FromStr for OutputFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Format::ALL.map(|(name, _)| name).join(", ");
        let (name, path) = text
            .split_once('=')
            .ok_or("expected FORMAT=FILE, e.g. markdown=summary.md")?;
        let format = Format::ALL.into_iter().find(|(valid, _)| *valid == name);
        let (_, format) =
            format.ok_or_else(|| format!("`{name}` is not a valid format; valid: {}", names()))?;
        match path {
            "" => Err("expected a file after `=`".to_owned()),
            path => Ok(Self {
                format,
                path: path.into(),
            }),
        }
    }
}
