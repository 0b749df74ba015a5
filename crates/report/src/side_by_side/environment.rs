//! Environments of several runs: facts that are shared, facts that differ, and banners that explain the ratios.

use super::matching::letter;
use crate::{Banner, Report, Run, banner, facts::facts, units};

/// Names of the facts about the machine. Other facts describe the software or the work.
const MACHINE_FACTS: [&str; 7] = [
    "CPU",
    "Cores",
    "Host memory",
    "GPU",
    "GPU memory",
    "GPU UUID",
    "Compute capability",
];
/// Name of the fact about the backend, separate because backends may use different devices of the same machine.
const BACKEND_FACT: &str = "Backend";
/// Names of the facts about the work.
const WORK_FACTS: [&str; 5] = ["Profile", "Data", "Files", "Classes", "While reading"];

/// Environment facts of several runs.
#[derive(Debug, Default)]
pub(super) struct Environments {
    /// Facts that are equal in all runs.
    pub shared: Vec<(&'static str, String)>,
    /// Facts that differ, with one value per run.
    pub differing: Vec<(&'static str, Vec<String>)>,
}

impl Environments {
    pub fn of(reports: &[Report<'_>]) -> Self {
        let all: Vec<_> = reports.iter().map(|report| run_facts(report.run)).collect();
        let mut names: Vec<&'static str> = Vec::new();
        // The run with the most facts, such as one with a GPU, determines the order.
        let mut longest: Vec<_> = all.iter().collect();
        longest.sort_by_key(|facts| std::cmp::Reverse(facts.len()));
        for (name, _) in longest.into_iter().flatten() {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let mut environments = Self::default();
        for name in names {
            let value = |facts: &Vec<(&'static str, String)>| {
                let found = facts.iter().find(|(known, _)| *known == name);
                found.map_or_else(|| units::ABSENT.to_owned(), |(_, text)| text.clone())
            };
            let mut values: Vec<String> = all.iter().map(value).collect();
            if values.windows(2).all(|pair| pair[0] == pair[1]) {
                environments.shared.extend(values.pop().map(|text| (name, text)));
            } else {
                environments.differing.push((name, values));
            }
        }
        environments
    }

    fn differing_names(&self, accepts: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let names = self.differing.iter().map(|(name, _)| *name);
        names.filter(|name| accepts(name)).collect()
    }

    /// Returns the banner about differences between the machines, backends and software.
    fn banner(&self) -> Banner {
        let machine = self.differing_names(|name| MACHINE_FACTS.contains(&name));
        let software =
            self.differing_names(|name| !MACHINE_FACTS.contains(&name) && !WORK_FACTS.contains(&name));
        let named = [machine.clone(), software.clone()].concat().join(", ");
        if !machine.is_empty() {
            let text = format!(
                "They differ in: {named}. Ratios of speed and memory compare whole machines with their software; a slower run is \
                 not a regression."
            );
            Banner::warning("The machines differ.", text)
        } else if software.is_empty() {
            let text = "The machine and the software are the same according to the fingerprints, which do not include other \
                        processes and the temperature of the machine.";
            Banner::note("All runs have the same fingerprint.", text.to_owned())
        } else if software.contains(&BACKEND_FACT) {
            let text = format!(
                "They differ in: {named}. Ratios of speed and memory include the effect of all of them; a slower run is not a \
                 regression."
            );
            Banner::warning("The backends differ.", text)
        } else {
            let text = format!("They differ in: {named}. Ratios include the effect of all of them.");
            Banner::note("The machine is the same, the software differs.", text)
        }
    }
}

fn run_facts(run: &Run) -> Vec<(&'static str, String)> {
    let run_level = [
        (BACKEND_FACT, run.environment.backend.name().to_owned()),
        ("Profile", run.plan.profile.name().to_owned()),
    ];
    run_level.into_iter().chain(facts(run)).collect()
}

/// Returns the banners of a comparison.
pub(super) fn banners(reports: &[Report<'_>], environments: &Environments) -> Vec<Banner> {
    let mut banners = vec![environments.banner()];
    for (index, report) in reports.iter().enumerate() {
        let here = letter(index);
        let same = reports[..index].iter().position(|other| {
            (&other.run.environment, &other.run.records) == (&report.run.environment, &report.run.records)
        });
        if let Some(other) = same {
            let text = "One is a copy of the other, so their agreement is not evidence.".to_owned();
            let title = format!("{} and {here} contain the same records.", letter(other));
            banners.push(Banner::warning(&title, text));
        }
        let fingerprint = &report.run.environment.fingerprint;
        let others = report.run.records.iter();
        let others = others.filter(|record| record.fingerprint != *fingerprint).count();
        if others > 0 {
            let text = format!(
                "{others} of {} records have another fingerprint than their run.",
                report.run.records.len()
            );
            banners.push(Banner::warning(
                &format!("{here} was not recorded in one environment."),
                text,
            ));
        }
    }
    let of_suites = |report: &Report<'_>| {
        let suites = report.suites.iter();
        let banners = suites.flat_map(|suite| banner::of_suite(report.run, &[], &suite.groups));
        banners.collect::<Vec<_>>()
    };
    let all = reports
        .iter()
        .map(|report| [report.banners.clone(), of_suites(report)].concat());
    banners.extend(merge(all.collect()));
    banners
}

/// Merges equal banners of several runs and prefixes each with the letters of its runs.
fn merge(all: Vec<Vec<Banner>>) -> Vec<Banner> {
    let mut merged: Vec<(Banner, String)> = Vec::new();
    for (run, banner) in all
        .into_iter()
        .enumerate()
        .flat_map(|(run, banners)| banners.into_iter().map(move |banner| (run, banner)))
    {
        let here = letter(run);
        match merged.iter_mut().find(|(known, _)| *known == banner) {
            Some((_, letters)) if letters.contains(here) => {}
            Some((_, letters)) => *letters += &format!(", {here}"),
            None => merged.push((banner, here.to_string())),
        }
    }
    let lettered = |(banner, letters): (Banner, String)| Banner {
        title: format!("{letters}: {}", banner.title),
        ..banner
    };
    merged.into_iter().map(lettered).collect()
}
