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
    /// File of an unsupported type.
    #[error(
        "cannot load data from `{}`: it is {is}\n  hint: supported are labelled texts (`.tsv`, `.csv`, `.jsonl`), running text and images; see \
         docs/data.md for examples",
        path.display()
    )]
    Unrecognised {
        /// Path from the command line.
        path: PathBuf,
        /// Description of the content. It completes the sentence "it is …".
        is: String,
    },
    /// Path without a readable data set.
    #[error(
        "no data set found in `{}`: {reason}\n  hint: pass a `.tsv`, `.csv` or `.jsonl` file (also `.gz`), a folder with a \
         `*train*` and a `*test*` file, or an aclImdb folder",
        path.display()
    )]
    NoDataSet {
        /// Path from the command line.
        path: PathBuf,
        /// Reason why the data is missing or ambiguous.
        reason: String,
    },
    /// Labelled data without a path.
    #[error("no data set given\n  hint: pass a file or a folder with `--data` or `MANTISSA_DATA`")]
    NoPath,
    /// Checkpoint without its vocabulary, which defines the token ids.
    #[error(
        "pretrained weights need the vocabulary that they were trained with\n  hint: pass it with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoVocabulary,
    /// Path without readable running text.
    #[error(
        "no text found in `{}`: {reason}\n  hint: pass a `.txt` or `.jsonl` file (also `.gz`), or a folder with a `*train*`, `*valid*` or \
         `*test*` file",
        path.display()
    )]
    NoText {
        /// Path from the command line.
        path: PathBuf,
        /// Reason why the data is missing or ambiguous.
        reason: String,
    },
    /// Running text without a tokenizer.
    #[error(
        "running text needs a tokenizer\n  hint: pass a `tokenizer.json`, a SentencePiece `.model`, a llama2.c `tok*.bin` or a BERT \
         `vocab.txt` with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoTokenizer,
    /// Tokenizer without the special tokens for masking.
    #[error(
        "masked-token prediction needs a tokenizer with a beginning token, an end token and a mask token\n  hint: pass the `vocab.txt` or \
         `tokenizer.json` of a BERT model with `--vocabulary`"
    )]
    MissingSpecialTokens,
    /// File that is not a tokenizer, or a damaged tokenizer.
    #[error(
        "cannot load a tokenizer from `{}`: {reason}\n  hint: pass a Hugging Face `tokenizer.json`, a SentencePiece `.model`, a llama2.c \
         `tok*.bin` or a BERT `vocab.txt`",
        path.display()
    )]
    BadTokenizer {
        /// Path from the command line.
        path: PathBuf,
        /// Problem with the file.
        reason: String,
    },
    /// Sequence too short to predict a token from another one.
    #[error(
        "a sequence of {requested} tokens is too short to predict a token\n  hint: set `sequence` to {minimum} or more"
    )]
    Passage {
        /// Requested number of tokens.
        requested: u32,
        /// Minimum number of tokens.
        minimum: u32,
    },
    /// Path without readable images.
    #[error(
        "cannot load images from `{}`: {reason}\n  hint: pass the binary batches of CIFAR-10, one of them, the folder of MNIST's files, or a folder with one subfolder of \
         images per class (also below `train` and `test`)",
        path.display()
    )]
    NoImages {
        /// Path from the command line.
        path: PathBuf,
        /// Reason why the data is missing or ambiguous.
        reason: String,
    },
    /// More passages than a `u32` can count.
    #[error(
        "the text has {0} passages, more than the maximum of {max}\n  hint: increase `sequence` to get fewer, longer passages",
        max = u32::MAX
    )]
    Passages(u64),
    /// Split that needs more examples than available.
    #[error(
        "the split requests {requested} {what} examples, but the data has {available}\n  hint: reduce the sizes of the split or pass more data"
    )]
    TooFew {
        /// Name of the part.
        what: &'static str,
        /// Requested number of examples; at least 1 in training and test parts.
        requested: u64,
        /// Available number of examples.
        available: u64,
    },
    /// Split that sets neither `train` nor `test`, for data without a test part.
    #[error(
        "the split sets neither `train` nor `test`, and the data has no test part\n  hint: set `train` or `test`"
    )]
    OpenSplit,
    /// Labels that do not match the checkpoint, or that are too many for the number of texts.
    #[error("{0}")]
    Labels(String),
    /// Training part with fewer than two labels.
    #[error(
        "all {examples} training examples have the label `{label}`\n  hint: a classifier needs at least two labels"
    )]
    OneLabel {
        /// Size of the training part.
        examples: usize,
        /// Label of all examples.
        label: String,
    },
    /// Vocabulary that lacks special tokens that every example needs.
    #[error(
        "the vocabulary `{}` lacks {}\n  hint: pass a file with one token per line, such as the `vocab.txt` of bert-base-uncased",
        path.display(),
        backticked(missing)
    )]
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
        "a sequence of {requested} tokens has no room for text\n  hint: `[CLS]` and `[SEP]` take two tokens; set `sequence` to {minimum} or more"
    )]
    Sequence {
        /// Requested number of tokens.
        requested: u32,
        /// Minimum number of tokens.
        minimum: u32,
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
        "the line has a NUL character\n  hint: UTF-16 read as another encoding has one in every second position; convert the original file \
         with `iconv -f utf-16 -t utf-8`"
    )]
    Nul,
    /// Bytes that are not UTF-8.
    #[error("not UTF-8\n  hint: convert the file, e.g. `iconv -f latin1 -t utf-8`")]
    NotUtf8,
    /// Compressed stream that ends or is damaged in this line.
    #[error(
        "the compressed file is truncated or damaged here: {0}\n  hint: check it with `gzip -t` and download it again"
    )]
    Compression(String),
    /// Compressed file that unpacks to an implausible size.
    #[error(
        "the compressed file unpacks to more than {limit} bytes\n  hint: if this size is correct, unpack the file with `gunzip`"
    )]
    Expansion {
        /// Maximum unpacked size for the compressed size, in bytes.
        limit: u64,
    },
    /// File without rows.
    #[error("no rows")]
    NoRows,
    /// Missing column for the label or the text.
    #[error(
        "no {what} column found; the columns are {}\n  hint: pass `--{what}-column NAME`; without a header line, the first column is the label \
         and the last is the text",
        backticked(columns)
    )]
    MissingColumn {
        /// `label` or `text`.
        what: &'static str,
        /// Names of all columns.
        columns: Vec<String>,
    },
    /// Label or text column with the same name as another column.
    #[error(
        "two columns are named `{0}`\n  hint: `--label-column` and `--text-column` also accept column numbers"
    )]
    Ambiguous(String),
    /// Several columns that may be the label or the text.
    #[error(
        "several columns may be the {what}: {}\n  hint: pass the one to read with `--{what}-column`",
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
        "the {what} has the key `{found}` in this line, but `{expected}` in the first line\n  hint: pass one key for all \
         lines with `--{what}-column`"
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
        "this line may be a header or a row\n  hint: for a header, pass column names instead of numbers; for a row, start the \
         file with a row whose label occurs again"
    )]
    UnclearHeader,
    /// Field that is quoted as in CSV, although the first lines of the file are not.
    #[error("a field is quoted as in CSV, but the first lines are not\n  hint: save the file as `.csv`")]
    Quoted,
    /// Quote inside quotes that is not doubled.
    #[error(
        "a quoted field continues after its closing quote\n  hint: write a quote inside quotes as `\"\"`, not as `\\\"`"
    )]
    QuoteInQuotes,
    /// Header line in the middle of a file, which indicates concatenated files.
    #[error(
        "the header line is repeated\n  hint: the file may be several files joined; remove all header lines except the first"
    )]
    HeaderAgain,
    /// Label that is not a string, number or boolean.
    #[error("{0} is not a label\n  hint: a label is a string, a number, `true` or `false`")]
    NoLabel(String),
    /// Value in the text column that is not a string.
    #[error("the text is {0}, not a string")]
    NoText(String),
    /// Number of columns that differs from the first line.
    #[error("{found} columns, but the first line has {expected}")]
    Columns {
        /// Number of columns in this line.
        found: usize,
        /// Number of columns in the first line.
        expected: usize,
    },
    /// Quoted field that starts in this record and is never closed.
    #[error(
        "a quoted field starts here and is never closed\n  hint: the file is truncated, or a quote inside quotes is not doubled"
    )]
    OpenQuote,
    /// Any other error of the CSV reader.
    #[error("{0}")]
    Csv(String),
    /// Line that is not a JSON object.
    #[error("not a JSON object: {0}")]
    Json(String),
    /// Line that is too long.
    #[error(
        "the line is longer than {mib} MiB\n  hint: a JSON Lines file has one document per line; a `.txt` file may be a single line"
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
        "the label is {bytes} bytes long\n  hint: without a header line that names `label` and `text`, the first column is the label and the \
         last is the text"
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
    /// Adds the file and the line.
    pub(super) fn at(self, file: &std::path::Path, line: u64) -> DataError {
        DataError::Line {
            file: file.to_owned(),
            line,
            problem: self,
        }
    }
}

impl DataError {
    /// Returns a function that adds the path to an error of reading.
    pub(super) fn read(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            verb: "read",
            path: path.to_owned(),
            source,
        }
    }

    /// Returns a function that adds the path to an error of writing.
    pub(super) fn write(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            verb: "write",
            path: path.to_owned(),
            source,
        }
    }
}

/// Joins names in backticks with commas.
fn backticked<S: AsRef<str>>(names: &[S]) -> String {
    names
        .iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect::<Vec<_>>()
        .join(", ")
}
