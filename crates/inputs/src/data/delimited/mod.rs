//! Reads delimited text (TSV, CSV), plain or gzipped: with a header line that names the columns, or with the label in the first column and the
//! text in the last.

mod columns;
mod dialect;
mod header;
mod quotes;

use std::{io::Read, path::Path, sync::Arc};

use columns::{Columns, detect_columns};
pub(super) use dialect::Dialect;
use header::same_names;
use quotes::{is_doubled, quote_in_quotes, with_doubled_quotes};

use super::{
    ColumnNames, DataError, LineProblem,
    examples::{Part, Row},
    text_decoding::{unpack, utf8, with_line_feeds},
};

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
        reader.read_csv(text, dialect)?
    } else {
        reader.read_lines(text, dialect)?
    }
    if reader.rows.is_empty() {
        return Err(LineProblem::NoRows.at(file, 1));
    }
    Ok((reader.rows, reader.unused))
}

/// Reader of one file.
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
    /// Reads lines in which quotes are literal.
    fn read_lines(&mut self, text: &str, dialect: Dialect) -> Result<(), DataError> {
        let separator = char::from(dialect.separator);
        let lines = text.trim_end_matches(['\r', '\n']).split('\n').zip(1..);
        let lines = lines.map(|(line, number)| (line.strip_suffix('\r').unwrap_or(line), number));
        // Skip empty lines before the first row.
        for (line, number) in lines.skip_while(|(line, _)| line.is_empty()) {
            if line.contains("\"\"") && line.split(separator).any(is_doubled) {
                return Err(LineProblem::Quoted.at(&self.file, number));
            }
            self.add_record(&line.split(separator).collect::<Vec<_>>(), number)?;
        }
        Ok(())
    }

    /// Reads records with quoted fields.
    fn read_csv(&mut self, text: &str, dialect: Dialect) -> Result<(), DataError> {
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
                self.add_record(&fields, line)?;
            } else if fields != [END.trim_start()] {
                return Err(LineProblem::OpenQuote.at(&self.file, line));
            }
        }
        Ok(())
    }

    /// Adds a record. The first one determines the columns.
    fn add_record(&mut self, fields: &[&str], line: u64) -> Result<(), DataError> {
        if self.columns.is_none() {
            let (columns, is_header) = detect_columns(fields, &self.sample, self.names)
                .map_err(|problem| problem.at(&self.file, line))?;
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

/// Returns the line in which a record starts. The CSV reader skips empty lines before a record, but reports the position before these lines.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let remaining = text
        .as_bytes()
        .get(position.byte() as usize..)
        .unwrap_or_default();
    let skipped = remaining.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + skipped.filter(|&&byte| byte == b'\n').count() as u64
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
    fn without_a_header_label_is_first_and_text_is_last() {
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
        // If the label of the first record is repeated or is a number, the record is a row and not a header.
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
    fn quoted_texts_and_carriage_return_line_ends_are_read() {
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
    fn a_row_whose_text_is_a_column_name_is_not_a_header() {
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
    fn wrong_column_count_error_has_the_line() {
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
        let file_with = |header: &str| format!("{header}\n1\ta film\t0\n0\tanother\t1\n");
        let message = error("a.tsv", &file_with("sentiment\ttext\tcategory"));
        assert!(
            message.contains("several columns may be the label: `sentiment`, `category`"),
            "{message}"
        );
        assert_eq!(ok("a.tsv", &file_with("stars\ttext\tLabel"))[0].0, "0");
        let pairs = error("a.csv", "label,text,text_b\n1,a film,b\n0,another,c\n");
        assert!(
            pairs.contains("several columns may be the text: `text`, `text_b`"),
            "{pairs}"
        );
    }

    #[test]
    fn quotes_around_all_texts_of_a_tsv_are_removed() {
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
    fn a_header_is_detected_if_columns_are_given_by_number() {
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
