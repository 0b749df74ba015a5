//! Overview as text for a terminal.

use super::{
    Overview,
    matrix::{DIFFERS, Matrix},
    skipped::SkippedSuites,
    suite_answer::{Certainty, Effect, SuiteAnswer},
};
use crate::{
    Align, Report,
    banner::origin,
    more_repeats::more_repeats,
    terminal::{shorten, strip_control},
};

/// Maximum number of lines: 40 with the path of the page, which the caller prints.
const MAX_LINES: usize = 39;
/// Maximum number of suites, if the matrix needs the remaining lines.
const MAX_SUITES: usize = 16;
/// Maximum number of lines of a sentence.
const MAX_WRAPPED: usize = 3;
/// Maximum number of lines about skipped suites.
const MAX_SKIPPED: usize = 3;
/// Maximum width, beyond which lines are hard to read.
const MAX_WIDTH: usize = 120;
/// Number of spaces between columns.
const GAP: usize = 2;

/// Renders the overview of a report in at most 39 lines of at most `width` characters.
pub fn terminal_overview(report: &Report<'_>, width: usize) -> String {
    let overview = Overview::new(report);
    let width = width.min(MAX_WIDTH);
    let mut head = vec![format!("{}: {}", report.run.name, origin(report.run))];
    head.extend(warning_titles(report, &overview));
    let advice = overview.advice.iter();
    head.extend(advice.map(|advice| format!("{} ({}): {}", advice.task, advice.certainty, advice.text)));
    let skipped = skipped_lines(&overview);
    let notes = overview.matrix.as_ref().map(matrix_notes).unwrap_or_default();
    let decide = more_repeats(report, &report.suites.iter().collect::<Vec<_>>());
    let decide = decide.and_then(|more| Some([more.brief?, more.command]));
    let decide: Vec<String> = decide.into_iter().flatten().collect();
    let [head, skipped, notes] = [head, skipped, notes].map(|lines| wrapped(&lines, width));
    // Two blank lines, two headings, two lines about omitted rows, and the hint.
    let used = head.len() + skipped.len() + notes.len() + decide.len() + 7;
    let room = MAX_LINES.saturating_sub(used);
    let settings = overview.matrix.as_ref().map_or(0, |matrix| matrix.rows.len());
    let suites = room
        .saturating_sub(settings)
        .clamp(room / 2, MAX_SUITES.max(room / 2));
    let suite_lines = suite_lines(&overview, suites, width);
    let matrix = overview.matrix.as_ref();
    let matrix_lines = matrix.map(|matrix| matrix_lines(matrix, room.saturating_sub(suites)));
    let blank = || vec![String::new()];
    let blocks = [head, blank(), suite_lines, skipped];
    let matrix = matrix_lines.map(|lines| [blank(), lines, notes]);
    let lines = blocks.into_iter().chain(matrix.into_iter().flatten()).flatten();
    let lines = lines
        .chain(decide)
        .chain(["`--tables` prints all tables.".to_owned()]);
    let lines = lines.map(|line| shorten(&strip_control(&line), width));
    lines.collect::<Vec<_>>().join("\n")
}

/// Breaks lines between words into at most [`MAX_WRAPPED`] lines of `width` characters, of which all but the first are indented.
fn wrapped(lines: &[String], width: usize) -> Vec<String> {
    const INDENT: &str = "  ";
    let mut broken = Vec::new();
    for line in lines {
        let mut parts = vec![String::new()];
        for word in line.split(' ') {
            let count = parts.len();
            let last = &mut parts[count - 1];
            let length = last.chars().count() + 1 + word.chars().count();
            if last.is_empty() {
                last.push_str(word);
            } else if length <= width || count == MAX_WRAPPED {
                last.push(' ');
                last.push_str(word);
            } else {
                parts.push(format!("{INDENT}{word}"));
            }
        }
        broken.extend(parts);
    }
    broken
}

/// Lists the titles of all warnings in one line.
fn warning_titles(report: &Report<'_>, overview: &Overview) -> Option<String> {
    let of_run = report.banners.iter().filter(|banner| banner.level == "warning");
    let of_run = of_run.map(|banner| banner.title.clone());
    let titles: Vec<String> = of_run.chain(overview.warning_texts()).collect();
    (!titles.is_empty()).then(|| titles.join(" "))
}

/// Returns the heading and at most `room` suites.
fn suite_lines(overview: &Overview, room: usize, width: usize) -> Vec<String> {
    /// Maximum width of the name of a suite.
    const MAX_NAME: usize = 18;
    /// Minimum width of an effect: a ratio with its interval.
    const MIN_EFFECT: usize = 17;
    let shown = &overview.suites[..overview.suites.len().min(room)];
    let row = |suite: &SuiteAnswer| {
        [
            shorten(&suite.name, MAX_NAME),
            suite.short.clone(),
            suite.effect.as_ref().map(effect_text).unwrap_or_default(),
            match suite.certainty {
                Certainty::Repeated => "repeated",
                Certainty::Once => "once",
                Certainty::NotMeasured => "none",
            }
            .to_owned(),
        ]
    };
    let titles = ["suite", "result", "speed", "measured"].map(str::to_owned);
    let mut rows: Vec<[String; 4]> = std::iter::once(titles).chain(shown.iter().map(row)).collect();
    let longest = |rows: &[[String; 4]], column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let room = width.saturating_sub(longest(&rows, 0) + longest(&rows, 3) + 3 * GAP);
    let effect = longest(&rows, 2).min((room * 2 / 5).max(MIN_EFFECT));
    for row in &mut rows {
        row[1] = shorten(&row[1], room.saturating_sub(effect));
        row[2] = shorten(&row[2], effect);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    let mut lines = aligned(&rows, &[Align::Left; 4]);
    if shown.len() < overview.suites.len() {
        let more = overview.suites.len() - shown.len();
        lines.push(format!("{more} more suites are in the page."));
    }
    lines
}

/// Formats the speed and, unless the result names it, the setting.
fn effect_text(effect: &Effect) -> String {
    let text = format!("{} {}", effect.speed_text(), effect.setting);
    text.trim_end().to_owned()
}

fn skipped_lines(overview: &Overview) -> Vec<String> {
    let line = |group: &SkippedSuites| {
        let names: Vec<&str> = group.suites.iter().map(|(_, name)| name.as_str()).collect();
        format!("skipped: {} ({})", names.join(", "), group.needs)
    };
    overview.skipped.iter().take(MAX_SKIPPED).map(line).collect()
}

/// Returns the heading and at most `room` settings.
fn matrix_lines(matrix: &Matrix, room: usize) -> Vec<String> {
    let titles = matrix.columns.iter().map(|column| column.short_title.to_owned());
    let heading: Vec<String> = std::iter::once("setting".to_owned()).chain(titles).collect();
    let rows = matrix.rows.iter().take(room).map(|(setting, fields)| {
        let fields = fields.iter().map(|field| {
            let mark = if field.differs { DIFFERS } else { "" };
            format!("{}{mark}", field.short)
        });
        std::iter::once(setting.clone()).chain(fields).collect()
    });
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let mut sides = vec![Align::Right; rows[0].len()];
    sides[0] = Align::Left;
    let mut lines = aligned(&rows, &sides);
    if room < matrix.rows.len() {
        lines.push(format!(
            "{} more settings are in the page.",
            matrix.rows.len() - room
        ));
    }
    lines
}

/// Names the columns of each workload and the values that ratios refer to.
fn matrix_notes(matrix: &Matrix) -> Vec<String> {
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for column in &matrix.columns {
        let text = match &column.baseline {
            Some(value) => format!("{} (baseline {value})", column.short_title),
            None => column.short_title.to_owned(),
        };
        match sources.iter_mut().find(|(known, _)| *known == column.source) {
            Some((_, texts)) => texts.push(text),
            None => sources.push((&column.source, vec![text])),
        }
    }
    let notes = sources
        .iter()
        .map(|(source, texts)| format!("{source}: {}", texts.join(", ")));
    let mark = "† another precision was executed than requested";
    let mark = matrix.has_mark().then(|| mark.to_owned());
    notes.chain(mark).collect()
}

/// Pads the fields of rows to columns.
fn aligned(rows: &[Vec<String>], sides: &[Align]) -> Vec<String> {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..sides.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let fields = row.iter().zip(sides).zip(&widths);
        let fields = fields.map(|((text, side), width)| match side {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        });
        let line = fields.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
