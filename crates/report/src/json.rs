//! Report as JSON for other programs: headlines, claims, and every cell with its metrics over processes.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::{AxisValue, CellId, MetricName};
use serde::Serialize;

use crate::{Banner, ClaimVerdict, Report, ReportError, Row};

/// Schema version of `mantissa report --json`.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct RunJson<'a> {
    schema: u32,
    run: &'a str,
    warnings: &'a [Banner],
    suites: Vec<SuiteJson<'a>>,
}

#[derive(Serialize)]
struct SuiteJson<'a> {
    suite: &'a str,
    question: &'a str,
    warnings: &'a [Banner],
    workloads: Vec<GroupJson<'a>>,
    claims: Vec<ClaimJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    workload: &'a str,
    answer: &'a [String],
    /// Metric by which speeds are compared.
    speed: MetricName,
    cells: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    id: &'a CellId,
    setting: BTreeMap<&'static str, AxisValue>,
    seed: u64,
    status: &'a str,
    remark: String,
    processes: usize,
    metrics: BTreeMap<MetricName, EstimateJson>,
    /// Id of the baseline cell.
    baseline: Option<&'a CellId>,
    /// Speed relative to the baseline.
    speed_up: Option<EstimateJson>,
    speed_verdict: Option<String>,
}

/// An estimate in the metric's unit with its 95 % interval.
#[derive(Serialize)]
struct EstimateJson {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: u64,
    method: &'static str,
}

#[derive(Serialize)]
struct ClaimJson<'a> {
    says: &'a str,
    verdict: &'a str,
    tests: &'a [String],
    tested_as: &'a str,
    evidence: &'a [String],
    remarks: &'a [String],
}

/// Renders the report as JSON. Unknown values are `null`, never 0. The same records give the same bytes.
pub fn json(report: &Report<'_>) -> Result<String, ReportError> {
    let suites = report.suites.iter().map(|suite| SuiteJson {
        suite: &suite.info.name,
        question: suite.info.question.trim(),
        warnings: &suite.banners,
        workloads: suite
            .groups
            .iter()
            .map(|group| GroupJson {
                workload: group.workload,
                answer: &group.answer,
                speed: group.speed,
                cells: group.rows.iter().map(|row| row_json(row, &group.rows)).collect(),
            })
            .collect(),
        claims: suite.claims.iter().map(claim_json).collect(),
    });
    let run = RunJson {
        schema: SCHEMA,
        run: &report.run.name,
        warnings: &report.banners,
        suites: suites.collect(),
    };
    serde_json::to_string_pretty(&run).map_err(ReportError::Json)
}

fn row_json<'a>(row: &'a Row<'_>, rows: &'a [Row<'_>]) -> RowJson<'a> {
    RowJson {
        id: &row.cell.id,
        setting: row
            .cell
            .setting
            .iter()
            .map(|(axis, value)| (axis.name(), value))
            .collect(),
        seed: row.cell.seed,
        status: row.status_name(),
        remark: row.remark(),
        processes: row.processes(),
        metrics: row
            .metrics
            .iter()
            .map(|(metric, estimate)| (*metric, estimate_json(estimate)))
            .collect(),
        baseline: row
            .baseline
            .and_then(|index| rows.get(index))
            .map(|row| &row.cell.id),
        speed_up: row.speed_up.as_ref().map(estimate_json),
        speed_verdict: row.speed_verdict.map(|verdict| verdict.to_string()),
    }
}

fn estimate_json(estimate: &Estimate) -> EstimateJson {
    let finite = |value: f64| value.is_finite().then_some(value);
    let bound = |pick: fn(Interval) -> f64| estimate.interval.map(pick).and_then(finite);
    EstimateJson {
        value: finite(estimate.value),
        low: bound(|interval| interval.low),
        high: bound(|interval| interval.high),
        n: estimate.n,
        method: estimate.method,
    }
}

fn claim_json<'a>(claim: &'a ClaimVerdict<'_>) -> ClaimJson<'a> {
    ClaimJson {
        says: &claim.claim.says,
        verdict: &claim.verdict,
        tests: &claim.tests,
        tested_as: &claim.tested_as,
        evidence: &claim.evidence,
        remarks: &claim.remarks,
    }
}
