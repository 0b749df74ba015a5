//! Traces every number on the pages of a run to a value that is computed here from the records.

mod facts;
mod invented;
mod places;
mod text;

use std::{collections::BTreeSet, fs};

use mantissa_report::{Budget, Report, Table, advise, render, terminal_overview, terminal_tables};

use self::{
    facts::{Fact, Setting, settings},
    invented::traced_run,
    text::{Number, UNITS, blocks, decoded, numbers, without},
};

/// Texts with numbers that are not measured: levels and thresholds of the methodology, names of formats, and the name of the CPU.
const CONSTANTS: [&str; 18] = [
    "95 %",
    "more than 2 %",
    "within 2 %",
    "within 1 point",
    "more than 1 point",
    "within 0.5 ULP",
    "32-true",
    "16-true",
    "Invented CPU 9000",
    "2026-01-02T03:04:05Z",
    "Outside the budget (1)",
    "synthetic reviews, seed 1",
    "1024×1024",
    "2026-01-02T03-04-05Z-invented",
    "mantissa 0.1.0, burn 0.21.0",
    "2 epochs",
    "first row = 1",
    "100 %",
];

/// Returns the counts that the pages may print, and the values of the axes.
fn counts(report: &Report<'_>, settings: &[Setting]) -> Vec<(String, String, f64)> {
    let mut counts = Vec::new();
    // Advice for several suites counts them.
    for some in 1..=report.suites.len() {
        for noun in ["suites", "repeated"] {
            counts.push((String::new(), noun.to_owned(), some as f64));
        }
    }
    for suite in &report.suites {
        let group = &suite.groups[0];
        let name = &suite.info.name;
        let mut add = |noun: &str, value: usize| counts.push((name.clone(), noun.to_owned(), value as f64));
        let of_suite = settings.iter().filter(|setting| setting.suite == *name).count();
        let seeds: BTreeSet<u64> = group.rows.iter().map(|row| row.cell.seed).collect();
        let sizes: BTreeSet<u32> = group.rows.iter().map(|row| row.cell.setting.size()).collect();
        add("settings", of_suite);
        add("settings", of_suite / sizes.len());
        add("cells", group.rows.len());
        add("seeds", seeds.len());
        add("comparisons", of_suite - sizes.len());
        add("comparison", of_suite - sizes.len());
        add("processes", group.rows[0].records.len());
        add("processes", group.rows[0].records.len() * seeds.len());
        add("test examples", invented::EXAMPLES as usize);
        add("n ", invented::EXAMPLES as usize);
        for seed in seeds {
            add("seed ", seed as usize);
        }
        for size in sizes {
            add("size ", size as usize);
        }
        for row in &group.rows {
            add("batch ", row.cell.setting.batch() as usize);
            add("accumulate ", row.cell.setting.accumulate() as usize);
        }
    }
    counts
}

/// Values of a run with the names that its pages use.
struct Traces {
    settings: Vec<Setting>,
    /// Counts and values of axes, with their suites and with the word after them or, if it ends with a space, before them.
    counts: Vec<(String, String, f64)>,
    /// Number of traced numbers.
    traced: usize,
    /// Failures, with the page and the text around the number.
    untraced: Vec<String>,
}

impl Traces {
    /// Traces every number of a text. The settings that a text names limit the values that it may print.
    fn trace(&mut self, page: &str, suite: Option<&str>, text: &str) {
        // The label after a ratio is that of the baseline, not of the setting.
        let ends = [" as fast as ", " the peak memory of "].map(|end| text.find(end).unwrap_or(text.len()));
        let mut rest = text[..ends[0].min(ends[1])].to_owned();
        let of_suite = |setting: &&Setting| suite.is_none_or(|suite| setting.suite == suite);
        let mut labels: Vec<&String> = self
            .settings
            .iter()
            .filter(of_suite)
            .flat_map(|one| &one.labels)
            .collect();
        labels.sort_by_key(|label| std::cmp::Reverse(label.len()));
        let mut named: Vec<&str> = Vec::new();
        for label in labels {
            if let Some(without) = remove_word(&rest, label) {
                rest = without;
                named.push(label);
            }
        }
        let rest = CONSTANTS
            .iter()
            .fold(rest, |rest, constant| rest.replace(constant, ""));
        if rest.contains('…') {
            // A label may be cut.
            named.clear();
        }
        let is_named = |setting: &&Setting| {
            named.is_empty() || setting.labels.iter().any(|label| named.contains(&label.as_str()))
        };
        let allowed: Vec<&Fact> = self
            .settings
            .iter()
            .filter(of_suite)
            .filter(is_named)
            .flat_map(|setting| &setting.facts)
            .collect();
        let found = numbers(&rest);
        let units: Vec<&str> = found.iter().map(|number| number.unit).collect();
        self.traced += found.len();
        for number in &found {
            let counted = number.is_integer && self.is_count(suite, &rest, number);
            if !counted && !allowed.iter().any(|fact| prints(number, fact, &units)) {
                self.untraced
                    .push(format!("{page}: {number:?} of {named:?} in: {text}"));
            }
        }
    }
}

impl Traces {
    /// Returns `true` if a number counts something in the run or in a suite, or is the value of an axis.
    fn is_count(&self, suite: Option<&str>, text: &str, number: &Number) -> bool {
        let (before, after) = (&text[..number.start], &text[number.end..]);
        let after = after.trim_start();
        let known = self
            .counts
            .iter()
            .filter(|(of, ..)| suite.is_none_or(|suite| of.is_empty() || of == suite));
        let mut known = known.filter(|(.., value)| *value == number.value);
        known.any(|(_, noun, _)| match noun.strip_suffix(' ') {
            Some(_) => before.ends_with(noun.as_str()),
            None => after.starts_with(noun.as_str()),
        })
    }
}

/// Removes every occurrence of a label that is not a part of a longer word.
fn remove_word(text: &str, label: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric();
    let mut kept = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some((before, after)) = rest.split_once(label) {
        let inside = before.ends_with(is_word) || after.starts_with(is_word);
        kept.push_str(before);
        kept.push_str(if inside { label } else { "" });
        (rest, found) = (after, found || !inside);
    }
    found.then(|| kept + rest)
}

/// Returns `true` if a number is a rounded value. A number without a unit may have any unit of its text.
fn prints(number: &Number, fact: &Fact, units: &[&str]) -> bool {
    let matches = |factor: f64| {
        let value = fact.value * factor;
        (value - number.value).abs() <= number.half * (1.0 + 1e-9) + 1e-12 * value.abs()
    };
    let of_unit = |unit: &str| {
        let known = UNITS.iter().find(|(name, ..)| *name == unit);
        known.is_some_and(|(_, dimension, factor)| fact.dimension == *dimension && matches(*factor))
    };
    match number.unit {
        "" => {
            let is_bare = matches!(fact.dimension, "" | "ulp") && matches(1.0);
            let is_share = fact.dimension == "share" && matches(100.0);
            is_bare || is_share || units.iter().any(|unit| of_unit(unit))
        }
        unit => of_unit(unit),
    }
}

/// Returns the text of a page without the parts that contain no measured numbers.
fn measured_part(page: &str) -> String {
    let parts = [
        ("<head>", "</head>"),
        ("<header", "</header>"),
        ("<script", "</script>"),
        ("<code", "</code>"),
        ("<p class=\"question\"", "</p>"),
        ("<div class=\"prose\"", "</div>"),
        ("<details id=\"formats\"", "</details>"),
        ("<details id=\"environment\"", "</details>"),
        ("<footer", "</footer>"),
    ];
    parts
        .iter()
        .fold(page.to_owned(), |page, (start, end)| without(&page, start, end))
}

/// Formats the rows of a table, with their titles.
fn lines(table: &Table) -> Vec<String> {
    let rows = table.rows.iter().map(|row| row.join(" · "));
    rows.collect()
}

#[test]
fn every_number_is_a_value_of_the_records() {
    let run = traced_run();
    let report = Report::new(&run).unwrap();
    let folder = tempfile::tempdir().unwrap();
    render(&run, folder.path()).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let suites: Vec<String> = report
        .suites
        .iter()
        .map(|suite| suite.info.name.clone())
        .collect();
    let mut traces = Traces {
        settings: settings(&report),
        counts: counts(&report, &settings(&report)),
        traced: 0,
        untraced: vec![],
    };
    for block in blocks(&measured_part(&read("index.html"))) {
        traces.trace("index.html", None, &block);
    }
    for suite in &suites {
        let name = format!("suites/{suite}.html");
        for block in blocks(&measured_part(&read(&name))) {
            traces.trace(&name, Some(suite), &block);
        }
    }
    let mut suite = None;
    for line in decoded(&read("summary.md")).lines() {
        suite = suites
            .iter()
            .find(|suite| line == format!("## Suite {suite}"))
            .or(suite);
        traces.trace(
            "summary.md",
            suite.map(String::as_str),
            &line.replace(" | ", " · ").replace("2026-01-02T03:04:05Z", ""),
        );
    }
    // Continued lines are indented.
    for line in terminal_overview(&report, 120)
        .replace("\n  ", " ")
        .lines()
        .skip(1)
    {
        traces.trace("the overview in a terminal", None, line);
    }
    for table in terminal_tables(&report) {
        let suite = suites
            .iter()
            .find(|suite| table.title.contains(&format!("Suite {suite}")));
        for line in lines(&table) {
            traces.trace("a table in a terminal", suite.map(String::as_str), &line);
        }
    }
    let text = advise(&report, &Budget::default()).text(|table| lines(table).join("\n"));
    let mut suite = None;
    // Sources and lists of settings that did not run are not measured.
    let is_measured = |line: &&str| !line.contains("https://") && !line.contains(" arithmetic settings: ");
    for line in text.lines().skip(2).filter(is_measured) {
        suite = suites
            .iter()
            .find(|suite| line.starts_with(&format!("{suite} (")))
            .or(suite);
        traces.trace("advise", suite.map(String::as_str), line);
    }
    assert!(traces.traced > 1_000, "{}", traces.traced);
    assert!(
        traces.untraced.is_empty(),
        "{} untraced numbers:\n{}",
        traces.untraced.len(),
        traces.untraced.join("\n")
    );
}

#[test]
fn values_of_a_setting_have_different_digits() {
    let run = traced_run();
    for setting in settings(&Report::new(&run).unwrap()) {
        // Other facts are ratios and ends of intervals.
        let values: Vec<&Fact> = setting
            .facts
            .iter()
            .filter(|fact| !fact.what.contains(','))
            .collect();
        for (index, fact) in values.iter().enumerate() {
            for other in values[..index]
                .iter()
                .filter(|other| other.dimension == fact.dimension)
            {
                let size = fact.value.abs().max(other.value.abs());
                let differ = (fact.value - other.value).abs() > 0.005 * size;
                assert!(differ, "{fact:?} and {other:?} of {:?}", setting.labels);
            }
        }
    }
}
