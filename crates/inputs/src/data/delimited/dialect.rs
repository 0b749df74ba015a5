//! Separator and quoting of a delimited file, detected from its first records.

use std::{collections::BTreeMap, io::Read};

use super::{
    header::{count_values, has_header},
    quotes::{ends_in_quotes, is_doubled},
};

/// Separator and quoting of a delimited file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(super) separator: u8,
    /// True if fields may be quoted (RFC 4180), false if quotes are part of the text.
    pub(super) quotes: bool,
}

/// Number of records read to detect the dialect and the columns.
const SAMPLE_RECORDS: usize = 200;

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

    /// Detects the dialect of a text. Returns `None` for running text. If the name does not end in `.tsv` or `.csv`, the text
    /// is running text unless it begins with a header or its lines begin with labels followed by a tab.
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let [comma, semicolon, pipe] = [b',', b';', b'|'].map(Self::quoted);
        let quoted_tabs = Self::quoted(b'\t');
        let candidates = if name.ends_with(".tsv") {
            // Quotes are literal in most tab-separated files, but not if every text is quoted. The first record is not checked, because it may be a
            // header.
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
        let find = |fits: fn(&[Vec<String>]) -> bool| samples.iter().find(|(_, sample)| fits(sample));
        let found = find(has_header)
            .or_else(|| find(have_equal_lengths))
            .or(samples.first());
        found.map(|(dialect, _)| *dialect)
    }

    /// Returns the text that represents the dialect in the hash of a data set. It must not change, because the hash in recorded runs
    /// depends on it.
    pub fn identity(self, gzip: bool) -> String {
        match self {
            _ if self == Self::TABS => format!("Format {{ comma: false, gzip: {gzip} }}"),
            _ if self == Self::quoted(b',') => format!("Format {{ comma: true, gzip: {gzip} }}"),
            other => format!("{other:?}, gzip: {gzip}"),
        }
    }

    /// Reads the first records of a text.
    pub(super) fn sample(self, text: &str) -> Vec<Vec<String>> {
        let owned = |fields: &mut dyn Iterator<Item = &str>| fields.map(str::to_owned).collect();
        if !self.quotes {
            let lines = text.lines().filter(|line| !line.is_empty()).take(SAMPLE_RECORDS);
            return lines
                .map(|line| owned(&mut line.split(char::from(self.separator))))
                .collect();
        }
        let records = self.reader(text.as_bytes()).into_records().take(SAMPLE_RECORDS);
        records
            .map_while(Result::ok)
            .map(|record| owned(&mut record.iter()))
            .collect()
    }

    pub(super) fn reader<R: Read>(self, text: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .delimiter(self.separator)
            .has_headers(false)
            .flexible(true)
            .from_reader(text)
    }
}

/// Returns true if all records have the same number of fields, at least two.
fn have_equal_lengths(sample: &[Vec<String>]) -> bool {
    let count = sample.first().map_or(0, Vec::len);
    count >= 2 && sample.iter().all(|fields| fields.len() == count)
}

/// Returns true if the first field of every record looks like a label: not empty, short, and with at least two records per label on average.
fn are_labelled(sample: &[Vec<String>]) -> bool {
    /// Minimum number of rows. Fewer may be running text that happens to contain tabs.
    const MIN_ROWS: usize = 4;
    let labels: BTreeMap<&str, usize> = count_values(sample, 0);
    have_equal_lengths(sample)
        && sample.len() >= MIN_ROWS
        && labels.len() * 2 <= sample.len()
        && labels
            .keys()
            .all(|label| !label.trim().is_empty() && label.len() <= 64)
}
