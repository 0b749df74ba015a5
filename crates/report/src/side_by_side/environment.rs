//! Environments of several runs: which facts are shared, which differ, and how a difference affects the ratios.

use super::matching::letter;
use crate::{Banner, Report, Run, banner, facts::facts, units};

/// Facts about the machine; the others describe the software and the work.
const MACHINE: [&str; 7] = [
    "CPU",
    "Cores",
    "Host memory",
    "GPU",
    "GPU memory",
    "GPU UUID",
    "Compute capability",
];
/// Backend that executed the work. It may use another device of the same machine.
const BACKEND: &str = "Backend";
/// Facts about the work, as opposed to machine and software.
const WORK: [&str; 5] = ["Profile", "Data", "Files", "Classes", "While reading"];

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
        let all: Vec<_> = reports.iter().map(|report| of_run(report.run)).collect();
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

    fn differing_of(&self, is_of: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let names = self.differing.iter().map(|(name, _)| *name);
        names.filter(|name| is_of(name)).collect()
    }

    /// Returns the banner about differences between the machines.
    fn banner(&self) -> Banner {
        let machine = self.differing_of(|name| MACHINE.contains(&name));
        let software = self.differing_of(|name| !MACHINE.contains(&name) && !WORK.contains(&name));
        let named = [machine.clone(), software.clone()].concat().join(", ");
        if !machine.is_empty() {
            let text = format!(
                "They differ in: {named}. A ratio of speed or memory tells of machines with everything that runs on them; \
                 that a run is slower is no regression."
            );
            Banner::warning("The machines differ.", text)
        } else if software.is_empty() {
            let text = "Machine and software are the same, as far as the records tell. What else ran beside them, and how warm \
                        the machine was, they do not.";
            Banner::note("The same fingerprint in all runs.", text.to_owned())
        } else if software.contains(&BACKEND) {
            let text = format!(
                "They differ in: {named}. A ratio of speed or memory tells of all of these together; that a run is slower is no \
                 regression."
            );
            Banner::warning("The backends differ.", text)
        } else {
            let text = format!("They differ in: {named}. A ratio includes the effect of all of them.");
            Banner::note("The same machine, with other software.", text)
        }
    }
}

fn of_run(run: &Run) -> Vec<(&'static str, String)> {
    let own = [
        (BACKEND, run.environment.backend.name().to_owned()),
        ("Profile", run.plan.profile.name().to_owned()),
    ];
    own.into_iter().chain(facts(run)).collect()
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
            let text = "One is a copy of the other: their agreement is not evidence.".to_owned();
            let title = format!("{} and {here} hold the same records.", letter(other));
            banners.push(Banner::warning(&title, text));
        }
        let own = &report.run.environment.fingerprint;
        let elsewhere = report.run.records.iter();
        let elsewhere = elsewhere.filter(|record| record.fingerprint != *own).count();
        if elsewhere > 0 {
            let text = format!(
                "{elsewhere} of {} records have another fingerprint than their run.",
                report.run.records.len()
            );
            banners.push(Banner::warning(
                &format!("{here} was not made in one place."),
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
    banners.extend(together(all.collect()));
    banners
}

/// Merges equal banners of several runs and prefixes each with the letters of its runs.
fn together(all: Vec<Vec<Banner>>) -> Vec<Banner> {
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
