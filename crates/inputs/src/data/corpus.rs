//! Text for language models: converts files of any size to passages of token ids, without loading the text or the ids into memory.

use std::{ops::Range, path::Path};

use mantissa_core::{DataSource, DatasetKind, Split};
use rayon::prelude::*;

use super::{
    DataError, Dataset, LanguageTask, Tokenized,
    cache::{self, Entry},
    examples::Part,
    masking::Masking,
    passages::{PassageLayout, Passages},
    reviews::{Reading, short_hash, synthetic_sizes},
    split::{PredefinedSplits, RequestedSplits},
    subwords::{MAX_ENCODE_BYTES, TextTokenizer},
    synthetic::synthetic_passages,
    text_files::Corpus,
    token_file::{self, Tokens},
};

/// Number of bytes of text that are encoded in parallel.
const BLOCK_BYTES: usize = 4 << 20;

/// Loads the `requested` splits of running text as passages of at most `sequence` tokens. The field `classes` of the data set is the size of the
/// vocabulary.
///
/// [`Reading::data`] is a text file, a JSON Lines file, or a folder with such files for training, validation and test. The files may be
/// gzipped. In JSON Lines, every line is a document, whose text has the key `text` or the key given by the user. In a text file,
/// `<|endoftext|>` separates documents, and the whitespace around it is removed; a file without this separator is one document. The
/// beginning token, if the tokenizer has one, precedes every document.
///
/// For next-token prediction, a passage shares one token with the previous one, so that every token of a document except the first is
/// predicted exactly once. For masked tokens, passages do not overlap, and each is enclosed in the special tokens of the tokenizer.
///
/// Synthetic text needs no files. Each of its passages consists of the sentences of synthetic reviews. If no tokenizer is given, the tokens
/// are the words of the text generator.
///
/// The ids of a corpus are cached in the folder [`Reading::cache`], under a hash of the corpus and the tokenizer.
///
/// # Errors
/// An error in a file, with file and line; a split that requests more passages than the data has; a tokenizer without the special tokens for masking.
pub fn load_passages(
    (kind, task): (DatasetKind, LanguageTask),
    requested: &RequestedSplits,
    sequence: u32,
    reading: &Reading<'_>,
) -> Result<Dataset<Tokenized>, DataError> {
    if sequence < task.min_sequence() {
        return Err(DataError::Passage {
            requested: sequence,
            minimum: task.min_sequence(),
        });
    }
    let tokenizer = reading.vocabulary.map(TextTokenizer::open).transpose()?;
    match kind {
        DatasetKind::Text => {
            let corpus = Corpus::find(reading.data.ok_or(DataError::NoPath)?, &reading.columns)?;
            let tokenizer = tokenizer.ok_or(DataError::NoTokenizer)?;
            let task = PredictionTask::new(task, sequence, &tokenizer)?;
            from_files(requested, &task, corpus, &tokenizer, reading.cache)
        }
        DatasetKind::SyntheticText => {
            let tokenizer = tokenizer.map_or_else(TextTokenizer::synthetic, Ok)?;
            let task = PredictionTask::new(task, sequence, &tokenizer)?;
            synthetic(requested, &task, &tokenizer, reading.cache)
        }
        DatasetKind::SyntheticReviews
        | DatasetKind::Reviews
        | DatasetKind::SyntheticImages
        | DatasetKind::Images
        | DatasetKind::Own => unreachable!("passages are loaded from running text only"),
    }
}

/// Prediction task on passages.
struct PredictionTask {
    /// Number of tokens in a padded passage.
    sequence: u32,
    vocabulary: u32,
    layout: PassageLayout,
    /// Masking of tokens, if the model predicts masked tokens.
    masking: Option<Masking>,
}

impl PredictionTask {
    fn new(task: LanguageTask, sequence: u32, tokenizer: &TextTokenizer) -> Result<Self, DataError> {
        Ok(Self {
            sequence,
            vocabulary: tokenizer.vocabulary(),
            layout: PassageLayout::new(task, sequence, tokenizer.beginning().is_some()),
            masking: match task {
                LanguageTask::Next => None,
                LanguageTask::Masked => Some(Masking::of(tokenizer)?),
            },
        })
    }

    fn with_task(&self, passages: Tokenized) -> Tokenized {
        let passages = passages
            .padded_to(self.sequence as usize)
            .with_vocabulary_size(self.vocabulary);
        match self.masking {
            None => passages.with_next_token_task(),
            Some(masking) => passages.with_masked_token_task(masking),
        }
    }
}

/// Loads passages of a corpus on disk.
fn from_files(
    requested: &RequestedSplits,
    task: &PredictionTask,
    corpus: Corpus,
    tokenizer: &TextTokenizer,
    cache: &Path,
) -> Result<Dataset<Tokenized>, DataError> {
    let hash = corpus.hash()?;
    let mut inputs = token_file::hasher();
    inputs.update(format!("{hash}\n{}\n{MAX_ENCODE_BYTES}", tokenizer.hash()).as_bytes());
    let stored = token_file::file_in(cache, &inputs.finalize());
    let (tokens, note) = match load_or_encode(&corpus, tokenizer, &stored, (MAX_ENCODE_BYTES, BLOCK_BYTES)) {
        Err(error @ DataError::Io { verb: "write", .. }) => {
            // The file stays mapped after its folder is deleted.
            let folder = tempfile::tempdir().map_err(DataError::write(&std::env::temp_dir()))?;
            let tokens = load_or_encode(
                &corpus,
                tokenizer,
                &folder.path().join("tokens"),
                (MAX_ENCODE_BYTES, BLOCK_BYTES),
            )?;
            (tokens, Some(cache::not_cached_note(&error)))
        }
        tokens => (tokens?, None),
    };
    let passages = Passages::new(&tokens.documents, task.layout)?;
    let predefined = passages.numbers();
    let name = format!("{}{}", corpus.name, requested.name_suffix(&predefined));
    let splits = requested.select(predefined)?;
    let part = |numbers: Vec<u32>| {
        let ranges = numbers.into_iter().map(|number| passages.range(number));
        task.with_task(Tokenized::from_ranges(tokens.ids.clone(), ranges.collect()))
    };
    Ok(Dataset {
        train: part(splits.train),
        validation: part(splits.validation),
        test: part(splits.test),
        classes: task.vocabulary,
        source: DataSource {
            name,
            hash: short_hash(hash),
            synthetic: false,
            notes: corpus.notes.into_iter().chain(note).collect(),
            ..DataSource::default()
        },
    })
}

/// Returns the ids of a corpus, from the file `stored` if it exists. Otherwise splits the text into pieces of at most `piece` bytes and
/// encodes them in parallel, about `block` bytes at a time.
fn load_or_encode(
    corpus: &Corpus,
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
    corpus.pieces(piece, &mut |piece| {
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
        let changed = std::io::Error::other("the file changed right after it was written");
        DataError::read(stored)(changed)
    })
}

fn synthetic(
    requested: &RequestedSplits,
    task: &PredictionTask,
    tokenizer: &TextTokenizer,
    folder: &Path,
) -> Result<Dataset<Tokenized>, DataError> {
    let (requested, split) = synthetic_sizes(requested);
    let sequence = task.sequence;
    let count = |size: Option<u32>| size.unwrap_or_default() as usize;
    let training = count(split.train) + split.validation as usize;
    let texts = synthetic_passages(split.seed, training + count(split.test), sequence as usize);
    let mut hasher = blake3::Hasher::new();
    texts.iter().for_each(|text| {
        hasher.update(text.as_bytes()).update(b"\n");
    });
    let mut source = DataSource {
        name: format!("synthetic text, seed {}", split.seed),
        hash: short_hash(hasher.finalize()),
        synthetic: true,
        ..DataSource::default()
    };
    let mut inputs = cache::hasher();
    let key = format!(
        "text {}\n{requested:?}\n{sequence}\n{}",
        source.hash,
        tokenizer.hash()
    );
    inputs.update(key.as_bytes());
    let file = cache::file_in(folder, &inputs.finalize());
    let make = || synthetic_entry(texts, (&requested, &split), sequence, tokenizer);
    let entry = cache::load_or_create(&file, make)?;
    source.notes = entry.notes;
    let part = |texts: Tokenized| {
        let ranges: Vec<Range<usize>> = texts
            .ranges
            .iter()
            .map(|text| task.layout.first_passage(text))
            .collect();
        task.with_task(Tokenized::from_ranges(texts.ids, ranges))
    };
    Ok(Dataset {
        train: part(entry.train),
        validation: part(entry.validation),
        test: part(entry.test),
        classes: task.vocabulary,
        source,
    })
}

/// Divides the texts into training, validation and test, tokenizes each text, and truncates it to the length of a passage.
fn synthetic_entry(
    mut texts: Vec<String>,
    (requested, split): (&RequestedSplits, &Split),
    sequence: u32,
    tokenizer: &TextTokenizer,
) -> Result<Entry, DataError> {
    let test = texts.split_off(texts.len() - split.test.unwrap_or_default() as usize);
    let splits = requested.select(PredefinedSplits {
        train: texts,
        validation: None,
        test: Some(test),
    })?;
    let tokens = |texts: Vec<String>| -> Result<Tokenized, DataError> {
        let encode = |text: &String| tokenizer.encode(text);
        let all: Vec<_> = texts.par_iter().map(encode).collect::<Result<_, _>>()?;
        let mut passages = Tokenized::new(0);
        for ids in all {
            passages.push(&ids[..ids.len().min(sequence as usize)], 0);
        }
        Ok(passages)
    };
    Ok(Entry {
        train: tokens(splits.train)?,
        validation: tokens(splits.validation)?,
        test: tokens(splits.test)?,
        classes: tokenizer.vocabulary(),
        names: Vec::new(),
        notes: Vec::new(),
        vocabulary_size: tokenizer.vocabulary(),
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{
        super::{ColumnNames, Labelled as _, Part as _, subwords},
        *,
    };
    use crate::data::text_files::DOCUMENT_SEPARATOR;

    /// Creates a folder with these files.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    /// Creates a tokenizer with a piece for every lowercase letter, and some words.
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
        requested: &RequestedSplits,
        sequence: u32,
        data: &Path,
        cache: &Path,
    ) -> Result<Dataset<Tokenized>, DataError> {
        let tokenizer = tokenizer();
        let file = tokenizer.path().join("tok.bin");
        load_passages(
            (DatasetKind::Text, LanguageTask::Next),
            requested,
            sequence,
            &Reading::new(Some(data), Some(&file), cache),
        )
    }

    #[test]
    fn the_tokens_of_a_corpus_do_not_depend_on_the_block_size() {
        let text = "the thing that they thought of then <|endoftext|> é the other\n thing ".repeat(40);
        let data = folder(&[("train.txt", text.as_bytes()), ("test.txt", b"the end")]);
        let (cache, tokenizer) = (tempfile::tempdir().unwrap(), tokenizer());
        let tokenizer = opened(&tokenizer);
        let corpus = Corpus::find(data.path(), &ColumnNames::default()).unwrap();
        let read =
            |name: &str, sizes| load_or_encode(&corpus, &tokenizer, &cache.path().join(name), sizes).unwrap();
        let whole = read("whole", (MAX_ENCODE_BYTES, BLOCK_BYTES));
        assert_eq!(whole.documents.len(), 41 + 1);
        let mut at = 0;
        for (document, text) in whole.documents.iter().zip(text.split(DOCUMENT_SEPARATOR)) {
            let ids = &whole.ids[at..at + document.tokens];
            assert_eq!(ids, tokenizer.encode(text.trim()).unwrap());
            at += document.tokens;
        }
        for sizes in [(16, 1), (16, 64), (24, 500), (MAX_ENCODE_BYTES, 30)] {
            assert_eq!(read(&format!("{sizes:?}"), sizes), whole, "{sizes:?}");
        }
    }

    #[test]
    fn text_is_read_from_the_configured_key() {
        let lines = "{\"text\": \"no\", \"story\": \"the\"}\n";
        let (data, cache) = (
            folder(&[("mine.jsonl", lines.as_bytes()), ("mine.txt", b"the")]),
            tempfile::tempdir().unwrap(),
        );
        let tokenizer = tokenizer();
        let vocabulary = tokenizer.path().join("tok.bin");
        let load = |name: &str, column: Option<&str>| {
            let path = data.path().join(name);
            let mut reading = Reading::new(Some(&path), Some(&vocabulary), cache.path());
            reading.columns.text = column.map(str::to_owned);
            load_passages(
                (DatasetKind::Text, LanguageTask::Next),
                &RequestedSplits::Test(None),
                4,
                &reading,
            )
        };
        let (default_key, story_key) = (
            load("mine.jsonl", None).unwrap(),
            load("mine.jsonl", Some("story")).unwrap(),
        );
        assert_eq!(story_key.test.ids(0), load("mine.txt", None).unwrap().test.ids(0));
        assert_ne!(default_key.test.ids(0), story_key.test.ids(0));
        assert_ne!(default_key.source.hash, story_key.source.hash);
        let error = |name, column| load(name, Some(column)).err().unwrap().to_string();
        assert!(error("mine.jsonl", "title").contains("no text column found"));
        assert!(error("mine.txt", "story").contains("`--text-column` does not apply"));
    }

    #[test]
    fn passages_predict_the_next_token() {
        let (data, cache) = (folder(&[("mine.txt", b"the")]), tempfile::tempdir().unwrap());
        let data = load(
            &RequestedSplits::Test(None),
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
    fn masked_tokens_need_a_tokenizer_with_a_mask_token() {
        let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n";
        let files = folder(&[
            ("mine.txt", b"a b c a b c a"),
            ("vocab.txt", vocabulary.as_bytes()),
            ("bare.txt", vocabulary.replace("[MASK]\n", "").as_bytes()),
        ]);
        let cache = tempfile::tempdir().unwrap();
        let load = |sequence, vocabulary: &str| {
            load_passages(
                (DatasetKind::Text, LanguageTask::Masked),
                &RequestedSplits::Test(None),
                sequence,
                &Reading::new(
                    Some(&files.path().join("mine.txt")),
                    Some(&files.path().join(vocabulary)),
                    cache.path(),
                ),
            )
        };
        let test = load(6, "vocab.txt").unwrap().test;
        assert_eq!([test.ids(0), test.ids(1)], [&[5, 6, 7, 5][..], &[6, 7, 5]]);
        let batch = test.batch(&[0, 1]);
        assert_eq!(
            (batch.lengths.clone(), batch.label_counts()),
            (vec![6, 5], vec![1, 1])
        );
        assert_eq!(
            [batch.ids[0], batch.ids[5], batch.ids[6], batch.ids[10]],
            [2, 3, 2, 3]
        );
        assert!(matches!(
            load(2, "vocab.txt"),
            Err(DataError::Passage {
                requested: 2,
                minimum: 3
            })
        ));
        assert!(matches!(
            load(6, "bare.txt"),
            Err(DataError::MissingSpecialTokens)
        ));
    }

    #[test]
    fn splits_are_drawn_from_shuffled_passages() {
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
        let load_splits =
            |requested: &RequestedSplits| load(requested, 5, data.path(), cache.path()).unwrap();
        let splits = load_splits(&RequestedSplits::TrainAndTest(split.clone()));
        let sizes = [splits.train.len(), splits.validation.len(), splits.test.len()];
        assert_eq!(sizes, [20, 3, 5]);
        let all = load_splits(&RequestedSplits::Test(None)).test;
        let part = |part: &Tokenized| (0..part.len()).map(|i| part.ids(i).to_vec()).collect::<Vec<_>>();
        let starts: BTreeSet<_> = [&splits.train, &splits.validation, &splits.test]
            .into_iter()
            .flat_map(|part| part.ranges.iter().map(|range| range.start))
            .collect();
        assert_eq!(starts.len(), 28, "no passage occurs twice");
        assert_ne!(
            part(&splits.train),
            part(&all)[..20],
            "the training passages are shuffled"
        );
        assert_eq!(part(&load_splits(&RequestedSplits::Test(Some(7))).test).len(), 7);
        let too_many = RequestedSplits::TrainAndTest(Split {
            train: Some(10_000),
            ..split
        });
        let error = load(&too_many, 5, data.path(), cache.path()).err().unwrap();
        assert!(matches!(error, DataError::TooFew { .. }), "{error}");
    }

    #[test]
    fn tokens_are_cached_and_a_damaged_file_is_recreated() {
        let (data, cache) = (
            folder(&[("test.txt", b"the one that")]),
            tempfile::tempdir().unwrap(),
        );
        let load = || load(&RequestedSplits::Test(None), 8, data.path(), cache.path()).unwrap();
        let first = load();
        let files = || {
            fs::read_dir(cache.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect::<Vec<_>>()
        };
        let [file] = &files()[..] else {
            panic!("expected one file")
        };
        let whole = fs::read(file).unwrap();

        let mut writer = token_file::Writer::new(file).unwrap();
        writer.add(Part::Test, true, &[1, 9, 9]).unwrap();
        writer.finish().unwrap();
        assert_eq!(load().test.ids(0), [1, 9, 9], "an intact file is used");

        fs::remove_file(file).unwrap();
        fs::write(file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(load().test, first.test, "a damaged file is not used");
        assert_eq!(fs::read(file).unwrap(), whole, "a damaged file is replaced");
        fs::write(data.path().join("test.txt"), "another").unwrap();
        assert_ne!(load().source.hash, first.source.hash);
        assert_eq!(files().len(), 2);
    }

    #[test]
    fn missing_data_or_tokenizer_and_short_sequences_are_errors() {
        let (data, cache) = (folder(&[("test.txt", b"the")]), tempfile::tempdir().unwrap());
        let load_error = |data: Option<&Path>, sequence| {
            let requested = RequestedSplits::Test(None);
            let loaded = load_passages(
                (DatasetKind::Text, LanguageTask::Next),
                &requested,
                sequence,
                &Reading::new(data, None, cache.path()),
            );
            loaded.err().unwrap()
        };
        assert!(matches!(load_error(None, 8), DataError::NoPath));
        assert!(matches!(load_error(Some(data.path()), 8), DataError::NoTokenizer));
        assert!(matches!(
            load_error(Some(data.path()), 1),
            DataError::Passage {
                requested: 1,
                minimum: 2
            }
        ));
        let splits = RequestedSplits::TrainAndTest(Split {
            join: false,
            train: None,
            validation: 0,
            test: None,
            seed: 0,
        });
        let error = load(&splits, 8, data.path(), cache.path()).err().unwrap();
        assert!(
            matches!(error, DataError::TooFew { what: "training", .. }),
            "{error}"
        );
    }

    fn synthetic_of(
        requested: &RequestedSplits,
        tokenizer: Option<&Path>,
        cache: &Path,
    ) -> Dataset<Tokenized> {
        load_passages(
            (DatasetKind::SyntheticText, LanguageTask::Next),
            requested,
            48,
            &Reading::new(None, tokenizer, cache),
        )
        .unwrap()
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
        let data = synthetic_of(&RequestedSplits::TrainAndTest(split), None, cache.path());
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
        let test = RequestedSplits::Test(Some(6));
        let (first, again) = (
            synthetic_of(&test, None, cache.path()),
            synthetic_of(&test, None, cache.path()),
        );
        assert_eq!((first.train.len(), first.test.len()), (0, 6));
        assert_eq!((first.test, first.source.hash), (again.test, again.source.hash));
    }

    #[test]
    fn synthetic_text_can_use_the_tokenizer_of_a_model() {
        let (tokenizer, cache) = (tokenizer(), tempfile::tempdir().unwrap());
        let file = tokenizer.path().join("tok.bin");
        let data = synthetic_of(&RequestedSplits::Test(Some(3)), Some(&file), cache.path());
        assert_eq!(data.classes, opened(&tokenizer).vocabulary());
        assert!((0..3).all(|index| data.test.ids(index).len() == 48 && data.test.ids(index)[0] == 1));
        let words = synthetic_of(&RequestedSplits::Test(Some(3)), None, cache.path());
        assert_ne!(
            words.classes, data.classes,
            "the cache key depends on the tokenizer"
        );
    }

    #[test]
    fn real_stories_have_the_expected_number_of_predicted_tokens() {
        let [text, words] =
            ["stories.txt", "tok512.bin"].map(|file| mantissa_testing::shipped(&format!("stories/{file}")));
        let cache = tempfile::tempdir().unwrap();
        let requested = RequestedSplits::Test(None);
        let data = load_passages(
            (DatasetKind::Text, LanguageTask::Next),
            &requested,
            512,
            &Reading::new(Some(&text), Some(&words), cache.path()),
        )
        .unwrap();
        assert_eq!(data.test.len(), 5);
        let batch = data.test.batch(&[0, 1, 2, 3, 4]);
        assert_eq!(batch.lengths, [374, 330, 223, 425, 457]);
        assert_eq!(batch.labels.len(), 374 + 330 + 223 + 425 + 457 - 5);
    }
}
