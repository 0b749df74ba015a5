//! Arguments of `mantissa export`.

use std::path::PathBuf;

use clap::Args;
use mantissa_core::MetricName;

use crate::output_format::Export;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Format: csv, csv-wide, parquet, latex, markdown, …
    ///
    /// Tables of one or several runs: csv (one row per cell and metric), csv-wide (one row per cell), parquet (the rows of csv, with types),
    /// latex and markdown (one table per workload). Formats of a single run, for tools that track measurements over time: bencher, openmetrics,
    /// mlperf, benchmark-smaller, benchmark-bigger.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Export,
    /// Write to this file; required for Parquet [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Export only these metrics, e.g. `train_seconds,test_accuracy`
    ///
    /// [default: all]
    #[arg(long = "metric", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) metrics: Vec<MetricName>,
}
