//! Renders advice for a terminal.

use super::{
    Advice, EstimateRecord, Evidence, FiredRule, WorkAdvice, WorkloadAdvice,
    sentences::{QUALITY_NOT_MEASURED, listed},
};
use crate::{
    Align, Banner, Table,
    setting::{accuracy_change, ratio_text},
    units::{self, Scale},
};

impl Advice {
    /// Renders the advice with its evidence, the gaps and the rules; `draw` renders the tables.
    pub fn text(&self, draw: impl Fn(&Table) -> String) -> String {
        let mut blocks: Vec<String> = vec![format!("{}\n{}", self.run, self.budget)];
        blocks.extend(self.warnings.iter().map(banner));
        for group in &self.workloads {
            blocks.push(format!("{} ({})", group.suite, group.workload));
            blocks.extend(group.warnings.iter().map(banner));
            if group.choices.is_empty() {
                blocks.push("No setting of this workload ran, so no setting is recommended.".to_owned());
            }
            for work in &group.choices {
                let prefix = match work.work.as_str() {
                    "" => String::new(),
                    label => format!("{label}: "),
                };
                blocks.push(format!("{prefix}{}", work.answer.join(" ")));
                blocks.push(draw(&table(group, work)));
                blocks.extend(bullets("Outside the budget", outside_budget(work)));
            }
            blocks.extend(bullets("Not tested", group.untested.clone()));
            blocks.extend(bullets(
                "Best practices supported by these records",
                group.rules.iter().map(rule).collect(),
            ));
        }
        blocks.join("\n\n")
    }
}

fn banner(banner: &Banner) -> String {
    format!("{} {}", banner.title, banner.text)
}

fn bullets(title: &str, lines: Vec<String>) -> Option<String> {
    let lines: Vec<String> = lines.into_iter().map(|line| format!("  - {line}")).collect();
    (!lines.is_empty()).then(|| format!("{title}:\n{}", lines.join("\n")))
}

/// Lists the settings outside the budget with the reasons.
pub(crate) fn outside_budget(work: &WorkAdvice) -> Vec<String> {
    let outside = work.evidence.iter().filter(|one| !one.kept);
    // The headline already reports that the quality was not measured.
    let outside = outside.filter(|one| one.reasons != [QUALITY_NOT_MEASURED]);
    outside
        .map(|one| format!("{}: {}.", one.setting, one.reasons.join("; ")))
        .collect()
}

fn rule(fired: &FiredRule) -> String {
    format!(
        "{} ({})\n    {}\n    Evidence: {}.\n    {}",
        fired.advice,
        fired.rule,
        format_args!("Condition: {}.", fired.when),
        listed(&fired.evidence, "; "),
        fired.sources.join("\n    ")
    )
}

/// Title and alignment of a column, and a function that formats its field for a setting.
type Column<'t> = (String, Align, Box<dyn Fn(&Evidence) -> String + 't>);

/// Returns the table of the evidence for a choice.
pub(crate) fn table(group: &WorkloadAdvice, work: &WorkAdvice) -> Table {
    let columns = columns(group, work);
    let line = |one: &Evidence| columns.iter().map(|(.., field)| field(one)).collect();
    Table {
        title: "Evidence".to_owned(),
        header: columns
            .iter()
            .map(|(title, align, _)| (title.clone(), *align))
            .collect(),
        rows: work.evidence.iter().map(line).collect(),
    }
}

/// Returns the columns of the table, without those that have no values.
fn columns<'t>(group: &'t WorkloadAdvice, work: &'t WorkAdvice) -> Vec<Column<'t>> {
    let number = |title: &str, field: fn(&Evidence) -> Option<String>| -> Option<Column<'t>> {
        let known = work.evidence.iter().any(|one| field(one).is_some());
        let text = move |one: &Evidence| field(one).unwrap_or_else(|| units::ABSENT.to_owned());
        known.then(|| (title.to_owned(), Align::Right, Box::new(text) as _))
    };
    let verdict = |one: &Evidence| verdict(work, one).to_owned();
    let mut columns: Vec<Column<'t>> = vec![
        (
            "setting".to_owned(),
            Align::Left,
            Box::new(|one: &Evidence| one.setting.clone()),
        ),
        ("budget".to_owned(), Align::Left, Box::new(verdict)),
    ];
    if let Some(metric) = group.cost {
        let values = work.evidence.iter().filter_map(|one| one.cost);
        let scale = Scale::of(metric, values.fold(0.0, f64::max));
        let text = move |one: &Evidence| {
            one.cost
                .map_or_else(|| units::ABSENT.to_owned(), |value| scale.text(value))
        };
        let title = metric.name().replace('_', " ");
        columns.push((title, Align::Right, Box::new(text)));
    }
    columns.extend(number("speed", |one| ratio(one, one.speed.as_ref())));
    columns.extend(number("memory", |one| ratio(one, one.memory.as_ref())));
    columns.extend(number("accuracy change, points", |one| {
        one.accuracy_loss.as_ref().map(change)
    }));
    columns.extend(number("largest error", |one| one.error.map(units::scientific)));
    columns.extend(number("perplexity", |one| {
        one.perplexity.map(|ratio| format!("{ratio:.4}×"))
    }));
    columns.extend(number("processes", |one| Some(one.processes.to_string())));
    columns
}

fn verdict(work: &WorkAdvice, one: &Evidence) -> &'static str {
    if work.chosen.as_ref() == Some(&one.setting) && work.shown {
        "recommended"
    } else if [&work.chosen, &work.unjudged].contains(&&Some(one.setting.clone())) {
        "cheapest"
    } else if work.equals.contains(&one.setting) {
        "equally cheap"
    } else if one.kept {
        "within budget"
    } else if one.reasons == [QUALITY_NOT_MEASURED] {
        "quality unknown"
    } else {
        "outside budget"
    }
}

/// Formats a ratio to the baseline; that of the baseline itself is not an estimate.
fn ratio(one: &Evidence, measured: Option<&EstimateRecord>) -> Option<String> {
    let ratio = measured?.estimate();
    Some(match one.baseline {
        true => format!("{} (baseline)", units::times(ratio.value)),
        false => ratio_text(&ratio),
    })
}

/// Formats a change of accuracy without its unit, which is in the column title.
fn change(measured: &EstimateRecord) -> String {
    accuracy_change(&measured.estimate()).replacen(" points", "", 1)
}
