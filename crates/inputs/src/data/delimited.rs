//! Reads delimited text (TSV, CSV), plain or gzipped: with a header line that names the columns, or with the label in the first column and the
//! text in the last.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::Path,
    sync::Arc,
};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::{
    DataError, LineProblem,
    examples::{Part, Row},
    source::utf8,
};
use crate::contents::most_unpacked;

/// Column names and JSON keys of the label, in lower case and in order of preference.
pub(super) const LABEL_COLUMNS: [&str; 10] = [
    "label",
    "sentiment",
    "labels",
    "class",
    "class index",
    "category",
    "polarity",
    "target",
    "stars",
    "v1",
];
/// Column names and JSON keys of the text, in lower case and in order of preference.
pub(super) const TEXT_COLUMNS: [&str; 11] = [
    "text",
    "sentence",
    "review",
    "content",
    "tweet",
    "message",
    "comment",
    "body",
    "description",
    "document",
    "v2",
];

/// Column names and JSON keys of a second text, in lower case: a row with one is a pair of texts.
const PAIR_COLUMNS: [&str; 7] = [
    "text_pair",
    "text_b",
    "text2",
    "sentence2",
    "sentence_b",
    "question2",
    "hypothesis",
];

/// Column names from the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnNames {
    /// Column of the label: a name in the header line, a JSON key, or a column number from 1.
    pub label: Option<String>,
    /// Column of the text, in the same notation.
    pub text: Option<String>,
}

/// Separator and quoting of a delimited file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    separator: u8,
    /// Fields may be quoted (RFC 4180); otherwise quotes are literal.
    quotes: bool,
}

/// Number of records read to detect the dialect and the columns.
const SAMPLE: usize = 200;

impl Dialect {
    const TABS: Self = Self {
        separator: b'\t',
        quotes: false,
    };

    const fn quoted(separator: u8) -> Self {
        Self {
            separator,
            quotes: true,
        }
    }

    /// Detects the dialect of a text. Returns `None` for running text: the name does not end in `.tsv` or `.csv`, and
    /// the first lines are neither a tab-separated header nor labels followed by a tab.
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let [comma, semicolon, pipe] = [b',', b';', b'|'].map(Self::quoted);
        let quoted_tabs = Self::quoted(b'\t');
        let candidates = if name.ends_with(".tsv") {
            // Quotes are literal in most tab-separated files, but not if every text is quoted. The first record may be a header.
            let sample = Self::TABS.sample(text);
            let doubled = text.lines().flat_map(|line| line.split('\t')).any(is_doubled);
            let texts = if sample.len() > 1 {
                &sample[1..]
            } else {
                &sample[..]
            };
            let all_quoted = texts.iter().all(|fields| ends_in_quotes(fields));
            let tabs = if all_quoted || doubled {
                quoted_tabs
            } else {
                Self::TABS
            };
            vec![tabs, comma, semicolon, pipe]
        } else if name.ends_with(".csv") {
            vec![comma, semicolon, quoted_tabs, pipe]
        } else {
            let sample = Self::TABS.sample(text);
            if has_header(&sample) || are_labelled(&sample) {
                return Some(Self::TABS);
            }
            let mut others = [comma, semicolon].into_iter();
            return others.find(|dialect| has_header(&dialect.sample(text)));
        };
        let samples = candidates.iter().map(|dialect| (*dialect, dialect.sample(text)));
        let samples: Vec<_> = samples.collect();
        let fits = |with: fn(&[Vec<String>]) -> bool| samples.iter().find(|(_, sample)| with(sample));
        let found = fits(has_header).or_else(|| fits(are_even)).or(samples.first());
        found.map(|(dialect, _)| *dialect)
    }

    /// Returns the text that represents the dialect in the hash of a data set. It must not change, because records of earlier versions have the hash.
    pub fn identity(self, gzip: bool) -> String {
        match self {
            _ if self == Self::TABS => format!("Format {{ comma: false, gzip: {gzip} }}"),
            _ if self == Self::quoted(b',') => format!("Format {{ comma: true, gzip: {gzip} }}"),
            other => format!("{other:?}, gzip: {gzip}"),
        }
    }

    /// Reads the first records of a text.
    fn sample(self, text: &str) -> Vec<Vec<String>> {
        let owned = |fields: &mut dyn Iterator<Item = &str>| fields.map(str::to_owned).collect();
        if !self.quotes {
            let lines = text.lines().filter(|line| !line.is_empty()).take(SAMPLE);
            return lines
                .map(|line| owned(&mut line.split(char::from(self.separator))))
                .collect();
        }
        let records = self.reader(text.as_bytes()).into_records().take(SAMPLE);
        records
            .map_while(Result::ok)
            .map(|record| owned(&mut record.iter()))
            .collect()
    }

    fn reader<R: Read>(self, text: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .delimiter(self.separator)
            .has_headers(false)
            .flexible(true)
            .from_reader(text)
    }
}

/// Returns true for a quoted field with a doubled quote inside, which only occurs in CSV.
fn is_doubled(field: &str) -> bool {
    let inner = field
        .trim_end_matches('\r')
        .strip_prefix('"')
        .and_then(|field| field.strip_suffix('"'));
    inner.is_some_and(|inner| inner.contains("\"\"") && !inner.replace("\"\"", "").contains('"'))
}

/// Returns true if the names are equal, ignoring case and order.
fn same_names(fields: &[&str], header: &[String]) -> bool {
    let normal = |name: &str| name.trim().to_lowercase();
    let (mut fields, mut header): (Vec<_>, Vec<_>) = (
        fields.iter().map(|field| normal(field)).collect(),
        header.iter().map(|field| normal(field)).collect(),
    );
    fields.sort();
    header.sort();
    fields == header
}

/// Returns true if the last field of a record is quoted.
fn ends_in_quotes(fields: &[String]) -> bool {
    let last = fields.last().map_or("", |field| field.trim());
    last.len() >= 2 && last.starts_with('"') && last.ends_with('"')
}

/// Returns true if the first record names a label column and a text column.
fn has_header(sample: &[Vec<String>]) -> bool {
    let first = sample.first().map(Vec::as_slice).unwrap_or_default();
    named(first, &LABEL_COLUMNS).is_some() && named(first, &TEXT_COLUMNS).is_some()
}

/// Returns true if all records have the same number of fields, at least two.
fn are_even(sample: &[Vec<String>]) -> bool {
    let count = sample.first().map_or(0, Vec::len);
    count >= 2 && sample.iter().all(|fields| fields.len() == count)
}

/// Returns true if the first field of every record looks like a label: not empty, short, and repeated in other records.
fn are_labelled(sample: &[Vec<String>]) -> bool {
    /// Minimum number of rows. Fewer may be running text that happens to contain tabs.
    const FEWEST: usize = 4;
    let labels: BTreeMap<&str, usize> = counts(sample, 0);
    are_even(sample)
        && sample.len() >= FEWEST
        && labels.len() * 2 <= sample.len()
        && labels
            .keys()
            .all(|label| !label.trim().is_empty() && label.len() <= 64)
}

/// Counts the occurrences of each value in a column.
fn counts(sample: &[Vec<String>], column: usize) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for value in sample.iter().filter_map(|fields| fields.get(column)) {
        *counts.entry(value.as_str()).or_default() += 1;
    }
    counts
}

/// Returns the column of the first of `names` that occurs in the header line, ignoring case.
fn named<S: AsRef<str>>(header: &[S], names: &[&str]) -> Option<usize> {
    let is = |field: &S, name: &str| field.as_ref().trim().eq_ignore_ascii_case(name);
    names
        .iter()
        .find_map(|name| header.iter().position(|field| is(field, name)))
}

/// Rejects a header in which several columns may be the label or the text. The first of `names`, `label` or `text`, takes precedence over all
/// others.
pub(super) fn only_one<'a>(
    what: &'static str,
    header: impl Iterator<Item = &'a str>,
    names: &[&str],
) -> Result<(), LineProblem> {
    let is_one_of =
        |field: &str, names: &[&str]| names.iter().any(|name| field.trim().eq_ignore_ascii_case(name));
    let pairs: &[&str] = if what == "text" { &PAIR_COLUMNS } else { &[] };
    let candidates: Vec<&str> = header
        .filter(|field| is_one_of(field, names) || is_one_of(field, pairs))
        .collect();
    let is_pair = candidates.iter().any(|field| is_one_of(field, pairs));
    let first_wins = !is_pair && candidates.iter().any(|field| is_one_of(field, &names[..1]));
    match candidates.len() {
        0 | 1 => Ok(()),
        _ if first_wins => Ok(()),
        _ => Err(LineProblem::SeveralColumns {
            what,
            columns: candidates
                .into_iter()
                .map(|name| name.trim().to_owned())
                .collect(),
        }),
    }
}

/// Returns every row of a file, and a description of its unused columns, if there are any.
pub(super) fn rows(
    part: Part,
    (dialect, gzip): (Dialect, bool),
    columns: &ColumnNames,
    bytes: &[u8],
    file: &Path,
) -> Result<(Vec<Row>, Option<String>), DataError> {
    let unpacked;
    let bytes = if gzip {
        unpacked = unpack(bytes, file)?;
        &unpacked
    } else {
        bytes
    };
    let text = &*with_line_feeds(utf8(bytes, file)?);
    let doubled;
    let text = match dialect.quotes {
        true => {
            doubled = with_doubled_quotes(text, dialect.separator);
            &*doubled
        }
        false => text,
    };
    let mut reader = Reader {
        part,
        file: file.into(),
        names: columns,
        sample: dialect.sample(text),
        columns: None,
        header: vec![],
        unused: None,
        rows: vec![],
    };
    if dialect.quotes {
        reader.quoted(text, dialect)?
    } else {
        reader.plain(text, dialect)?
    }
    if reader.rows.is_empty() {
        return Err(LineProblem::NoRows.at(file, 1));
    }
    Ok((reader.rows, reader.unused))
}

/// Replaces carriage returns by line feeds in a text without line feeds, as written by old systems.
pub(super) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    match text.contains('\r') && !text.contains('\n') {
        true => text.replace('\r', "\n").into(),
        false => text.into(),
    }
}

/// Unpacks a gzipped file.
pub(super) fn unpack(bytes: &[u8], file: &Path) -> Result<Vec<u8>, DataError> {
    let mut unpacked = vec![];
    let most = most_unpacked(bytes.len() as u64);
    let read = MultiGzDecoder::new(bytes)
        .take(most + 1)
        .read_to_end(&mut unpacked);
    let at_end = |problem: LineProblem, unpacked: &[u8]| {
        let whole_lines = unpacked.iter().filter(|&&byte| byte == b'\n').count();
        problem.at(file, whole_lines as u64 + 1)
    };
    if let Err(error) = read {
        return Err(at_end(LineProblem::Compression(error.to_string()), &unpacked));
    }
    if unpacked.len() as u64 > most {
        return Err(at_end(LineProblem::Expansion { most }, &unpacked));
    }
    Ok(unpacked)
}

/// Positions of the label and the text in a row.
#[derive(Debug, PartialEq)]
struct Columns {
    label: usize,
    /// Columns whose fields are joined with spaces.
    text: Vec<usize>,
    count: usize,
}

impl Columns {
    /// Returns the name of the label or text column if another column has the same name.
    fn ambiguous(&self, names: &[&str]) -> Option<String> {
        let read = self.text.iter().chain([&self.label]);
        let mut names = read.map(|column| names[*column].trim()).filter(|name| {
            names
                .iter()
                .filter(|other| other.trim().eq_ignore_ascii_case(name))
                .count()
                > 1
        });
        names.next().map(str::to_owned)
    }

    /// Describes the unused columns, by their names in `header` or by their numbers.
    fn unused(&self, header: Option<&[&str]>, file: &Path) -> Option<String> {
        let others = (0..self.count).filter(|column| *column != self.label && !self.text.contains(column));
        let names: Vec<String> = others
            .map(|column| {
                match header
                    .map(|names| names[column].trim())
                    .filter(|name| !name.is_empty())
                {
                    Some(name) => format!("`{name}`"),
                    None => (column + 1).to_string(),
                }
            })
            .collect();
        skipped_columns(file, names)
    }
}

/// Describes the unused columns of a file.
pub(super) fn skipped_columns(file: &Path, names: Vec<String>) -> Option<String> {
    /// Maximum number of names listed.
    const LISTED: usize = 12;
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("unused columns of `{file}`: {listed}{more}"))
}

struct Reader<'a> {
    part: Part,
    file: Arc<Path>,
    names: &'a ColumnNames,
    sample: Vec<Vec<String>>,
    columns: Option<Columns>,
    /// Column names of the header line, or empty without one.
    header: Vec<String>,
    unused: Option<String>,
    rows: Vec<Row>,
}

impl Reader<'_> {
    fn plain(&mut self, text: &str, dialect: Dialect) -> Result<(), DataError> {
        let separator = char::from(dialect.separator);
        let lines = text.trim_end_matches(['\r', '\n']).split('\n').zip(1..);
        let lines = lines.map(|(line, number)| (line.strip_suffix('\r').unwrap_or(line), number));
        // Skip empty lines before the first row.
        for (line, number) in lines.skip_while(|(line, _)| line.is_empty()) {
            if line.contains("\"\"") && line.split(separator).any(is_doubled) {
                return Err(LineProblem::Quoted.at(&self.file, number));
            }
            self.record(&line.split(separator).collect::<Vec<_>>(), number)?;
        }
        Ok(())
    }

    fn quoted(&mut self, text: &str, dialect: Dialect) -> Result<(), DataError> {
        // The CSV reader does not report a quote that is never closed: it reads the rest of the file as one field. To detect this, append a record
        // to the file and check that it is the last one returned.
        const END: &str = "\nend of the file";
        if let Some(line) = quote_in_quotes(text, dialect.separator) {
            return Err(LineProblem::QuoteInQuotes.at(&self.file, line));
        }
        let mut csv = dialect.reader(text.as_bytes().chain(END.as_bytes()));
        let mut records = csv.records().peekable();
        while let Some(record) = records.next() {
            let record = record.map_err(|error| LineProblem::Csv(error.to_string()).at(&self.file, 1))?;
            let line = record.position().map_or(1, |position| line_of(text, position));
            let fields: Vec<&str> = record.iter().collect();
            if records.peek().is_some() {
                self.record(&fields, line)?;
            } else if fields != [END.trim_start()] {
                return Err(LineProblem::OpenQuote.at(&self.file, line));
            }
        }
        Ok(())
    }

    /// Adds a record. The first one determines the columns.
    fn record(&mut self, fields: &[&str], line: u64) -> Result<(), DataError> {
        if self.columns.is_none() {
            let (columns, is_header) =
                columns(fields, &self.sample, self.names).map_err(|problem| problem.at(&self.file, line))?;
            let header = is_header.then_some(fields);
            if let Some(name) = header.and_then(|names| columns.ambiguous(names)) {
                return Err(LineProblem::Ambiguous(name).at(&self.file, line));
            }
            self.unused = columns.unused(header, &self.file);
            self.columns = Some(columns);
            if is_header {
                self.header = fields.iter().map(|field| (*field).to_owned()).collect();
                return Ok(());
            }
        }
        if !self.header.is_empty() && fields.len() == self.header.len() && same_names(fields, &self.header) {
            return Err(LineProblem::HeaderAgain.at(&self.file, line));
        }
        let columns = self.columns.as_ref().expect("the first record sets the columns");
        if fields.len() != columns.count {
            let problem = LineProblem::Columns {
                found: fields.len(),
                expected: columns.count,
            };
            return Err(problem.at(&self.file, line));
        }
        let text = match columns.text[..] {
            [text] => fields[text].to_owned(),
            _ => columns
                .text
                .iter()
                .map(|text| fields[*text])
                .collect::<Vec<_>>()
                .join(" "),
        };
        self.rows.push(Row::new(
            self.part,
            fields[columns.label],
            &text,
            &self.file,
            line,
        )?);
        Ok(())
    }
}

/// Doubles quotes that are escaped by a backslash, as Spark and MySQL write them, if the file has such quotes.
fn with_doubled_quotes(text: &str, separator: u8) -> Cow<'_, str> {
    if text.contains("\\\"") && quote_in_quotes(text, separator).is_some() {
        let doubled = doubled_quotes(text, separator);
        if quote_in_quotes(&doubled, separator).is_none() {
            return doubled.into();
        }
    }
    text.into()
}

/// Replaces `\"` by `""` in quoted fields.
fn doubled_quotes(text: &str, separator: u8) -> String {
    let (mut doubled, mut quoted, mut begins) = (String::with_capacity(text.len()), false, true);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match (quoted, letter, next) {
            (true, '\\', Some('"')) => {
                doubled.push_str("\"\"");
                letters.next();
            }
            (true, '\\', Some('\\')) => {
                doubled.push_str("\\\\");
                letters.next();
            }
            (true, '"', _) => {
                quoted = false;
                doubled.push(letter);
            }
            (false, '"', _) if begins => {
                quoted = true;
                doubled.push(letter);
            }
            _ => doubled.push(letter),
        }
        begins = !quoted && (letter == char::from(separator) || matches!(letter, '\r' | '\n'));
    }
    doubled
}

/// Returns the line of a quoted field that continues after its closing quote. The CSV reader would append the rest to the field.
fn quote_in_quotes(text: &str, separator: u8) -> Option<u64> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut begins) = (0, 1, true);
    while at < bytes.len() {
        if begins && bytes[at] == b'"' {
            let first_line = line;
            at += 1;
            loop {
                match bytes.get(at) {
                    // A field without a closing quote is reported as another error.
                    None => return None,
                    Some(b'"') if bytes.get(at + 1) == Some(&b'"') => at += 2,
                    Some(b'"') => break,
                    Some(byte) => {
                        line += u64::from(*byte == b'\n');
                        at += 1;
                    }
                }
            }
            at += 1;
            // Spaces and tabs after the quote belong to the field.
            while bytes
                .get(at)
                .is_some_and(|byte| matches!(byte, b' ' | b'\t') && *byte != separator)
            {
                at += 1;
            }
            match bytes.get(at) {
                None | Some(b'\r' | b'\n') => {}
                Some(byte) if *byte == separator => {}
                Some(_) => return Some(first_line),
            }
            begins = false;
            continue;
        }
        begins = bytes[at] == separator || matches!(bytes[at], b'\r' | b'\n');
        line += u64::from(bytes[at] == b'\n');
        at += 1;
    }
    None
}

/// Returns the line in which a record starts. The position reported by the CSV reader is before the line ends that it skips.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let remaining = text
        .as_bytes()
        .get(position.byte() as usize..)
        .unwrap_or_default();
    let skipped = remaining.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + skipped.filter(|&&byte| byte == b'\n').count() as u64
}

/// Detects the columns from the first record, which is also the first of `sample`. The flag is true if the record is a
/// header.
fn columns(
    first: &[&str],
    sample: &[Vec<String>],
    names: &ColumnNames,
) -> Result<(Columns, bool), LineProblem> {
    let count = first.len();
    let missing = |what| LineProblem::MissingColumn {
        what,
        columns: first.iter().map(|field| field.trim().to_owned()).collect(),
    };
    let given_column = |name: &Option<String>, what| match name {
        None => Ok(None),
        Some(name) => match (named(first, &[name]), name.parse::<usize>()) {
            (Some(column), _) => Ok(Some((column, true))),
            (None, Ok(number)) if (1..=count).contains(&number) => Ok(Some((number - 1, false))),
            _ => Err(missing(what)),
        },
    };
    let (label, text) = (
        given_column(&names.label, "label")?,
        given_column(&names.text, "text")?,
    );
    if let (Some((label, by_name)), Some((text, also_by_name))) = (label, text) {
        let is_header = by_name || also_by_name || is_header(sample, label)?;
        let text = vec![text];
        return Ok((Columns { label, text, count }, is_header));
    }
    let known_label = label
        .map(|(column, _)| column)
        .or_else(|| named(first, &LABEL_COLUMNS));
    let known_text = text
        .map(|(column, _)| column)
        .or_else(|| named(first, &TEXT_COLUMNS));
    if known_label.is_some() && known_text.is_some() {
        let fields = || first.iter().copied();
        if label.is_none() {
            only_one("label", fields(), &LABEL_COLUMNS)?;
        }
        if text.is_none() {
            only_one("text", fields(), &TEXT_COLUMNS)?;
        }
    }
    match (known_label, known_text) {
        (Some(label), Some(text)) => {
            // AG News stores the headline in a separate column.
            let title = named(first, &["title"]).filter(|_| named(first, &["description"]) == Some(text));
            let text = title.into_iter().chain([text]).collect();
            Ok((Columns { label, text, count }, true))
        }
        (Some(column), None) if label.is_none() || begins_with_header(sample, column) => Err(missing("text")),
        (None, Some(_)) if text.is_none() && !first.iter().any(|field| is_number(field)) => {
            Err(missing("label"))
        }
        (None, Some(_)) if text.is_some_and(|(_, by_name)| by_name) => Err(missing("label")),
        _ if count < 2 => Err(missing("text")),
        // One of the columns is given by its number, and there is no header.
        _ if label.is_some() || text.is_some() => {
            let given = label.or(text).map_or(0, |(column, _)| column);
            let mut others = (0..count).filter(|column| *column != given);
            let other = match label {
                Some(_) => others.next_back(),
                None => others.next(),
            };
            let other = other.expect("there are at least two columns");
            let (label, text) = if label.is_some() {
                (given, other)
            } else {
                (other, given)
            };
            Ok((
                Columns {
                    label,
                    text: vec![text],
                    count,
                },
                false,
            ))
        }
        _ if begins_with_header(sample, 0) || looks_like_header(sample, 0) => Err(missing("label")),
        _ => Ok((
            Columns {
                label: 0,
                text: vec![count - 1],
                count,
            },
            false,
        )),
    }
}

/// Returns true if the first record is a header: its label field is not a number and not a label of any other record,
/// and the other labels are all numbers or all occur at least twice.
fn begins_with_header(sample: &[Vec<String>], label: usize) -> bool {
    let [first, others @ ..] = sample else {
        return false;
    };
    let (Some(name), false) = (first.get(label), others.is_empty()) else {
        return false;
    };
    let labels = counts(others, label);
    if labels.contains_key(name.as_str()) || is_number(name) {
        return false;
    }
    labels.keys().all(|label| is_number(label))
        || others.len() >= 4 && labels.values().all(|count| *count > 1)
}

/// Decides whether the first record is a header if the user gave both columns by number.
///
/// # Errors
/// The record is ambiguous: its label does not occur in any other record, but its fields do not look like names.
fn is_header(sample: &[Vec<String>], label: usize) -> Result<bool, LineProblem> {
    match (
        looks_like_header(sample, label),
        begins_with_header(sample, label),
    ) {
        (false, true) => Err(LineProblem::UnclearHeader),
        (looks, _) => Ok(looks),
    }
}

fn is_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

/// Returns true if the fields of the first record are names: distinct, short, without spaces, not numbers and not a label of another record,
/// while another column has texts of several words.
fn looks_like_header(sample: &[Vec<String>], label: usize) -> bool {
    const LONGEST_NAME: usize = 32;
    let [first, others @ ..] = sample else {
        return false;
    };
    let has_space = |field: &str| field.trim().contains(char::is_whitespace);
    let is_name = |field: &String| {
        let is_short = !field.trim().is_empty() && field.len() <= LONGEST_NAME;
        is_short && !has_space(field) && !is_number(field)
    };
    let distinct: BTreeSet<&String> = first.iter().collect();
    let are_names = first.iter().all(is_name) && distinct.len() == first.len();
    let is_label = |name: &String| counts(others, label).contains_key(name.as_str());
    let is_text = |column: usize| {
        let texts = others
            .iter()
            .filter(|fields| fields.get(column).is_some_and(|field| has_space(field)));
        2 * texts.count() > others.len()
    };
    are_names && !first.get(label).is_some_and(is_label) && (0..first.len()).any(is_text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<(String, String, u64)>, String> {
        let (stem, gzip) = name
            .strip_suffix(".gz")
            .map_or((name, false), |stem| (stem, true));
        let text = if gzip {
            ""
        } else {
            &*String::from_utf8_lossy(bytes)
        };
        let dialect = Dialect::of(stem, &with_line_feeds(text)).expect("the text has rows");
        let names = ColumnNames::default();
        let rows = rows(Part::Train, (dialect, gzip), &names, bytes, Path::new(name));
        let (rows, _) = rows.map_err(|error| error.to_string())?;
        Ok(rows
            .into_iter()
            .map(|row| (row.label, row.text, row.line))
            .collect())
    }

    fn ok(name: &str, text: &str) -> Vec<(String, String, u64)> {
        read(name, text.as_bytes()).unwrap()
    }

    fn error(name: &str, text: &str) -> String {
        let error = read(name, text.as_bytes()).unwrap_err();
        error.lines().next().unwrap().to_owned()
    }

    fn row(label: &str, text: &str, line: u64) -> (String, String, u64) {
        (label.to_owned(), text.to_owned(), line)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn without_a_header_the_first_column_is_the_label_and_the_last_is_the_text() {
        assert_eq!(
            ok("a.tsv", "0\t3\t17\tbad\n1\t9\t18\tgood"),
            [row("0", "bad", 1), row("1", "good", 2)]
        );
        assert_eq!(
            ok("a.csv", "neg,bad\npos,good\n"),
            [row("neg", "bad", 1), row("pos", "good", 2)]
        );
    }

    #[test]
    fn a_header_names_the_columns_in_any_order_and_case() {
        for (label, text) in [
            ("label", "text"),
            ("Label", "SENTENCE"),
            ("sentiment", "review"),
            ("label", "content"),
        ] {
            let file = format!("id\t{text}\t{label}\n7\tgood\t1\n");
            assert_eq!(ok("a.tsv", &file), [row("1", "good", 2)], "{label} {text}");
        }
    }

    #[test]
    fn a_header_without_a_known_name_is_an_error() {
        let rows = "a good film,joy\na bad film,anger\nso so,joy\nvery bad,anger\nfine film,calm\n";
        for header in ["text,emotion", "blurb,mood", "author,mood"] {
            let error = error("a.csv", &format!("{header}\n{rows}"));
            assert!(
                error.starts_with("a.csv:1: no ") && error.contains(" column found; the columns are "),
                "{header}: {error}"
            );
        }
        // A repeated label and a number belong to rows.
        assert_eq!(
            ok("a.tsv", "joy\tfine\nanger\tso bad\njoy\tso good\n")[0],
            row("joy", "fine", 1)
        );
        assert_eq!(
            ok("a.tsv", "7\tfine\n8\tso bad\n9\tso good\n")[0],
            row("7", "fine", 1)
        );
    }

    #[test]
    fn an_ambiguous_or_repeated_header_is_an_error() {
        let twice = error("a.csv", "label,text,label\n0,bad,1\n");
        assert_eq!(twice, "a.csv:1: two columns are named `label`");
        let again = error("a.csv", "label,text\n0,bad\nlabel,text\n1,good\n");
        assert_eq!(again, "a.csv:3: the header line is repeated");
    }

    #[test]
    fn quotes_around_every_text_and_old_line_ends_are_not_text() {
        let quoted = ok("a.tsv", "0\t\"bad film\"\n1\t\"so \"\"good\"\"\"\n");
        assert_eq!(quoted, [row("0", "bad film", 1), row("1", "so \"good\"", 2)]);
        for name in ["a.tsv", "a.csv"] {
            let separator = if name == "a.tsv" { "\t" } else { "," };
            let text = format!("0{separator}bad\r1{separator}good\r");
            assert_eq!(
                ok(name, &text),
                [row("0", "bad", 1), row("1", "good", 2)],
                "{name}"
            );
        }
    }

    #[test]
    fn unused_columns_are_reported() {
        let unused = |text: &str| {
            let (dialect, names) = (Dialect::of("a.csv", text).unwrap(), ColumnNames::default());
            rows(
                Part::Train,
                (dialect, false),
                &names,
                text.as_bytes(),
                Path::new("a.csv"),
            )
            .unwrap()
            .1
        };
        assert_eq!(unused("label,text\n1,good\n0,bad\n"), None);
        assert_eq!(
            unused("id,label,title,text,\n7,1,none,good,\n8,0,none,bad,\n").unwrap(),
            "unused columns of `a.csv`: `id`, `title`, 5"
        );
        // The layout of Sentiment140.
        assert_eq!(
            unused("0,14,Mon,bad\n4,15,Tue,good\n").unwrap(),
            "unused columns of `a.csv`: 2, 3"
        );
    }

    #[test]
    fn a_header_without_a_label_or_text_column_is_an_error() {
        assert_eq!(
            error("a.tsv", "index\tsentence\n0\tgood\n"),
            "a.tsv:1: no label column found; the columns are `index`, `sentence`"
        );
        assert_eq!(
            error("a.csv", "label,remark\n0,good\n"),
            "a.csv:1: no text column found; the columns are `label`, `remark`"
        );
        assert_eq!(
            error("a.csv", "just text\n"),
            "a.csv:1: no text column found; the columns are `just text`"
        );
    }

    #[test]
    fn a_first_row_whose_text_is_a_column_name_is_still_a_row() {
        assert_eq!(ok("a.tsv", "0\treview\n"), [row("0", "review", 1)]);
    }

    #[test]
    fn windows_line_ends_and_a_byte_order_mark_are_accepted() {
        let file = "\u{feff}label\tsentence\r\n0\tbad \r\n1\tgood\r\n\r\n";
        assert_eq!(ok("a.tsv", file), [row("0", "bad ", 2), row("1", "good", 3)]);
        assert_eq!(
            ok("a.csv", "label,text\r\n0,bad\r\n1,good\r\n"),
            [row("0", "bad", 2), row("1", "good", 3)]
        );
    }

    #[test]
    fn quotes_are_literal_in_tsv_and_delimiters_in_csv() {
        assert_eq!(
            ok("a.tsv", "0\t\"bad\" film\n1\t\"open\n"),
            [row("0", "\"bad\" film", 1), row("1", "\"open", 2)]
        );
        let csv = "text,label\n\"so \"\"bad\"\",\nreally\",0\ngood,1\n";
        assert_eq!(
            ok("a.csv", csv),
            [row("0", "so \"bad\",\nreally", 2), row("1", "good", 4)]
        );
    }

    #[test]
    fn an_unclosed_quote_is_an_error_at_its_first_line() {
        let expected = "a.csv:3: a quoted field starts here and is never closed";
        assert_eq!(error("a.csv", "label,text\n0,bad\n1,\"good\n0,dull\n"), expected);
        assert_eq!(error("a.csv", "label,text\n0,bad\n1,\"good"), expected);
    }

    #[test]
    fn a_row_with_another_number_of_columns_is_an_error_with_its_line() {
        assert_eq!(
            error("a.tsv", "0\tbad\n1\tgo\tod\n"),
            "a.tsv:2: 3 columns, but the first line has 2"
        );
        assert_eq!(
            error("a.tsv", "0\tbad\n\n1\tgood\n"),
            "a.tsv:2: 1 columns, but the first line has 2"
        );
        assert_eq!(
            error("a.csv", "label,text\n0,so bad, so long\n"),
            "a.csv:2: 3 columns, but the first line has 2"
        );
    }

    #[test]
    fn empty_texts_labels_and_files_are_errors() {
        assert_eq!(error("a.tsv", "0\tbad\n1\t\n"), "a.tsv:2: empty text");
        assert_eq!(error("a.csv", "0,bad\n,good\n"), "a.csv:2: empty label");
        assert_eq!(error("a.csv", "label,text\n"), "a.csv:1: no rows");
        assert_eq!(error("a.csv", ""), "a.csv:1: no rows");
        assert_eq!(error("a.tsv", ""), "a.tsv:1: no rows");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_an_error_with_their_line() {
        let error = read("a.tsv", b"0\tbad\n1\tna\xefve\n").unwrap_err();
        assert!(error.starts_with("a.tsv:2: not UTF-8\n  hint: "), "{error}");
    }

    #[test]
    fn a_gzipped_file_may_have_several_members() {
        let bytes = [gzip("0\tbad\n"), gzip("1\tgood\n")].concat();
        assert_eq!(
            read("a.tsv.gz", &bytes).unwrap(),
            [row("0", "bad", 1), row("1", "good", 2)]
        );
    }

    #[test]
    fn a_truncated_gzipped_file_is_an_error() {
        let text: String = (0..300)
            .map(|i| format!("{}\treview number {}\n", i % 2, i * i * 7919))
            .collect();
        let whole = gzip(&text);
        for length in 1..whole.len() {
            let error = read("a.tsv.gz", &whole[..length]).unwrap_err();
            assert!(
                error.contains(": the compressed file is truncated or damaged here: "),
                "{length}: {error}"
            );
        }
        let late = read("a.tsv.gz", &whole[..whole.len() - 8]).unwrap_err();
        assert!(late.starts_with("a.tsv.gz:301: "), "{late}");
    }

    #[test]
    fn a_gzipped_file_with_a_flipped_bit_is_an_error() {
        let mut bytes = gzip("0\tbad\n1\tgood\n");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        assert!(read("a.tsv.gz", &bytes).is_err());
    }

    #[test]
    fn several_candidate_columns_are_an_error() {
        let of = |header: &str| format!("{header}\n1\ta film\t0\n0\tanother\t1\n");
        let message = error("a.tsv", &of("sentiment\ttext\tcategory"));
        assert!(
            message.contains("several columns may be the label: `sentiment`, `category`"),
            "{message}"
        );
        assert_eq!(ok("a.tsv", &of("stars\ttext\tLabel"))[0].0, "0");
        let pairs = error("a.csv", "label,text,text_b\n1,a film,b\n0,another,c\n");
        assert!(
            pairs.contains("several columns may be the text: `text`, `text_b`"),
            "{pairs}"
        );
    }

    #[test]
    fn quotes_around_every_text_of_a_tsv_are_not_text() {
        let rows = ok("a.tsv", "label\ttext\n1\t\"a film\"\n0\t\"a \"\"bad\"\" one\"\n");
        assert_eq!((&*rows[0].1, &*rows[1].1), ("a film", "a \"bad\" one"));
        assert_eq!(ok("a.tsv", "1\t\"a\" film\n0\tbad\n")[0].1, "\"a\" film");
    }

    #[test]
    fn csv_quotes_in_tsv_and_escaped_quotes_are_read() {
        // As written by pandas with `sep="\t"`.
        let rows = ok("a.tsv", "label\ttext\n0\t\"\"\"very the movie\"\"\"\n1\ta film\n");
        assert_eq!((&*rows[0].1, &*rows[1].1), ("\"very the movie\"", "a film"));
        // As written by Spark and MySQL.
        let rows = ok(
            "a.csv",
            "label,text\n0,\"a \\\"boring, dull\\\" plot\"\n1,\"b\"\n",
        );
        assert_eq!(rows[0].1, "a \"boring, dull\" plot");
        let rows = ok("a.csv", "label,text\n0,\"a \\\"b\\\" c\\\\\"\n1,5\\\" pipe\n");
        assert_eq!((&*rows[0].1, &*rows[1].1), ("a \"b\" c\\\\", "5\\\" pipe"));
        assert_eq!(ok("a.csv", "label,text\n0,\"a film\" \n\"1\" ,b\n")[1].0, "1");
        let message = error("a.csv", "label,text\n0,\"a \"boring\" plot\"\n1,\"b\"\n");
        assert!(message.contains("continues after its closing quote"), "{message}");
        assert_eq!(
            ok("a.csv", "label,text\n0,\"a \"\"b\"\", c\"\n1,5\" pipe\n")[1].1,
            "5\" pipe"
        );
    }

    #[test]
    fn a_repeated_header_is_detected_in_any_case_and_order() {
        for again in ["Label,Text", "text,label", " label , text "] {
            let message = error(
                "a.csv",
                &format!("label,text\n0,bad film\n{again}\n1,good film\n"),
            );
            assert!(
                message.contains("the header line is repeated"),
                "{again}: {message}"
            );
        }
    }

    #[test]
    fn a_header_is_not_read_as_a_row_if_columns_are_given_by_number() {
        let read = |text: &str| {
            let names = ColumnNames {
                label: Some("3".into()),
                text: Some("2".into()),
            };
            let dialect = Dialect::of("a.csv", text).unwrap();
            rows(
                Part::Train,
                (dialect, false),
                &names,
                text.as_bytes(),
                Path::new("a.csv"),
            )
            .map(|(rows, _)| rows.len())
            .map_err(|error| error.to_string())
        };
        let body = "1,a good film,happy\n2,a bad film,sad\n3,the same film,happy\n4,an old film,sad\n";
        assert_eq!(
            read(&format!("id,blurb,mood\n{body}5,one more film,meh\n")),
            Ok(5)
        );
        assert_eq!(read(body), Ok(4));
        let error = read(&format!("99,the film was good,meh\n{body}")).unwrap_err();
        assert!(error.contains("may be a header or a row"), "{error}");
    }
}
