//! Loads labelled texts as token ids.

use std::path::Path;

use mantissa_core::{DataSource, DatasetKind, Split};

use super::{
    ColumnNames, DataError, Dataset, KnownClasses, LabelledParts, Tokenized, cache,
    classes::count_classes,
    source::Source,
    split::{PredefinedSplits, RequestedSplits},
    synthetic::{DEFAULT_TEST, DEFAULT_TRAIN, synthetic_reviews},
    tokenizer::Tokenizer,
    truncation::check_length,
    vocabulary::Vocabulary,
};

/// Labelled texts before the split.
enum Corpus {
    Files(Source),
    Synthetic(LabelledParts),
}

/// Paths of text data, and options for reading it.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// Path of the data. Labelled texts are a folder like aclImdb, a file of rows or JSON lines (plain or gzip), or a folder with one file per
    /// part. `None` for synthetic data.
    pub data: Option<&'a Path>,
    /// Column names from the command line.
    pub columns: ColumnNames,
    /// Classes of the checkpoint; `None` without a checkpoint.
    pub known: Option<KnownClasses>,
    /// A `vocab.txt` for labelled texts; any tokenizer for running text. `None` uses the words of the generator for synthetic reviews, and the
    /// words of the training part for other labelled texts.
    pub vocabulary: Option<&'a Path>,
    /// Cache folder for tokenized data. The name of a file is a hash of everything that determines its contents. Damaged files are recreated.
    pub cache: &'a Path,
}

impl<'a> Reading<'a> {
    /// Options for reading `data` with the default column names and without a checkpoint.
    pub fn new(data: Option<&'a Path>, vocabulary: Option<&'a Path>, cache: &'a Path) -> Self {
        Self {
            data,
            columns: ColumnNames::default(),
            known: None,
            vocabulary,
            cache,
        }
    }
}

/// Loads the `requested` splits of the data set `kind`, with at most `sequence` tokens per example.
///
/// # Errors
/// An invalid file, with file and line, or a split that requests more examples than available.
pub fn load_reviews(
    kind: DatasetKind,
    requested: &RequestedSplits,
    sequence: u32,
    reading: &Reading<'_>,
) -> Result<Dataset<Tokenized>, DataError> {
    let (corpus, mut source, requested) = match kind {
        DatasetKind::SyntheticReviews => {
            let (requested, sizes) = synthetic_sizes(requested);
            let (parts, hash) = synthetic(&sizes);
            let name = format!("synthetic reviews, seed {}", sizes.seed);
            (
                Corpus::Synthetic(parts),
                DataSource {
                    name,
                    hash,
                    synthetic: true,
                    ..DataSource::default()
                },
                requested,
            )
        }
        DatasetKind::SyntheticImages
        | DatasetKind::Images
        | DatasetKind::SyntheticText
        | DatasetKind::Text
        | DatasetKind::Own => unreachable!("`load_reviews` is only called for labelled texts"),
        DatasetKind::Reviews => {
            let files = Source::read(reading.data.ok_or(DataError::NoPath)?)?;
            let source = DataSource {
                name: files.name.clone(),
                hash: short_hash(files.hash(&reading.columns)),
                synthetic: false,
                ..DataSource::default()
            };
            (Corpus::Files(files), source, requested.clone())
        }
    };
    let vocabulary = match (reading.vocabulary, &corpus) {
        (Some(path), _) => {
            let vocabulary = Vocabulary::open(path)?;
            check_length(path, sequence)?;
            Some(vocabulary)
        }
        (None, Corpus::Synthetic(_)) => Some(Vocabulary::synthetic()),
        (None, Corpus::Files(_))
            if reading.known.is_some() || matches!(requested, RequestedSplits::Test(_)) =>
        {
            return Err(DataError::NoVocabulary);
        }
        (None, Corpus::Files(_)) => None,
    };

    let description = match &corpus {
        Corpus::Files(files) => files.description(),
        Corpus::Synthetic(_) => String::new(),
    };
    let key = cache_key(
        (&source, &description),
        reading,
        vocabulary.as_ref(),
        &requested,
        sequence,
    );
    let file = cache::file_in(reading.cache, &key);
    let make = || tokenize_corpus(corpus, reading, vocabulary, &requested, sequence);
    let cache::Entry {
        train,
        validation,
        test,
        classes,
        vocabulary_size,
        names,
        notes,
    } = cache::load_or_create(&file, make)?;
    source.notes = notes;
    if !source.synthetic {
        let labels = [&train, &validation, &test].map(|part| part.labels.as_slice());
        let known = reading.known.clone().unwrap_or_default();
        source.classes = count_classes(&known.all_names(classes, names), labels);
    }
    let part = |part: Tokenized| {
        part.padded_to(sequence as usize)
            .with_vocabulary_size(vocabulary_size)
    };
    Ok(Dataset {
        train: part(train),
        validation: part(validation),
        test: part(test),
        classes,
        source,
    })
}

/// Replaces unset sizes of synthetic data by their defaults. Returns the requested splits, and the numbers of examples to generate.
pub(super) fn synthetic_sizes(requested: &RequestedSplits) -> (RequestedSplits, Split) {
    match requested {
        RequestedSplits::TrainAndTest(split) => {
            let split = Split {
                train: split.train.or(Some(DEFAULT_TRAIN)),
                test: split.test.or(Some(DEFAULT_TEST)),
                ..split.clone()
            };
            (RequestedSplits::TrainAndTest(split.clone()), split)
        }
        RequestedSplits::Test(limit) => {
            let test = limit.unwrap_or(DEFAULT_TEST);
            let sizes = Split {
                join: false,
                train: Some(0),
                validation: 0,
                test: Some(test),
                seed: 0,
            };
            (RequestedSplits::Test(Some(test)), sizes)
        }
    }
}

/// Generates the synthetic reviews of a split, and returns them with their hash.
fn synthetic(split: &Split) -> (LabelledParts, String) {
    let (train, test) = (
        split.train.unwrap_or(DEFAULT_TRAIN),
        split.test.unwrap_or(DEFAULT_TEST),
    );
    let training = train as usize + split.validation as usize;
    let mut reviews = synthetic_reviews(split.seed, training + test as usize);
    let mut hasher = blake3::Hasher::new();
    for review in &reviews {
        hasher.update(format!("{}\t{}\n", review.label, review.text).as_bytes());
    }
    let test = reviews.split_off(training);
    let parts = LabelledParts {
        splits: PredefinedSplits {
            train: reviews,
            validation: None,
            test: Some(test),
        },
        classes: 2,
        names: vec![],
        notes: vec![],
    };
    (parts, short_hash(hasher.finalize()))
}

/// Returns the first 16 hex digits of a hash. Recorded runs contain a hash in this form.
pub(super) fn short_hash(hash: blake3::Hash) -> String {
    hash.to_hex()[..16].to_owned()
}

/// Hashes everything that determines the contents of a data set and its notes.
fn cache_key(
    (source, description): (&DataSource, &str),
    reading: &Reading<'_>,
    vocabulary: Option<&Vocabulary>,
    requested: &RequestedSplits,
    sequence: u32,
) -> blake3::Hash {
    let vocabulary = vocabulary.map_or_else(|| "learned".to_owned(), |v| v.cache_key());
    let mut hasher = cache::hasher();
    let read = (&reading.columns, &reading.known);
    hasher.update(
        format!(
            "{}\n{read:?}\n{requested:?}\n{sequence}\n{vocabulary}",
            source.hash
        )
        .as_bytes(),
    );
    hasher.update(description.as_bytes());
    hasher.finalize()
}

/// Parses, splits and tokenizes a corpus.
fn tokenize_corpus(
    corpus: Corpus,
    reading: &Reading<'_>,
    vocabulary: Option<Vocabulary>,
    requested: &RequestedSplits,
    sequence: u32,
) -> Result<cache::Entry, DataError> {
    let parts = match corpus {
        Corpus::Files(files) => {
            let for_training = matches!(requested, RequestedSplits::TrainAndTest(_));
            files.parse(&reading.columns, reading.known.as_ref(), for_training)?
        }
        Corpus::Synthetic(parts) => parts,
    };
    let (classes, names, notes) = (parts.classes, parts.names, parts.notes);
    let splits = requested.select(parts.splits)?;
    let vocabulary = match vocabulary {
        Some(vocabulary) => vocabulary,
        None => Vocabulary::learn(&splits.train)?,
    };
    let tokenizer = Tokenizer::new(&vocabulary, sequence)?;
    Ok(cache::Entry {
        train: tokenizer.tokenize(&splits.train)?,
        validation: tokenizer.tokenize(&splits.validation)?,
        test: tokenizer.tokenize(&splits.test)?,
        classes,
        vocabulary_size: vocabulary.len(),
        names,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use std::{fs, path::PathBuf};

    use super::*;

    fn split(train: Option<u32>, validation: u32, test: Option<u32>) -> Split {
        Split {
            join: false,
            train,
            validation,
            test,
            seed: 1,
        }
    }

    fn load(
        split: &Split,
        data: Option<&Path>,
        vocabulary: Option<&Path>,
        cache: &Path,
    ) -> Dataset<Tokenized> {
        let kind = if data.is_some() {
            DatasetKind::Reviews
        } else {
            DatasetKind::SyntheticReviews
        };
        let reading = Reading {
            data,
            columns: ColumnNames::default(),
            known: None,
            vocabulary,
            cache,
        };
        load_reviews(kind, &RequestedSplits::TrainAndTest(split.clone()), 32, &reading).unwrap()
    }

    fn sizes(data: &Dataset<Tokenized>) -> [usize; 3] {
        [data.train.len(), data.validation.len(), data.test.len()]
    }

    fn ones(part: &Tokenized) -> usize {
        part.labels().iter().filter(|&&label| label == 1).count()
    }

    fn files_in(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// Creates a folder with a small training and test file.
    fn small() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let rows = |n: usize| {
            (0..n)
                .map(|i| format!("{}\tthe film number {i}\n", i % 2))
                .collect::<String>()
        };
        fs::write(folder.path().join("train.tsv"), rows(40)).unwrap();
        fs::write(folder.path().join("test.tsv"), rows(10)).unwrap();
        folder
    }

    #[test]
    fn synthetic_reviews_have_the_sizes_of_the_split() {
        let cache = tempfile::tempdir().unwrap();
        for join in [false, true] {
            let split = Split {
                join,
                ..split(Some(70), 20, Some(30))
            };
            let data = load(&split, None, None, cache.path());
            assert_eq!(sizes(&data), [70, 20, 30]);
            assert!(data.source.synthetic);
            assert_eq!(data.source.name, "synthetic reviews, seed 1");
            assert_eq!(data.classes, 2);
            assert!((400..800).contains(&data.train.vocabulary()));
        }
        let open = load(&split(None, 0, None), None, None, cache.path());
        assert_eq!(sizes(&open), [DEFAULT_TRAIN as usize, 0, DEFAULT_TEST as usize]);
    }

    #[test]
    fn synthetic_reviews_have_no_unknown_words() {
        let cache = tempfile::tempdir().unwrap();
        let data = load(&split(Some(200), 0, Some(10)), None, None, cache.path());
        const UNKNOWN: u32 = 1;
        assert!((0..data.train.len()).all(|index| !data.train.ids(index).contains(&UNKNOWN)));
    }

    #[test]
    fn tokens_are_cached_and_damaged_cache_files_are_recreated() {
        let (data, cache) = (small(), tempfile::tempdir().unwrap());
        let load = || load(&split(None, 10, None), Some(data.path()), None, cache.path());
        let first = load();
        assert_eq!(sizes(&first), [30, 10, 10]);
        assert_eq!(first.source.name, "train.tsv, test.tsv");
        let [file] = &files_in(cache.path())[..] else {
            panic!("expected one cache file")
        };

        let mut planted = cache::load(file).unwrap();
        planted.test = Tokenized::new(0);
        cache::store(file, &planted).unwrap();
        assert_eq!(sizes(&load()), [30, 10, 0], "an intact cache file is used");

        let mut bytes = fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).unwrap();
        assert_eq!(load().test, first.test, "a damaged cache file is not used");
        let replaced = cache::load(file).unwrap().test.padded_to(32);
        let replaced = replaced.with_vocabulary_size(first.test.vocabulary());
        assert_eq!(replaced, first.test, "a damaged cache file is replaced");
    }

    #[test]
    fn anything_that_changes_the_tokens_changes_the_cache_file() {
        let (data, cache) = (small(), tempfile::tempdir().unwrap());
        let vocabulary = data.path().join("vocab.txt");
        fs::write(&vocabulary, "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nfilm").unwrap();
        let count = |expected: usize| assert_eq!(files_in(cache.path()).len(), expected);
        let base = split(None, 10, None);
        let reviews = |split: &Split, sequence, vocabulary| {
            let reading = Reading {
                data: Some(data.path()),
                columns: ColumnNames::default(),
                known: None,
                vocabulary,
                cache: cache.path(),
            };
            load_reviews(
                DatasetKind::Reviews,
                &RequestedSplits::TrainAndTest(split.clone()),
                sequence,
                &reading,
            )
            .unwrap()
        };
        reviews(&base, 32, None);
        count(1);
        reviews(&base, 16, None);
        count(2);
        reviews(
            &Split {
                seed: 2,
                ..base.clone()
            },
            32,
            None,
        );
        count(3);
        assert_eq!(reviews(&base, 32, Some(&vocabulary)).train.vocabulary(), 6);
        count(4);
        fs::write(&vocabulary, "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfilm\nthe").unwrap();
        reviews(&base, 32, Some(&vocabulary));
        count(5);
        let before = reviews(&base, 32, None).source.hash;
        fs::write(data.path().join("test.tsv"), "0\tanother film\n1\ta third film\n").unwrap();
        assert_ne!(reviews(&base, 32, None).source.hash, before);
        count(6);
        reviews(&base, 32, None);
        count(6);
    }

    #[test]
    fn reviews_without_a_path_are_an_error_with_a_hint() {
        let reading = Reading {
            data: None,
            columns: ColumnNames::default(),
            known: None,
            vocabulary: None,
            cache: Path::new("unused"),
        };
        let error = load_reviews(
            DatasetKind::Reviews,
            &RequestedSplits::TrainAndTest(split(None, 0, None)),
            32,
            &reading,
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("no data set given\n  hint: ")
        );
    }

    fn real(name: &str) -> Option<PathBuf> {
        mantissa_testing::real_data(name)
    }

    #[test]
    fn imdb_has_50000_balanced_reviews() {
        let Some(path) = real("imdb") else { return };
        let parts = Source::read(&path)
            .unwrap()
            .parse(&ColumnNames::default(), None, true)
            .unwrap()
            .splits;
        let test = parts.test.unwrap();
        assert_eq!(
            (parts.train.len(), parts.validation, test.len()),
            (25_000, None, 25_000)
        );
        for part in [parts.train, test] {
            assert_eq!(part.iter().filter(|example| example.label == 1).count(), 12_500);
        }
    }

    #[test]
    fn imdb_ids_match_the_python_package() {
        let (Some(imdb), Some(vocabulary)) = (real("imdb/imdb_train.tsv.gz"), real("bert_vocab/vocab.txt"))
        else {
            return;
        };
        let vocabulary = Vocabulary::from_file(&fs::read(&vocabulary).unwrap(), &vocabulary).unwrap();
        assert_eq!(vocabulary.len(), 30_522);
        let parts = Source::read(&imdb)
            .unwrap()
            .parse(&ColumnNames::default(), None, true)
            .unwrap()
            .splits;
        let tokens = Tokenizer::new(&vocabulary, 512)
            .unwrap()
            .tokenize(&parts.train[..200])
            .unwrap();
        let (mut position, mut sum) = (0_u64, 0);
        for &id in (0..tokens.len()).flat_map(|index| tokens.ids(index)) {
            position += 1;
            sum += position * u64::from(id);
        }
        // Computed by `peers/tokenizer_golden.py` from the same files.
        assert_eq!((position, sum), (54_012, 5_379_931_329_506));
    }

    #[test]
    fn sst2_has_three_parts() {
        let Some(path) = real("sst2") else { return };
        let cache = tempfile::tempdir().unwrap();
        let data = load(&split(None, 1_000, None), Some(&path), None, cache.path());
        assert_eq!(sizes(&data), [67_349, 872, 1_821]);
        assert_eq!(
            [ones(&data.train), ones(&data.validation), ones(&data.test)],
            [37_569, 444, 909]
        );
        assert_eq!(data.source.name, "train.tsv, dev.tsv, test.tsv");
    }
}
