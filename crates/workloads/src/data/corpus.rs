//! Text for language models: from files of any size to passages of token ids, without holding either.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    ops::Range,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use mantissa_core::{DataSource, DatasetKind, Split};
use rayon::prelude::*;

use super::{
    DataError, Dataset, Example, LineProblem, Tokenized,
    cache::{self, Entry},
    delimited,
    examples::Part,
    imdb_folder,
    json_lines::{self, Line},
    reviews::{short, sizes},
    source::part_of,
    split::{Given, Wanted},
    subwords::{self, PIECE, TextTokenizer},
    synthetic::synthetic_passages,
    token_file::{self, Document, Tokens},
    tokenizer::Tokenizer,
    vocabulary::Vocabulary,
};

/// Fewest tokens of a passage: one, and one that is predicted from it.
const LEAST_PASSAGE: u32 = 2;
/// What stands between the documents of a text file.
const MARK: &str = "<|endoftext|>";
/// Bytes that are read from a file at a time.
const READ: usize = 1 << 20;
/// Bytes of text that are encoded in parallel.
const BLOCK: usize = 4 << 20;
/// Longest line of a file of JSON lines, in bytes.
const LONGEST_LINE: usize = 64 << 20;

/// Loads what is `wanted` of running text, in passages of at most `sequence` tokens in which each token but the first is to be
/// predicted. `classes` of the data set are the tokenizer's ids.
///
/// `data` is a text file, JSON lines with a `text` (either also gzipped), or a folder with a training, a validation or a test file
/// of these. Every line of JSON is a document, and so is what stands between two marks `<|endoftext|>` of a text file, without the
/// space around it: a file without a mark is one document. A document is encoded as a whole, with the token before every text if the
/// tokenizer has one, and cut into passages that share one token with the next, so that each of its tokens but the first is predicted
/// once. What is wanted of them is drawn as of other examples.
///
/// Synthetic text needs no files. Each of its passages is made of the sentences of synthetic reviews; without a `tokenizer`, the words
/// of the generator are its tokens.
///
/// The ids of a corpus are kept in the folder `cache`, and found again by the hash of its contents and of the tokenizer.
///
/// # Errors
/// Whatever is wrong with the files, with file and line; a split that the data cannot fill.
pub fn load_passages(
    kind: DatasetKind,
    wanted: &Wanted,
    sequence: u32,
    data: Option<&Path>,
    tokenizer: Option<&Path>,
    cache: &Path,
) -> Result<Dataset<Tokenized>, DataError> {
    if sequence < LEAST_PASSAGE {
        return Err(DataError::Passage {
            given: sequence,
            least: LEAST_PASSAGE,
        });
    }
    match kind {
        DatasetKind::Text => {
            let data = data.ok_or(DataError::NoPath)?;
            let tokenizer = TextTokenizer::open(tokenizer.ok_or(DataError::NoTokenizer)?)?;
            of_files(wanted, sequence as usize, data, &tokenizer, cache)
        }
        DatasetKind::SyntheticText => {
            let tokenizer = tokenizer.map(TextTokenizer::open).transpose()?;
            synthetic(wanted, sequence, tokenizer.as_ref(), cache)
        }
        DatasetKind::SyntheticReviews
        | DatasetKind::Reviews
        | DatasetKind::SyntheticImages
        | DatasetKind::Images
        | DatasetKind::Own => unreachable!("neither reviews nor images are running text"),
    }
}

/// Whether there is running text at a path: a text file, JSON lines without labels, or a folder with parts of either.
pub(super) fn is_at(path: &Path) -> bool {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let has_text = |path: &Path| Form::of(&name(path)).is_some_and(|form| !form.has_labels(path));
    if path.is_file() {
        return has_text(path);
    }
    let entries = imdb_folder::entries(path).unwrap_or_default();
    let parts = || entries.iter().filter(|(name, _)| part_of(name).is_some());
    !imdb_folder::is_one(path)
        && parts().all(|(name, _)| delimited::Format::of(name).is_none())
        && parts().any(|(_, path)| path.is_file() && has_text(path))
}

/// A document of a corpus: its part, the characters in it and the hash of its text.
type Looked = (Part, u64, [u8; 32]);

/// What a corpus holds, document by document.
pub(super) fn looked_at(path: &Path) -> Result<(Corpus, Vec<Looked>), DataError> {
    let corpus = Corpus::find(path)?;
    let mut documents: Vec<Looked> = vec![];
    let mut hasher = blake3::Hasher::new();
    corpus.pieces(PIECE, &mut |piece| {
        if piece.begins {
            hasher.reset();
            documents.push((piece.part, 0, [0; 32]));
        }
        hasher.update(piece.text.as_bytes());
        if let Some((_, characters, hash)) = documents.last_mut() {
            *characters += piece.text.chars().count() as u64;
            *hash = *hasher.finalize().as_bytes();
        }
        Ok(())
    })?;
    Ok((corpus, documents))
}

fn of_files(
    wanted: &Wanted,
    sequence: usize,
    data: &Path,
    tokenizer: &TextTokenizer,
    cache: &Path,
) -> Result<Dataset<Tokenized>, DataError> {
    let corpus = Corpus::find(data)?;
    let hash = corpus.hash()?;
    let mut inputs = token_file::hasher();
    inputs.update(format!("{hash}\n{}\n{PIECE}", tokenizer.hash()).as_bytes());
    let tokens = corpus.tokens(
        tokenizer,
        &token_file::file_in(cache, &inputs.finalize()),
        (PIECE, BLOCK),
    )?;
    let given = passages(&tokens.documents, sequence);
    let name = format!("{}{}", corpus.name, wanted.remark(&given));
    let divided = wanted.of(given)?;
    let part = |places: Vec<Range<usize>>| {
        asked(
            Tokenized::at(tokens.ids.clone(), places),
            sequence,
            tokenizer.vocabulary(),
        )
    };
    Ok(Dataset {
        train: part(divided.train),
        validation: part(divided.validation),
        test: part(divided.test),
        classes: tokenizer.vocabulary(),
        source: DataSource {
            name,
            hash: short(hash),
            synthetic: false,
        },
    })
}

fn asked(part: Tokenized, sequence: usize, vocabulary: u32) -> Tokenized {
    part.padded_to(sequence)
        .of_vocabulary(vocabulary)
        .asking_for_words()
}

/// Where the passages of each part are: each but the last of a document has `sequence` tokens, the first of which is the last of the
/// one before it. One token alone predicts nothing.
fn passages(documents: &[Document], sequence: usize) -> Given<Range<usize>> {
    let has = |part| documents.iter().any(|document| document.part == part);
    let mut given = Given {
        train: vec![],
        validation: has(Part::Validation).then(Vec::new),
        test: has(Part::Test).then(Vec::new),
    };
    let mut begin = 0;
    for document in documents {
        let end = begin + document.tokens;
        let places = (begin..end).step_by(sequence - 1).filter(|start| start + 1 < end);
        let places = places.map(|start| start..end.min(start + sequence));
        match document.part {
            Part::Train => given.train.extend(places),
            Part::Validation => given.validation.get_or_insert_default().extend(places),
            Part::Test => given.test.get_or_insert_default().extend(places),
        }
        begin = end;
    }
    given
}

fn synthetic(
    wanted: &Wanted,
    sequence: u32,
    tokenizer: Option<&TextTokenizer>,
    folder: &Path,
) -> Result<Dataset<Tokenized>, DataError> {
    let (wanted, split) = sizes(wanted);
    let count = |size: Option<u32>| size.unwrap_or_default() as usize;
    let training = count(split.train) + split.validation as usize;
    let texts = synthetic_passages(split.seed, training + count(split.test), sequence as usize);
    let mut hasher = blake3::Hasher::new();
    texts.iter().for_each(|text| {
        hasher.update(text.as_bytes()).update(b"\n");
    });
    let source = DataSource {
        name: format!("synthetic text, seed {}", split.seed),
        hash: short(hasher.finalize()),
        synthetic: true,
    };
    let words = tokenizer.map_or_else(|| "words".to_owned(), |tokenizer| tokenizer.hash().to_string());
    let mut inputs = cache::hasher();
    inputs.update(format!("text {}\n{wanted:?}\n{sequence}\n{words}", source.hash).as_bytes());
    let file = cache::file_in(folder, &inputs.finalize());
    let entry = match cache::load(&file) {
        Some(entry) => entry,
        None => {
            let entry = synthetic_entry(texts, (&wanted, &split), sequence, tokenizer)?;
            cache::store(&file, &entry)?;
            entry
        }
    };
    let vocabulary = entry.vocabulary_size;
    let part = |part: Tokenized| asked(part, sequence as usize, vocabulary);
    Ok(Dataset {
        train: part(entry.train),
        validation: part(entry.validation),
        test: part(entry.test),
        classes: vocabulary,
        source,
    })
}

/// The first tokens of each text, as many as a passage has.
fn synthetic_entry(
    mut texts: Vec<String>,
    (wanted, split): (&Wanted, &Split),
    sequence: u32,
    tokenizer: Option<&TextTokenizer>,
) -> Result<Entry, DataError> {
    let test = texts.split_off(texts.len() - split.test.unwrap_or_default() as usize);
    let divided = wanted.of(Given {
        train: texts,
        validation: None,
        test: Some(test),
    })?;
    let vocabulary = Vocabulary::synthetic();
    let vocabulary_size = tokenizer.map_or(vocabulary.len(), TextTokenizer::vocabulary);
    // With the `[SEP]` that comes last there is one token more.
    let words = Tokenizer::new(&vocabulary, sequence + 1)?;
    let tokens = |texts: Vec<String>| -> Result<Tokenized, DataError> {
        let mut passages = Tokenized::new(0);
        match tokenizer {
            Some(tokenizer) => {
                let encode = |text: &String| tokenizer.encode(text);
                let all: Vec<_> = texts.par_iter().map(encode).collect::<Result<_, _>>()?;
                for ids in all {
                    passages.push(&ids[..ids.len().min(sequence as usize)], 0);
                }
            }
            None => {
                let examples = texts.into_iter().map(|text| Example { label: 0, text });
                let all = words.tokenize(&examples.collect::<Vec<_>>())?;
                for index in 0..all.labels().len() {
                    let (_, ids) = all.ids(index).split_last().unwrap_or((&0, &[]));
                    passages.push(ids, 0);
                }
            }
        }
        Ok(passages)
    };
    Ok(Entry {
        train: tokens(divided.train)?,
        validation: tokens(divided.validation)?,
        test: tokens(divided.test)?,
        classes: vocabulary_size,
        vocabulary_size,
    })
}

/// Files of running text.
pub(super) struct Corpus {
    /// The file names; never a whole path.
    pub name: String,
    files: Vec<TextFile>,
}

struct TextFile {
    part: Part,
    path: PathBuf,
    form: Form,
}

/// How a file of running text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// A JSON object a line; else text.
    lines: bool,
    gzip: bool,
}

impl Form {
    /// The form that a file's name tells.
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let (stem, gzip) = lower
            .strip_suffix(".gz")
            .map_or((lower.as_str(), false), |stem| (stem, true));
        let lines = json_lines::are_in(name);
        // WikiText's files are `wiki.test.tokens` and `wiki.test.raw`.
        let is_text = [".txt", ".text", ".tokens", ".raw"]
            .iter()
            .any(|end| stem.ends_with(end));
        (lines || is_text).then_some(Self { lines, gzip })
    }

    /// Whether the first line of a file of JSON lines has a label.
    fn has_labels(self, path: &Path) -> bool {
        let first = || -> Option<Line> {
            let mut line = String::new();
            let mut reader = self.open(path).ok()?.take(LONGEST_LINE as u64);
            reader.read_line(&mut line).ok()?;
            Line::read(&line).ok()
        };
        self.lines && first().is_some_and(|line| line.label().is_some())
    }

    fn open(self, path: &Path) -> std::io::Result<Box<dyn BufRead>> {
        let file = File::open(path)?;
        Ok(match self.gzip {
            true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
            false => Box::new(BufReader::new(file)),
        })
    }
}

/// A piece of a document.
struct Piece<'a> {
    part: Part,
    /// It is the first of its document.
    begins: bool,
    text: &'a str,
}

/// What takes pieces, one after the other.
type Taker<'a> = dyn FnMut(Piece<'_>) -> Result<(), DataError> + 'a;

impl Corpus {
    fn find(path: &Path) -> Result<Self, DataError> {
        let no_text = |reason: String| DataError::NoText {
            path: path.to_owned(),
            reason,
        };
        let full = fs::canonicalize(path).map_err(DataError::read(path))?;
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let mut files = vec![];
        if full.is_dir() {
            for (name, path) in imdb_folder::entries(path)? {
                if let (Some(form), Some(part)) = (Form::of(&name), part_of(&name)) {
                    files.push(TextFile { part, path, form });
                }
            }
            files.sort_by_key(|file| file.part);
            if let Some(pair) = files.windows(2).find(|pair| pair[0].part == pair[1].part) {
                let names = format!("`{}` or `{}`?", name(&pair[0].path), name(&pair[1].path));
                return Err(no_text(format!("two files for one part, {names}")));
            }
            if files.is_empty() {
                return Err(no_text("no file whose name speaks of a part".to_owned()));
            }
        } else {
            let form = Form::of(&name(path))
                .ok_or_else(|| no_text("its name ends in neither `.txt` nor `.jsonl`".to_owned()))?;
            files.push(TextFile {
                part: Part::Train,
                path: full.clone(),
                form,
            });
        }
        let names: Vec<_> = files.iter().map(|file| name(&file.path)).collect();
        Ok(Self {
            name: names.join(", "),
            files,
        })
    }

    /// BLAKE3 over part, form and contents of every file; their names do not matter.
    pub fn hash(&self) -> Result<blake3::Hash, DataError> {
        let mut all = blake3::Hasher::new();
        for file in &self.files {
            let read = || -> std::io::Result<blake3::Hash> {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(File::open(&file.path)?)?;
                Ok(hasher.finalize())
            };
            let hash = read().map_err(DataError::read(&file.path))?;
            all.update(format!("{:?}\0{:?}\0{hash}\n", file.part, file.form).as_bytes());
        }
        Ok(all.finalize())
    }

    /// Its ids, from the file `stored` if they are there. `piece`: bytes of text that are encoded at a time, and `block`, in parallel.
    fn tokens(
        &self,
        tokenizer: &TextTokenizer,
        stored: &Path,
        (piece, block): (usize, usize),
    ) -> Result<Tokens, DataError> {
        if let Some(tokens) = token_file::load(stored) {
            return Ok(tokens);
        }
        let mut writer = token_file::Writer::new(stored)?;
        let mut waiting: Vec<(Part, bool, String)> = vec![];
        let mut bytes = 0;
        let mut encode = |waiting: &mut Vec<(Part, bool, String)>| -> Result<(), DataError> {
            let ids: Vec<Vec<u32>> = waiting
                .par_iter()
                .map(|(_, begins, text)| tokenizer.encode_part(text, *begins))
                .collect::<Result<_, _>>()?;
            for ((part, begins, _), ids) in waiting.drain(..).zip(ids) {
                writer.add(part, begins, &ids)?;
            }
            Ok(())
        };
        self.pieces(piece, &mut |piece| {
            bytes += piece.text.len();
            waiting.push((piece.part, piece.begins, piece.text.to_owned()));
            if bytes < block {
                return Ok(());
            }
            bytes = 0;
            encode(&mut waiting)
        })?;
        encode(&mut waiting)?;
        writer.finish()?;
        token_file::load(stored).ok_or_else(|| {
            let gone = std::io::Error::other("it changed as soon as it was written");
            DataError::read(stored)(gone)
        })
    }

    /// Gives away every document in pieces of at most `limit` bytes.
    fn pieces(&self, limit: usize, take: &mut Taker<'_>) -> Result<(), DataError> {
        for file in &self.files {
            let mut documents = 0;
            let mut take = |piece: Piece<'_>| {
                documents += usize::from(piece.begins);
                take(piece)
            };
            match file.form.lines {
                true => file.lines(limit, &mut take)?,
                false => file.text(limit, &mut take)?,
            }
            if documents == 0 {
                return Err(DataError::NoText {
                    path: file.path.clone(),
                    reason: "there is nothing but space in it".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl TextFile {
    fn open(&self) -> Result<Box<dyn BufRead>, DataError> {
        self.form.open(&self.path).map_err(DataError::read(&self.path))
    }

    /// What went wrong with reading after so many lines.
    fn failed(&self, lines: u64) -> impl FnOnce(std::io::Error) -> DataError {
        move |error| match self.form.gzip {
            true => LineProblem::Compression(error.to_string()).at(&self.path, lines + 1),
            false => DataError::read(&self.path)(error),
        }
    }

    /// Every line is a document; empty ones, and empty texts, are none.
    fn lines(&self, limit: usize, take: &mut Taker<'_>) -> Result<(), DataError> {
        let mut reader = self.open()?;
        let mut bytes = vec![];
        for number in 1.. {
            bytes.clear();
            let most = LONGEST_LINE as u64 + 1;
            let read = reader.by_ref().take(most).read_until(b'\n', &mut bytes);
            if read.map_err(self.failed(number - 1))? == 0 {
                break;
            }
            let at = |problem: LineProblem| problem.at(&self.path, number);
            if bytes.len() > LONGEST_LINE {
                return Err(at(LineProblem::LongLine {
                    mib: LONGEST_LINE >> 20,
                }));
            }
            let line = str::from_utf8(&bytes).map_err(|_| at(LineProblem::NotUtf8))?;
            let line = line.trim_start_matches('\u{feff}').trim();
            if line.is_empty() {
                continue;
            }
            let line = Line::read(line).map_err(at)?;
            let text = line.text().map_err(at)?;
            if !text.trim().is_empty() {
                for (index, text) in subwords::parts(text, limit).enumerate() {
                    take(Piece {
                        part: self.part,
                        begins: index == 0,
                        text,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Documents stand between marks.
    fn text(&self, limit: usize, take: &mut Taker<'_>) -> Result<(), DataError> {
        let mut reader = self.open()?;
        let mut cutter = Cutter {
            part: self.part,
            limit,
            begun: false,
            waiting: String::new(),
        };
        let (mut bytes, mut lines, mut first) = (vec![], 0, true);
        loop {
            let read = reader.by_ref().take(READ as u64).read_to_end(&mut bytes);
            let read = read.map_err(self.failed(lines))?;
            let valid = match str::from_utf8(&bytes) {
                Ok(text) => text.len(),
                // A character whose end comes next.
                Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
                Err(error) => {
                    lines += line_ends(&bytes[..error.valid_up_to()]);
                    return Err(LineProblem::NotUtf8.at(&self.path, lines + 1));
                }
            };
            lines += line_ends(&bytes[..valid]);
            let text = str::from_utf8(&bytes[..valid]).unwrap_or_default();
            let text = match first {
                true => text.strip_prefix('\u{feff}').unwrap_or(text),
                false => text,
            };
            first &= valid == 0;
            cutter.add(text, take)?;
            bytes.drain(..valid);
            if read == 0 {
                return cutter.finish(take);
            }
        }
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Cuts running text into documents, and long ones into pieces.
struct Cutter {
    part: Part,
    /// Most bytes of a piece.
    limit: usize,
    /// Whether a piece of the present document has been given away.
    begun: bool,
    /// Text whose end may not be known.
    waiting: String,
}

impl Cutter {
    /// Takes text in and gives away what is sure to be a piece.
    fn add(&mut self, text: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.push_str(text);
        let mut rest = waiting.as_str();
        while let Some((document, after)) = rest.split_once(MARK) {
            self.end(document, take)?;
            rest = after;
        }
        // A mark may have begun at the end.
        rest = self.pieces(rest, MARK.len(), take)?;
        self.waiting = rest.to_owned();
        Ok(())
    }

    /// Gives away the last document.
    fn finish(mut self, take: &mut Taker<'_>) -> Result<(), DataError> {
        let rest = std::mem::take(&mut self.waiting);
        self.end(&rest, take)
    }

    /// Gives away what is left of a document.
    fn end(&mut self, rest: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let rest = self.pieces(rest, 0, take)?.trim_end();
        if !rest.is_empty() {
            self.give(rest, take)?;
        }
        self.begun = false;
        Ok(())
    }

    /// Gives away pieces until no more than the limit and `more` bytes are left.
    fn pieces<'a>(
        &mut self,
        mut rest: &'a str,
        more: usize,
        take: &mut Taker<'_>,
    ) -> Result<&'a str, DataError> {
        if !self.begun {
            rest = rest.trim_start();
        }
        while rest.len() > self.limit + more {
            let (piece, after) = rest.split_at(subwords::end_of_part(rest, self.limit));
            self.give(piece, take)?;
            rest = after;
        }
        Ok(rest)
    }

    /// Gives away a piece.
    fn give(&mut self, text: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let begins = !self.begun;
        self.begun = true;
        take(Piece {
            part: self.part,
            begins,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, io::Write};

    use flate2::{Compression, write::GzEncoder};

    use super::*;
    use crate::data::{Part as _, kind_of};

    /// A folder with these files.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    /// A tokenizer with a piece for every small letter, and some words.
    fn tokenizer() -> tempfile::TempDir {
        let letters: Vec<String> = ('a'..='z').map(String::from).collect();
        let mut pieces: Vec<(&str, f32)> = letters.iter().map(|letter| (letter.as_str(), -9.0)).collect();
        pieces.extend([
            (" ", -9.0),
            (" t", -1.0),
            ("th", -2.0),
            (" th", -3.0),
            (" the", -4.0),
        ]);
        folder(&[("tok.bin", &subwords::llama2c_file(&pieces))])
    }

    fn opened(tokenizer: &tempfile::TempDir) -> TextTokenizer {
        TextTokenizer::open(&tokenizer.path().join("tok.bin")).unwrap()
    }

    fn load(
        wanted: &Wanted,
        sequence: u32,
        data: &Path,
        cache: &Path,
    ) -> Result<Dataset<Tokenized>, DataError> {
        let tokenizer = tokenizer();
        let file = tokenizer.path().join("tok.bin");
        load_passages(
            DatasetKind::Text,
            wanted,
            sequence,
            Some(data),
            Some(&file),
            cache,
        )
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// The documents of a file, each as its pieces.
    fn documents(name: &str, bytes: &[u8], limit: usize) -> Result<Vec<Vec<String>>, String> {
        let folder = folder(&[(name, bytes)]);
        let corpus = Corpus::find(&folder.path().join(name)).unwrap();
        let mut documents: Vec<Vec<String>> = vec![];
        let all = corpus.pieces(limit, &mut |piece| {
            if piece.begins {
                documents.push(vec![]);
            }
            documents.last_mut().unwrap().push(piece.text.to_owned());
            Ok(())
        });
        all.map_err(|error| {
            let error = error.to_string();
            error[error.find(name).unwrap()..].to_owned()
        })?;
        Ok(documents)
    }

    #[test]
    fn a_text_is_cut_at_marks_and_its_documents_are_trimmed() {
        let of = |text: &str| documents("a.txt", text.as_bytes(), PIECE).unwrap();
        let all = of("\u{feff} One.\n\n<|endoftext|>\nTwo\n lines. <|endoftext|><|endoftext|> \nThree");
        assert_eq!(all, [["One."], ["Two\n lines."], ["Three"]]);
        assert_eq!(of("\n all of it <|endof \n"), [["all of it <|endof"]]);
    }

    #[test]
    fn wherever_a_text_is_cut_for_reading_its_documents_are_the_same() {
        let text =
            "  the first of a few é documents<|endoftext|> and\nthe second 中国 <|endoftext|>last ".repeat(3);
        for limit in [16, 24, 64, PIECE] {
            let mut expected: Vec<Vec<String>> = vec![];
            for document in text
                .split(MARK)
                .map(str::trim)
                .filter(|document| !document.is_empty())
            {
                expected.push(subwords::parts(document, limit).map(str::to_owned).collect());
            }
            for size in 1..40 {
                let mut found: Vec<Vec<String>> = vec![];
                let mut take = |piece: Piece<'_>| {
                    if piece.begins {
                        found.push(vec![]);
                    }
                    found.last_mut().unwrap().push(piece.text.to_owned());
                    Ok(())
                };
                let mut cutter = Cutter {
                    part: Part::Train,
                    limit,
                    begun: false,
                    waiting: String::new(),
                };
                let letters: Vec<char> = text.chars().collect();
                for some in letters.chunks(size) {
                    cutter.add(&some.iter().collect::<String>(), &mut take).unwrap();
                }
                cutter.finish(&mut take).unwrap();
                assert_eq!(found, expected, "limit {limit}, {size} characters at a time");
            }
        }
    }

    #[test]
    fn a_character_that_two_reads_share_is_whole() {
        let text = format!("{}é {}", "a".repeat(READ - 1), "b".repeat(READ));
        let all = documents("a.txt", text.as_bytes(), 4 * READ).unwrap();
        assert_eq!(all, [[text]]);
    }

    #[test]
    fn every_line_of_json_is_a_document() {
        let lines =
            "{\"text\": \" a\\nb \", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"text\": \"c<|endoftext|>d\"}";
        let expected = [[" a\nb "], ["c<|endoftext|>d"]];
        assert_eq!(documents("a.jsonl", lines.as_bytes(), PIECE).unwrap(), expected);
        assert_eq!(documents("a.jsonl.gz", &gzip(lines), PIECE).unwrap(), expected);
        let long = "{\"text\": \"one two three four\"}";
        let pieces = [["one two", " three", " four"]];
        assert_eq!(documents("a.jsonl", long.as_bytes(), 8).unwrap(), pieces);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_line() {
        let error = |name: &str, bytes: &[u8]| documents(name, bytes, PIECE).unwrap_err();
        assert!(error("a.txt", b"one\ntwo \xff\n").starts_with("a.txt:2: not UTF-8"));
        assert!(error("a.txt", b"one\ntwo \xc3").starts_with("a.txt:2: not UTF-8"));
        assert!(
            error("a.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"\xff\"}").starts_with("a.jsonl:2: not UTF-8")
        );
        assert!(error("a.jsonl", b"{\"text\": \"a\"}\n{\"text\"").starts_with("a.jsonl:2: no JSON object: "));
        assert!(error("a.jsonl", b"{\"body\": \"a\"}").starts_with("a.jsonl:1: no column for the text"));
        let nothing: [(&str, &[u8]); 4] = [
            ("a.txt", b" \n"),
            ("a.txt", b""),
            ("a.txt", b"<|endoftext|>\n"),
            ("a.jsonl", b"\n{\"text\": \" \"}\n"),
        ];
        for (name, bytes) in nothing {
            let error = error(name, bytes);
            assert!(
                error.contains("there is nothing but space in it\n  hint: "),
                "{error}"
            );
        }
        let long = vec![b' '; LONGEST_LINE + 1];
        assert!(error("a.jsonl", &long).starts_with("a.jsonl:1: a line of more than 64 MiB"));
        let text: String = (0..3000u64)
            .map(|i| format!("line {}\n", i * i * 7919 % 10_007))
            .collect();
        let whole = gzip(&text);
        let cut = error("a.txt.gz", &whole[..whole.len() - 9]);
        assert!(
            cut.contains(": the compressed file is cut off or damaged here: "),
            "{cut}"
        );
    }

    #[test]
    fn a_folder_gives_the_parts_that_its_file_names_speak_of() {
        let files: [(&str, &[u8]); 4] = [
            ("wiki.test.tokens", b"the test"),
            ("wiki.train.tokens.gz", &gzip("the training")),
            ("README.txt", b"no part"),
            ("notes_train.md", b"no text"),
        ];
        let folder_of_parts = folder(&files);
        let corpus = Corpus::find(folder_of_parts.path()).unwrap();
        assert_eq!(corpus.name, "wiki.train.tokens.gz, wiki.test.tokens");
        let error = |files: &[(&str, &[u8])]| Corpus::find(folder(files).path()).err().unwrap().to_string();
        let two = error(&[("train.txt", b"a"), ("train.jsonl", b"{}")]);
        assert!(
            two.contains("two files for one part, `train.jsonl` or `train.txt`?"),
            "{two}"
        );
        assert!(error(&[]).contains("no file whose name speaks of a part"));
        let odd = Corpus::find(&folder_of_parts.path().join("notes_train.md"))
            .err()
            .unwrap();
        assert!(
            odd.to_string()
                .contains("its name ends in neither `.txt` nor `.jsonl`")
        );
    }

    #[test]
    fn running_text_is_told_from_reviews_by_its_files() {
        let kind = |files: &[(&str, &[u8])]| kind_of(folder(files).path());
        assert_eq!(kind(&[("train.txt", b"a")]), DatasetKind::Text);
        assert_eq!(kind(&[("wiki.valid.raw", b"a")]), DatasetKind::Text);
        assert_eq!(kind(&[("train.jsonl", b"{\"text\": \"a\"}")]), DatasetKind::Text);
        let labelled = b"{\"text\": \"a\", \"label\": 1}\n";
        assert_eq!(kind(&[("train.jsonl", labelled)]), DatasetKind::Reviews);
        assert_eq!(
            kind(&[("train.tsv", b"0\ta\n"), ("train.txt", b"a")]),
            DatasetKind::Reviews
        );
        assert_eq!(kind(&[("README.txt", b"a")]), DatasetKind::Reviews);
        let alone = folder(&[("mine.txt", b"a"), ("mine.jsonl", labelled), ("mine.csv", b"0,a")]);
        let kind = |name: &str| kind_of(&alone.path().join(name));
        assert_eq!(kind("mine.txt"), DatasetKind::Text);
        assert_eq!(kind("mine.jsonl"), DatasetKind::Reviews);
        assert_eq!(kind("mine.csv"), DatasetKind::Reviews);
    }

    #[test]
    fn passages_share_a_token_and_each_token_but_the_first_is_predicted_once() {
        let document = |part, tokens| Document { part, tokens };
        let documents = [
            document(Part::Train, 10),
            document(Part::Test, 4),
            document(Part::Train, 1),
            document(Part::Train, 5),
        ];
        let given = passages(&documents, 4);
        assert_eq!(given.train, [0..4, 3..7, 6..10, 15..19, 18..20]);
        assert_eq!(given.validation, None);
        let test: Vec<usize> = given.test.into_iter().flatten().flatten().collect();
        assert_eq!(test, [10, 11, 12, 13]);
        for sequence in 2..12 {
            for tokens in 0..30 {
                let given = passages(&[document(Part::Train, tokens)], sequence);
                let predicted: Vec<usize> = given
                    .train
                    .iter()
                    .flat_map(|place| place.start + 1..place.end)
                    .collect();
                assert_eq!(predicted, (1..tokens).collect::<Vec<_>>());
                assert!(given.train.iter().all(|place| place.len() <= sequence));
            }
        }
    }

    #[test]
    fn a_corpus_that_is_read_in_many_blocks_gives_the_same_tokens_as_in_one() {
        let text = "the thing that they thought of then <|endoftext|> é the other\n thing ".repeat(40);
        let data = folder(&[("train.txt", text.as_bytes()), ("test.txt", b"the end")]);
        let (cache, tokenizer) = (tempfile::tempdir().unwrap(), tokenizer());
        let tokenizer = opened(&tokenizer);
        let corpus = Corpus::find(data.path()).unwrap();
        let tokens = |name: &str, sizes| {
            corpus
                .tokens(&tokenizer, &cache.path().join(name), sizes)
                .unwrap()
        };
        let whole = tokens("whole", (PIECE, BLOCK));
        assert_eq!(whole.documents.len(), 41 + 1);
        let mut at = 0;
        for (document, text) in whole.documents.iter().zip(text.split(MARK)) {
            let ids = &whole.ids[at..at + document.tokens];
            assert_eq!(ids, tokenizer.encode(text.trim()).unwrap());
            at += document.tokens;
        }
        for sizes in [(16, 1), (16, 64), (24, 500), (PIECE, 30)] {
            assert_eq!(tokens(&format!("{sizes:?}"), sizes), whole, "{sizes:?}");
        }
    }

    #[test]
    fn passages_ask_for_the_next_words() {
        let (data, cache) = (folder(&[("mine.txt", b"the")]), tempfile::tempdir().unwrap());
        let data = load(
            &Wanted::Test(None),
            4,
            &data.path().join("mine.txt"),
            cache.path(),
        )
        .unwrap();
        assert_eq!(data.source.name, "mine.txt, which has no test part");
        assert!(!data.source.synthetic);
        let the = 259 + 26 + 4;
        assert_eq!((data.classes, data.test.vocabulary()), (the + 1, the + 1));
        assert_eq!(data.test.ids(0), [1, the]);
        let batch = data.test.batch(&[0]);
        assert_eq!(batch.ids, [1, the as i32, 0, 0]);
        assert_eq!((batch.rows, batch.labels), (vec![0], vec![the as i32]));
    }

    #[test]
    fn what_is_wanted_is_drawn_from_the_passages() {
        let text = "a b c d e f g h i j k l m n o p q r s t u v w x y z".repeat(4);
        let (data, cache) = (
            folder(&[("train.txt", text.as_bytes())]),
            tempfile::tempdir().unwrap(),
        );
        let split = Split {
            join: false,
            train: Some(20),
            validation: 3,
            test: Some(5),
            seed: 1,
        };
        let of = |wanted: &Wanted| load(wanted, 5, data.path(), cache.path()).unwrap();
        let divided = of(&Wanted::Divided(split.clone()));
        let sizes = [divided.train.len(), divided.validation.len(), divided.test.len()];
        assert_eq!(sizes, [20, 3, 5]);
        let all = of(&Wanted::Test(None)).test;
        let part = |part: &Tokenized| (0..part.len()).map(|i| part.ids(i).to_vec()).collect::<Vec<_>>();
        let places: BTreeSet<_> = [&divided.train, &divided.validation, &divided.test]
            .into_iter()
            .flat_map(|part| part.places.iter().map(|place| place.start))
            .collect();
        assert_eq!(places.len(), 28, "none is there twice");
        assert_ne!(part(&divided.train), part(&all)[..20], "they are shuffled");
        assert_eq!(part(&of(&Wanted::Test(Some(7))).test).len(), 7);
        let too_many = Wanted::Divided(Split {
            train: Some(10_000),
            ..split
        });
        let error = load(&too_many, 5, data.path(), cache.path()).err().unwrap();
        assert!(matches!(error, DataError::TooFew { .. }), "{error}");
    }

    #[test]
    fn what_was_tokenised_is_found_again_and_a_damaged_file_is_made_anew() {
        let (data, cache) = (
            folder(&[("test.txt", b"the one that")]),
            tempfile::tempdir().unwrap(),
        );
        let load = || load(&Wanted::Test(None), 8, data.path(), cache.path()).unwrap();
        let first = load();
        let files = || {
            fs::read_dir(cache.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect::<Vec<_>>()
        };
        let [file] = &files()[..] else { panic!("one file") };
        let whole = fs::read(file).unwrap();

        let mut writer = token_file::Writer::new(file).unwrap();
        writer.add(Part::Test, true, &[1, 9, 9]).unwrap();
        writer.finish().unwrap();
        assert_eq!(load().test.ids(0), [1, 9, 9], "a whole file is used");

        fs::remove_file(file).unwrap();
        fs::write(file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(load().test, first.test, "a damaged one is not");
        assert_eq!(fs::read(file).unwrap(), whole, "and is replaced");
        fs::write(data.path().join("test.txt"), "another").unwrap();
        assert_ne!(load().source.hash, first.source.hash);
        assert_eq!(files().len(), 2);
    }

    #[test]
    fn what_is_missing_is_told() {
        let (data, cache) = (folder(&[("test.txt", b"the")]), tempfile::tempdir().unwrap());
        let of = |data: Option<&Path>, sequence| {
            let wanted = Wanted::Test(None);
            let loaded = load_passages(DatasetKind::Text, &wanted, sequence, data, None, cache.path());
            loaded.err().unwrap()
        };
        assert!(matches!(of(None, 8), DataError::NoPath));
        assert!(matches!(of(Some(data.path()), 8), DataError::NoTokenizer));
        assert!(matches!(
            of(Some(data.path()), 1),
            DataError::Passage { given: 1, least: 2 }
        ));
        let divided = Wanted::Divided(Split {
            join: false,
            train: None,
            validation: 0,
            test: None,
            seed: 0,
        });
        let error = load(&divided, 8, data.path(), cache.path()).err().unwrap();
        assert!(
            matches!(error, DataError::TooFew { what: "training", .. }),
            "{error}"
        );
    }

    fn synthetic_of(wanted: &Wanted, tokenizer: Option<&Path>, cache: &Path) -> Dataset<Tokenized> {
        load_passages(DatasetKind::SyntheticText, wanted, 48, None, tokenizer, cache).unwrap()
    }

    #[test]
    fn synthetic_text_needs_no_files_and_fills_every_passage() {
        let cache = tempfile::tempdir().unwrap();
        let split = Split {
            join: false,
            train: Some(30),
            validation: 4,
            test: Some(6),
            seed: 3,
        };
        let data = synthetic_of(&Wanted::Divided(split), None, cache.path());
        assert_eq!(
            [data.train.len(), data.validation.len(), data.test.len()],
            [30, 4, 6]
        );
        assert!(data.source.synthetic);
        assert_eq!(data.source.name, "synthetic text, seed 3");
        assert_eq!(data.classes, data.train.vocabulary());
        const UNKNOWN: u32 = 1;
        const CLS: u32 = 2;
        for index in 0..data.train.len() {
            let ids = data.train.ids(index);
            assert_eq!((ids.len(), ids[0]), (48, CLS));
            assert!(!ids.contains(&UNKNOWN) && ids.iter().all(|id| *id < data.classes));
        }
        assert_eq!(data.train.batch(&[0]).labels.len(), 47);
        let test = Wanted::Test(Some(6));
        let (first, again) = (
            synthetic_of(&test, None, cache.path()),
            synthetic_of(&test, None, cache.path()),
        );
        assert_eq!((first.train.len(), first.test.len()), (0, 6));
        assert_eq!((first.test, first.source.hash), (again.test, again.source.hash));
    }

    #[test]
    fn synthetic_text_may_have_the_tokens_of_a_model() {
        let (tokenizer, cache) = (tokenizer(), tempfile::tempdir().unwrap());
        let file = tokenizer.path().join("tok.bin");
        let data = synthetic_of(&Wanted::Test(Some(3)), Some(&file), cache.path());
        assert_eq!(data.classes, opened(&tokenizer).vocabulary());
        assert!((0..3).all(|index| data.test.ids(index).len() == 48 && data.test.ids(index)[0] == 1));
        let words = synthetic_of(&Wanted::Test(Some(3)), None, cache.path());
        assert_ne!(words.classes, data.classes, "the cache tells them apart");
    }

    #[test]
    fn real_stories_have_as_many_tokens_to_predict_as_the_script_says() {
        let (Some(text), Some(words)) = (
            mantissa_testing::real_data("llama_tiny/tinystories_sample_cs336.txt"),
            mantissa_testing::real_data("llama_tiny/tok512.bin"),
        ) else {
            return;
        };
        let cache = tempfile::tempdir().unwrap();
        let wanted = Wanted::Test(None);
        let data = load_passages(
            DatasetKind::Text,
            &wanted,
            512,
            Some(&text),
            Some(&words),
            cache.path(),
        )
        .unwrap();
        assert_eq!(data.test.len(), 5);
        let batch = data.test.batch(&[0, 1, 2, 3, 4]);
        assert_eq!(batch.lengths, [374, 330, 223, 425, 457]);
        assert_eq!(batch.labels.len(), 374 + 330 + 223 + 425 + 457 - 5);
    }
}
