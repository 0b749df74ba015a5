//! TSV and CSV, plain or gzipped: a header line that names the columns, or label first and text last.

use std::{io::Read, path::Path, sync::Arc};

use flate2::read::MultiGzDecoder;

use super::{
    DataError, LineProblem,
    examples::{Part, Row},
    source::utf8,
};

/// Names that a header line may give the label's column.
pub(super) const LABEL_COLUMNS: [&str; 2] = ["label", "sentiment"];
/// Names that a header line may give the text's column.
pub(super) const TEXT_COLUMNS: [&str; 4] = ["text", "sentence", "review", "content"];

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    /// Comma-separated with RFC 4180 quotes; else separated by tabs, quotes being text.
    comma: bool,
    gzip: bool,
}

impl Format {
    /// The format that a file's name tells.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let (stem, gzip) = name
            .strip_suffix(".gz")
            .map_or((name.as_str(), false), |stem| (stem, true));
        let comma = stem.ends_with(".csv");
        (comma || stem.ends_with(".tsv")).then_some(Self { comma, gzip })
    }
}

/// Every row of a file.
pub(super) fn rows(part: Part, format: Format, bytes: &[u8], file: &Path) -> Result<Vec<Row>, DataError> {
    let mut reader = Reader {
        part,
        file: file.into(),
        columns: None,
        rows: vec![],
    };
    let unpacked;
    let bytes = if format.gzip {
        unpacked = unpack(bytes, file)?;
        &unpacked
    } else {
        bytes
    };
    let text = utf8(bytes, file)?;
    if format.comma {
        reader.csv(text)?
    } else {
        reader.tsv(text)?
    }
    if reader.rows.is_empty() {
        return Err(LineProblem::NoRows.at(file, 1));
    }
    Ok(reader.rows)
}

/// What a gzipped file holds.
pub(super) fn unpack(bytes: &[u8], file: &Path) -> Result<Vec<u8>, DataError> {
    let mut unpacked = vec![];
    MultiGzDecoder::new(bytes)
        .read_to_end(&mut unpacked)
        .map_err(|error| {
            let whole_lines = unpacked.iter().filter(|&&byte| byte == b'\n').count();
            LineProblem::Compression(error.to_string()).at(file, whole_lines as u64 + 1)
        })?;
    Ok(unpacked)
}

/// Where the label and the text are.
struct Columns {
    label: usize,
    text: usize,
    count: usize,
}

struct Reader {
    part: Part,
    file: Arc<Path>,
    columns: Option<Columns>,
    rows: Vec<Row>,
}

impl Reader {
    fn tsv(&mut self, text: &str) -> Result<(), DataError> {
        for (index, line) in text.trim_end_matches(['\r', '\n']).split('\n').enumerate() {
            let fields: Vec<&str> = line.strip_suffix('\r').unwrap_or(line).split('\t').collect();
            self.record(&fields, index as u64 + 1)?;
        }
        Ok(())
    }

    fn csv(&mut self, text: &str) -> Result<(), DataError> {
        // A quote that is never closed would swallow the rest of the file without a word from the reader: the record
        // that is put behind the file must come out again.
        const END: &str = "\nend of the file";
        let whole = text.as_bytes().chain(END.as_bytes());
        let mut csv = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(whole);
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

    /// Takes in one record; the first tells the columns.
    fn record(&mut self, fields: &[&str], line: u64) -> Result<(), DataError> {
        if self.columns.is_none() {
            let (columns, is_header) = columns(fields).map_err(|problem| problem.at(&self.file, line))?;
            self.columns = Some(columns);
            if is_header {
                return Ok(());
            }
        }
        let columns = self.columns.as_ref().expect("set above");
        if fields.len() != columns.count {
            let problem = LineProblem::Columns {
                found: fields.len(),
                expected: columns.count,
            };
            return Err(problem.at(&self.file, line));
        }
        self.rows.push(Row::new(
            self.part,
            fields[columns.label],
            fields[columns.text],
            &self.file,
            line,
        )?);
        Ok(())
    }
}

/// The line in which a record starts: the reader's position is before the line ends that it skips.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let rest = text
        .as_bytes()
        .get(position.byte() as usize..)
        .unwrap_or_default();
    let skipped = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + skipped.filter(|&&byte| byte == b'\n').count() as u64
}

/// The columns that a first line tells, and whether it is a header.
fn columns(first: &[&str]) -> Result<(Columns, bool), LineProblem> {
    let count = first.len();
    let named = |names: &[&str]| {
        let find = |name: &&str| {
            first
                .iter()
                .position(|field| field.trim().eq_ignore_ascii_case(name))
        };
        names.iter().find_map(find)
    };
    match (named(&LABEL_COLUMNS), named(&TEXT_COLUMNS)) {
        (Some(label), Some(text)) => Ok((Columns { label, text, count }, true)),
        (Some(_), None) => Err(LineProblem::MissingColumn {
            what: "text",
            hint: "the header line names a label; name the text's column `text`",
        }),
        (None, Some(_)) if first[0].trim().parse::<i64>().is_err() => Err(LineProblem::MissingColumn {
            what: "label",
            hint: "the header line names a text; name the label's column `label`",
        }),
        _ if count < 2 => Err(LineProblem::MissingColumn {
            what: "text",
            hint: "a header line naming `label` and `text`, or the label first and the text last",
        }),
        _ => Ok((
            Columns {
                label: 0,
                text: count - 1,
                count,
            },
            false,
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<(String, String, u64)>, String> {
        let format = Format::of(name).expect("a known ending");
        let rows = rows(Part::Train, format, bytes, Path::new(name)).map_err(|error| error.to_string())?;
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
    fn without_a_header_the_first_column_is_the_label_and_the_last_the_text() {
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
    fn a_header_with_half_of_the_columns_is_an_error() {
        assert_eq!(
            error("a.tsv", "index\tsentence\n0\tgood\n"),
            "a.tsv:1: no column for the label"
        );
        assert_eq!(
            error("a.csv", "label,body\n0,good\n"),
            "a.csv:1: no column for the text"
        );
        assert_eq!(error("a.csv", "just text\n"), "a.csv:1: no column for the text");
    }

    #[test]
    fn a_first_row_whose_text_is_a_column_name_is_still_a_row() {
        assert_eq!(ok("a.tsv", "0\treview\n"), [row("0", "review", 1)]);
    }

    #[test]
    fn line_ends_may_be_windows_ones_and_a_byte_order_mark_is_passed_over() {
        let file = "\u{feff}label\tsentence\r\n0\tbad \r\n1\tgood\r\n\r\n";
        assert_eq!(ok("a.tsv", file), [row("0", "bad ", 2), row("1", "good", 3)]);
        assert_eq!(
            ok("a.csv", "label,text\r\n0,bad\r\n1,good\r\n"),
            [row("0", "bad", 2), row("1", "good", 3)]
        );
    }

    #[test]
    fn quotes_are_text_in_tsv_and_quotes_in_csv() {
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
    fn a_quote_that_is_never_closed_is_an_error_where_it_opens() {
        let expected = "a.csv:3: a quoted field starts here and is never closed";
        assert_eq!(error("a.csv", "label,text\n0,bad\n1,\"good\n0,dull\n"), expected);
        assert_eq!(error("a.csv", "label,text\n0,bad\n1,\"good"), expected);
    }

    #[test]
    fn a_row_with_another_number_of_columns_is_an_error_with_its_line() {
        assert_eq!(
            error("a.tsv", "0\tbad\n1\tgo\tod\n"),
            "a.tsv:2: 3 columns, the first line has 2"
        );
        assert_eq!(
            error("a.tsv", "0\tbad\n\n1\tgood\n"),
            "a.tsv:2: 1 columns, the first line has 2"
        );
        assert_eq!(
            error("a.csv", "label,text\n0,so bad, so long\n"),
            "a.csv:2: 3 columns, the first line has 2"
        );
    }

    #[test]
    fn empty_texts_labels_and_files_are_errors() {
        assert_eq!(error("a.tsv", "0\tbad\n1\t\n"), "a.tsv:2: empty text");
        assert_eq!(error("a.csv", "0,bad\n,good\n"), "a.csv:2: empty label");
        assert_eq!(error("a.csv", "label,text\n"), "a.csv:1: no rows");
        assert_eq!(error("a.csv", ""), "a.csv:1: no rows");
        assert_eq!(error("a.tsv", ""), "a.tsv:1: no column for the text");
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
    fn a_gzipped_file_that_is_cut_off_anywhere_is_an_error() {
        let text: String = (0..300)
            .map(|i| format!("{}\treview number {}\n", i % 2, i * i * 7919))
            .collect();
        let whole = gzip(&text);
        for length in 1..whole.len() {
            let error = read("a.tsv.gz", &whole[..length]).unwrap_err();
            assert!(
                error.contains(": the compressed file is cut off or damaged here: "),
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
    fn only_tsv_and_csv_are_known() {
        assert!(Format::of("A.TSV.GZ").is_some());
        assert!(
            ["a.txt", "a.gz", "tsv", "a.tsv.zip"]
                .into_iter()
                .all(|name| Format::of(name).is_none())
        );
    }
}
