//! Exports the tables of all workloads with all rows, as GitHub-flavoured Markdown.

use mantissa_core::MetricName;

use crate::{
    Report,
    banner::warnings,
    markdown::{escape, heading, paragraph, table},
    setting::SettingResult,
    table::columns_of,
};

/// Renders one table per workload, under the names of run, suite and workload.
pub(super) fn markdown(reports: &[Report<'_>], chosen: &[MetricName]) -> String {
    let mut out = String::new();
    for report in reports {
        out += &heading(report);
        for suite in &report.suites {
            paragraph(&mut out, &format!("## {}", escape(&suite.info.title)));
            let warnings = warnings(report.banners.iter().chain(&suite.banners));
            if !warnings.is_empty() {
                paragraph(&mut out, &format!("**{}**", escape(&warnings)));
            }
            for group in &suite.groups {
                if suite.groups.len() > 1 {
                    paragraph(&mut out, &format!("### {}", escape(group.workload)));
                }
                let settings = SettingResult::all(group, |_| true);
                table(&mut out, suite, group, &columns_of(group, chosen), &settings);
            }
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
