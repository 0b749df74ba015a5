//! What can be wrong with data.

use std::{io, path::PathBuf};

/// Why there is no data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or folder could not be read or written.
    #[error("cannot {verb} `{}`: {source}", path.display())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of a file is wrong.
    #[error("{}:{line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Line of the file, from 1.
        line: u64,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// A file of which nothing is known.
    #[error(
        "no data in `{}`: it is {is}\n  hint: labelled texts (`.tsv`, `.csv`, `.jsonl`), running text and pictures are read; docs/data.md has \
         examples",
        path.display()
    )]
    Unrecognised {
        /// The path that was given.
        path: PathBuf,
        /// Description of its content, which completes "it is …".
        is: String,
    },
    /// Nothing there that can be read as a data set.
    #[error(
        "no data set in `{}`: {reason}\n  hint: give a `.tsv`, `.csv` or `.jsonl` file (also `.gz`), a folder with a `*train*` \
         and a `*test*` one, or an aclImdb folder",
        path.display()
    )]
    NoDataSet {
        /// The path that was given.
        path: PathBuf,
        /// What is missing or in doubt.
        reason: String,
    },
    /// Labelled data was asked for and no path given.
    #[error("no data given\n  hint: name a file or a folder with `--data` or `MANTISSA_DATA`")]
    NoPath,
    /// Weights and the numbers of words belong together.
    #[error(
        "weights that were trained elsewhere need the vocabulary that they were trained with\n  hint: name it with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoVocabulary,
    /// Nothing there that can be read as running text.
    #[error(
        "no text in `{}`: {reason}\n  hint: give a `.txt` or `.jsonl` file (also `.gz`), or a folder with a `*train*`, a `*valid*` or a \
         `*test*` one",
        path.display()
    )]
    NoText {
        /// The path that was given.
        path: PathBuf,
        /// What is missing or in doubt.
        reason: String,
    },
    /// Running text becomes tokens by a tokenizer of the user's.
    #[error(
        "running text needs a tokenizer\n  hint: name a `tokenizer.json`, a SentencePiece `.model`, a `tok*.bin` of llama2.c or a \
         `vocab.txt` of BERT with `--vocabulary` or `MANTISSA_VOCABULARY`"
    )]
    NoTokenizer,
    /// Words are hidden behind a token that the tokenizer lacks.
    #[error(
        "the tokenizer lacks a token before a text, one behind it, or one that hides another\n  hint: name the `vocab.txt` or the \
         `tokenizer.json` of a BERT with `--vocabulary`"
    )]
    NoMask,
    /// A file that is no tokenizer, or a damaged one.
    #[error(
        "no tokenizer in `{}`: {reason}\n  hint: give a `tokenizer.json` of Hugging Face, a SentencePiece `.model`, a `tok*.bin` of \
         llama2.c or a `vocab.txt` of BERT",
        path.display()
    )]
    BadTokenizer {
        /// The path that was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A sequence too short for a token that is predicted from another.
    #[error("in a sequence of {given} tokens nothing can be predicted\n  hint: give {least} or more")]
    Passage {
        /// Tokens asked for.
        given: u32,
        /// Fewest that make sense.
        least: u32,
    },
    /// Nothing there that can be read as images.
    #[error("no images in `{}`: {reason}\n  hint: give CIFAR-10's binary batches, one of them, or a folder with a folder of images a class, also below `train` and `test`", path.display())]
    NoImages {
        /// The path that was given.
        path: PathBuf,
        /// What is missing or in doubt.
        reason: String,
    },
    /// More passages than have numbers.
    #[error("the text makes {0} passages, and {most} are the most\n  hint: longer passages are fewer (`sequence`)", most = u32::MAX)]
    Passages(u64),
    /// A split asks for more than there is.
    #[error(
        "the split asks for {asked} {what} examples, the data has {available}\n  hint: lower the split's sizes or give more data"
    )]
    TooFew {
        /// Which part.
        what: &'static str,
        /// Examples asked for; at least 1 in training and test parts.
        asked: u64,
        /// Examples there.
        available: u64,
    },
    /// A split that cuts train and test from one heap says the size of neither.
    #[error(
        "the split gives neither `train` nor `test`, and the data has no test part of its own\n  hint: set `train` or `test`"
    )]
    OpenSplit,
    /// Labels that are not those of the checkpoint.
    #[error("{0}")]
    Labels(String),
    /// The training part holds fewer than two labels.
    #[error(
        "all {examples} training examples have the label `{label}`\n  hint: a classifier needs two labels or more"
    )]
    OneLabel {
        /// Size of the training part.
        examples: usize,
        /// Their label.
        label: String,
    },
    /// A vocabulary lacks tokens that every example needs.
    #[error("the vocabulary `{}` lacks {}\n  hint: one token a line, as in the `vocab.txt` of bert-base-uncased", path.display(), backticked(missing))]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The tokens.
        missing: Vec<&'static str>,
    },
    /// A malformed configuration, or one with values that are not implemented.
    #[error("`{}`: {reason}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A sequence too short for the tokens that every example has.
    #[error(
        "a sequence of {given} tokens has no room for text\n  hint: `[CLS]` and `[SEP]` take two; give {least} or more"
    )]
    Sequence {
        /// Tokens asked for.
        given: u32,
        /// Fewest that make sense.
        least: u32,
    },
    /// The tokenizer refused a text.
    #[error("the tokenizer failed: {0}")]
    Tokenizer(String),
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// A NUL character, which no text has.
    #[error(
        "a NUL character\n  hint: UTF-16 that was taken for another encoding has one in every second place: convert the original with \
             `iconv -f utf-16 -t utf-8`"
    )]
    Nul,
    /// Bytes that are no text.
    #[error("not UTF-8\n  hint: convert the file, e.g. `iconv -f latin1 -t utf-8`")]
    NotUtf8,
    /// The compressed stream ends in this line.
    #[error(
        "the compressed file is cut off or damaged here: {0}\n  hint: fetch it again; `gzip -t` tells whether it is whole"
    )]
    Compression(String),
    /// The file becomes much larger.
    #[error(
        "the compressed file unpacks to more than {most} bytes\n  hint: if that is right, unpack it with `gunzip`"
    )]
    Expansion {
        /// Most bytes that are read of a file of its size.
        most: u64,
    },
    /// The file has no rows.
    #[error("no rows")]
    NoRows,
    /// No column for the label or the text.
    #[error(
        "no column for the {what}; there are {}\n  hint: `--{what}-column NAME` names it; without a header line, the label comes first and \
         the text last",
        backticked(columns)
    )]
    MissingColumn {
        /// `label` or `text`.
        what: &'static str,
        /// Those that there are.
        columns: Vec<String>,
    },
    /// A column that is read has the name of another.
    #[error("two columns are called `{0}`\n  hint: `--label-column` and `--text-column` take numbers, too")]
    Ambiguous(String),
    /// Several columns may be the label or the text.
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
    /// A line whose text or label has another key than that of the first line.
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
    /// A header line that may be a row.
    #[error(
        "this line may be a header or a row\n  hint: name the columns by the names in the header line, or begin with a row \
         whose label occurs again"
    )]
    UnclearHeader,
    /// Quotes of CSV in a file that begins without them.
    #[error("a field is quoted as in CSV, and the first lines are not\n  hint: save the file as `.csv`")]
    Quoted,
    /// A quote inside quotes that is not doubled.
    #[error(
        "a quoted field goes on behind its closing quote\n  hint: a quote inside quotes is doubled (`\"\"`), not written as `\\\"`"
    )]
    QuoteInQuotes,
    /// The header line in the middle of a file, as in files that were joined.
    #[error(
        "the header line again\n  hint: the file is several ones joined; remove all header lines but the first"
    )]
    HeaderAgain,
    /// A value in the label's place that names no class.
    #[error("{0} is no label\n  hint: a label is a string, a number, `true` or `false`")]
    NoLabel(String),
    /// A value in the text column that is not a string.
    #[error("{0} is no text")]
    NoText(String),
    /// Another number of columns than the first line has.
    #[error("{found} columns, the first line has {expected}")]
    Columns {
        /// In this line.
        found: usize,
        /// In the first.
        expected: usize,
    },
    /// A quoted field that starts in this record is never closed.
    #[error(
        "a quoted field starts here and is never closed\n  hint: the file is cut off, or a quote inside quotes is not doubled"
    )]
    OpenQuote,
    /// Whatever else the CSV reader objects to.
    #[error("{0}")]
    Csv(String),
    /// No JSON object where there has to be one.
    #[error("no JSON object: {0}")]
    Json(String),
    /// A line that cannot be held.
    #[error(
        "a line of more than {mib} MiB\n  hint: JSON lines have one document a line; a `.txt` may be one line"
    )]
    LongLine {
        /// The longest that is read.
        mib: usize,
    },
    /// Nothing in the label's column.
    #[error("empty label")]
    EmptyLabel,
    /// Far too long for a name: the columns are mixed up.
    #[error(
        "a label of {bytes} bytes\n  hint: without a header line naming `label` and `text`, the first column is the label and the last the text"
    )]
    LongLabel {
        /// Its length.
        bytes: usize,
    },
    /// Nothing in the text's column.
    #[error("empty text")]
    EmptyText,
    /// A label that the training part does not have.
    #[error(
        "unknown label `{label}`\n  hint: the training part has {}",
        backticked(known)
    )]
    UnknownLabel {
        /// The label.
        label: String,
        /// Those of the training part.
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
