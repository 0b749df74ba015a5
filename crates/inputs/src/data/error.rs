//! Errors of data sets.

use std::{io, path::PathBuf};

/// Error while loading a data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or folder could not be read or written.
    #[error("cannot {verb} `{}`: {source}", path.display())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Invalid line of a file.
    #[error("{}:{line}: {problem}", file.display())]
    Line {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Problem with the line.
        problem: LineProblem,
    },
    /// File of an unknown type.
    #[error(
        "no data in `{}`: it is {is}\n  hint: labelled texts (`.tsv`, `.csv`, `.jsonl`), running text and pictures are read; docs/data.md has \
         examples",
        path.display()
    )]
    Unrecognised {
        /// Path from the command line.
        path: PathBuf,
        /// Description of its content, which completes "it is …".
        is: String,
    },
    /// Path without a readable data set.
    #[error(
        "no data set in `{}`: {reason}\n  hint: give a `.tsv`, `.csv` or `.jsonl` file (also `.gz`), a folder with a `*train*` \
         and a `*test*` one, or an aclImdb folder",
        path.display()
    )]
    NoDataSet {
        /// Path from the command line.
        path: PathBuf,
        /// Missing or ambiguous part.
        reason: String,
    },
    /// Labelled data without a path.
    #[error("no data given\n  hint: name a file or a folder with `--data` or `MANTISSA_DATA`")]
    NoPath,
    /// Checkpoint without its vocabulary, which defines the token ids.
    #[error(
        "weights that were trained elsewhere need the vocabulary that they were trained with\n  hint: name it with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoVocabulary,
    /// Path without readable running text.
    #[error(
        "no text in `{}`: {reason}\n  hint: give a `.txt` or `.jsonl` file (also `.gz`), or a folder with a `*train*`, a `*valid*` or a \
         `*test*` one",
        path.display()
    )]
    NoText {
        /// Path from the command line.
        path: PathBuf,
        /// Missing or ambiguous part.
        reason: String,
    },
    /// Running text without a tokenizer.
    #[error(
        "running text needs a tokenizer\n  hint: name a `tokenizer.json`, a SentencePiece `.model`, a `tok*.bin` of llama2.c or a \
         `vocab.txt` of BERT with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoTokenizer,
    /// Tokenizer without the special tokens for masking.
    #[error(
        "the tokenizer lacks a token before a text, one behind it, or one that hides another\n  hint: name the `vocab.txt` or the \
         `tokenizer.json` of a BERT with `--vocabulary`"
    )]
    NoMask,
    /// File that is not a tokenizer, or is damaged.
    #[error(
        "no tokenizer in `{}`: {reason}\n  hint: give a `tokenizer.json` of Hugging Face, a SentencePiece `.model`, a `tok*.bin` of \
         llama2.c or a `vocab.txt` of BERT",
        path.display()
    )]
    BadTokenizer {
        /// Path from the command line.
        path: PathBuf,
        /// Problem with the file.
        reason: String,
    },
    /// Sequence too short to predict a token from another one.
    #[error("in a sequence of {given} tokens nothing can be predicted\n  hint: give {least} or more")]
    Passage {
        /// Requested number of tokens.
        given: u32,
        /// Minimum number of tokens.
        least: u32,
    },
    /// Path without readable images.
    #[error("no images in `{}`: {reason}\n  hint: give CIFAR-10's binary batches, one of them, or a folder with a folder of images a class, also below `train` and `test`", path.display())]
    NoImages {
        /// Path from the command line.
        path: PathBuf,
        /// Missing or ambiguous part.
        reason: String,
    },
    /// More passages than a `u32` can count.
    #[error("the text makes {0} passages, and {most} are the most\n  hint: longer passages are fewer (`sequence`)", most = u32::MAX)]
    Passages(u64),
    /// Split that needs more examples than available.
    #[error(
        "the split requests {asked} {what} examples, the data has {available}\n  hint: lower the split's sizes or give more data"
    )]
    TooFew {
        /// Name of the part.
        what: &'static str,
        /// Requested number of examples; at least 1 in training and test parts.
        asked: u64,
        /// Available number of examples.
        available: u64,
    },
    /// Split with neither the size of the training part nor of the test part, of data without a test part.
    #[error(
        "the split gives neither `train` nor `test`, and the data has no test part of its own\n  hint: set `train` or `test`"
    )]
    OpenSplit,
    /// Labels that do not match the checkpoint.
    #[error("{0}")]
    Labels(String),
    /// Training part with fewer than two labels.
    #[error(
        "all {examples} training examples have the label `{label}`\n  hint: a classifier needs two labels or more"
    )]
    OneLabel {
        /// Size of the training part.
        examples: usize,
        /// Label of all examples.
        label: String,
    },
    /// Vocabulary without tokens that every example needs.
    #[error("the vocabulary `{}` lacks {}\n  hint: one token a line, as in the `vocab.txt` of bert-base-uncased", path.display(), backticked(missing))]
    Vocabulary {
        /// Path of the file.
        path: PathBuf,
        /// Missing tokens.
        missing: Vec<&'static str>,
    },
    /// A malformed configuration, or one with values that are not implemented.
    #[error("`{}`: {reason}", path.display())]
    Configuration {
        /// Path of the file.
        path: PathBuf,
        /// Problem with the file.
        reason: String,
    },
    /// Sequence too short for the special tokens of every example.
    #[error(
        "a sequence of {given} tokens has no room for text\n  hint: `[CLS]` and `[SEP]` take two; give {least} or more"
    )]
    Sequence {
        /// Requested number of tokens.
        given: u32,
        /// Minimum number of tokens.
        least: u32,
    },
    /// Text that the tokenizer rejects.
    #[error("the tokenizer failed: {0}")]
    Tokenizer(String),
}

/// Problem with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// NUL character, which text does not contain.
    #[error(
        "a NUL character\n  hint: UTF-16 that was taken for another encoding has one in every second place: convert the original with \
             `iconv -f utf-16 -t utf-8`"
    )]
    Nul,
    /// Bytes that are not UTF-8.
    #[error("not UTF-8\n  hint: convert the file, e.g. `iconv -f latin1 -t utf-8`")]
    NotUtf8,
    /// Compressed stream that ends or is damaged in this line.
    #[error(
        "the compressed file is cut off or damaged here: {0}\n  hint: fetch it again; `gzip -t` checks it"
    )]
    Compression(String),
    /// Compressed file that unpacks to an implausible size.
    #[error(
        "the compressed file unpacks to more than {most} bytes\n  hint: if that is right, unpack it with `gunzip`"
    )]
    Expansion {
        /// Maximum unpacked size for a file of its size, in bytes.
        most: u64,
    },
    /// File without rows.
    #[error("no rows")]
    NoRows,
    /// Missing column for the label or the text.
    #[error(
        "no column for the {what}; there are {}\n  hint: `--{what}-column NAME` names it; without a header line, the label comes first and \
         the text last",
        backticked(columns)
    )]
    MissingColumn {
        /// `label` or `text`.
        what: &'static str,
        /// Names of all columns.
        columns: Vec<String>,
    },
    /// Column that is read and has the same name as another.
    #[error("two columns are called `{0}`\n  hint: `--label-column` and `--text-column` take numbers, too")]
    Ambiguous(String),
    /// Several columns that may be the label or the text.
    #[error(
        "several columns may be the {what}: {}\n  hint: `--{what}-column` names the one to read",
        backticked(columns)
    )]
    SeveralColumns {
        /// `label` or `text`.
        what: &'static str,
        /// Names of the columns.
        columns: Vec<String>,
    },
    /// Line whose text or label has another key than the first line.
    #[error(
        "the {what} is in `{found}` here and in `{expected}` in the first line\n  hint: `--{what}-column` names one key for \
         all lines"
    )]
    OtherKey {
        /// `label` or `text`.
        what: &'static str,
        /// Key of this line.
        found: String,
        /// Key of the first line.
        expected: String,
    },
    /// First line that may be a header or a row.
    #[error(
        "this line may be a header or a row\n  hint: name the columns by the names in the header line, or begin with a row \
         whose label occurs again"
    )]
    UnclearHeader,
    /// Field quoted as in CSV in a file whose first lines are not.
    #[error("a field is quoted as in CSV, and the first lines are not\n  hint: save the file as `.csv`")]
    Quoted,
    /// Quote inside quotes that is not doubled.
    #[error(
        "a quoted field goes on behind its closing quote\n  hint: a quote inside quotes is doubled (`\"\"`), not written as `\\\"`"
    )]
    QuoteInQuotes,
    /// Header line in the middle of a file, as in files that were joined.
    #[error(
        "the header line again\n  hint: the file is several ones joined; remove all header lines but the first"
    )]
    HeaderAgain,
    /// Label that is not a string, number or boolean.
    #[error("{0} is not a label\n  hint: a label is a string, a number, `true` or `false`")]
    NoLabel(String),
    /// Value in the text column that is not a string.
    #[error("{0} is not a text")]
    NoText(String),
    /// Number of columns that differs from the first line.
    #[error("{found} columns, the first line has {expected}")]
    Columns {
        /// Number of columns in this line.
        found: usize,
        /// Number of columns in the first line.
        expected: usize,
    },
    /// Quoted field that starts in this record and is never closed.
    #[error(
        "a quoted field starts here and is never closed\n  hint: the file is cut off, or a quote inside quotes is not doubled"
    )]
    OpenQuote,
    /// Any other error of the CSV reader.
    #[error("{0}")]
    Csv(String),
    /// Line that is not a JSON object.
    #[error("no JSON object: {0}")]
    Json(String),
    /// Line that is too long.
    #[error(
        "a line of more than {mib} MiB\n  hint: JSON lines have one document a line; a `.txt` may be one line"
    )]
    LongLine {
        /// Maximum length of a line, in MiB.
        mib: usize,
    },
    /// Empty label column.
    #[error("empty label")]
    EmptyLabel,
    /// Label too long for a class name, which indicates mixed up columns.
    #[error(
        "a label of {bytes} bytes\n  hint: without a header line naming `label` and `text`, the first column is the label and the last the text"
    )]
    LongLabel {
        /// Length of the label.
        bytes: usize,
    },
    /// Empty text column.
    #[error("empty text")]
    EmptyText,
    /// Label that does not occur in the training part.
    #[error(
        "unknown label `{label}`\n  hint: the training part has {}",
        backticked(known)
    )]
    UnknownLabel {
        /// Unknown label.
        label: String,
        /// Labels of the training part.
        known: Vec<String>,
    },
}

impl LineProblem {
    pub(super) fn at(self, file: &std::path::Path, line: u64) -> DataError {
        DataError::Line {
            file: file.to_owned(),
            line,
            problem: self,
        }
    }
}

impl DataError {
    pub(super) fn read(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            verb: "read",
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn write(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            verb: "write",
            path: path.to_owned(),
            source,
        }
    }
}

fn backticked<S: AsRef<str>>(names: &[S]) -> String {
    names
        .iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect::<Vec<_>>()
        .join(", ")
}
