//! Readers of data, tokenizers and models. Each function reads bytes, and returns the error message if it rejects them. The fuzz targets call the
//! same functions.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use mantissa_core::{DatasetKind, Model, Split};
use mantissa_inputs::{
    data::{
        ColumnNames, DataError, Dataset, ImagePreprocessing, LanguageTask, Normalization, Part, Reading,
        RequestedSplits, TextTokenizer, Tokenized, check, detect_kind, load_images, load_passages,
        load_reviews,
    },
    weights::{model_of, read_weights},
};

/// Texts that are encoded with every tokenizer.
const TEXTS: [&str; 4] = [
    "",
    "ab  b",
    "The café 中文, 1000 times.\n\0 🎬 <|endoftext|>",
    "   spaces   ",
];
/// Maximum sequence length, in tokens.
const SEQUENCE: u32 = 8;
/// Height and width of the input image of a model.
const EDGE: usize = 8;

/// Temporary folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with one file.
    fn with(name: &str, bytes: &[u8]) -> Result<Self, String> {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name_of_folder = format!("mantissa-hostile-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name_of_folder));
        folder.put(name, bytes)?;
        Ok(folder)
    }

    /// Writes a file, whose name may contain subfolders.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(message)?;
        fs::write(&path, bytes).map_err(message)?;
        Ok(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn message(error: impl Display) -> String {
    error.to_string()
}

/// Returns a split with one training and one test example.
fn one_example_each() -> RequestedSplits {
    RequestedSplits::TrainAndTest(Split {
        join: true,
        train: Some(1),
        validation: 0,
        test: Some(1),
        seed: 1,
    })
}

/// Reads `tokenizer.json`, a SentencePiece `.model` or a `tok*.bin`.
pub fn tokenizer(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("tokenizer", bytes)?;
    let tokenizer = TextTokenizer::open(&folder.at("tokenizer")).map_err(message)?;
    let _ = (
        tokenizer.vocabulary(),
        tokenizer.beginning(),
        tokenizer.end(),
        tokenizer.mask(),
    );
    // A text may be rejected, but must not crash the tokenizer.
    for text in TEXTS {
        if let Ok(ids) = tokenizer.encode(text) {
            tokenizer.decode(&ids);
        }
    }
    tokenizer.decode(&[0, 1, 2, 255, 300, 100_000, u32::MAX]);
    Ok(())
}

/// Reads `vocab.txt`, and reviews with it.
pub fn vocabulary(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("vocab.txt", bytes)?;
    let data = folder.put("train.tsv", "0\tbad film\n1\tGood film, café\n".as_bytes())?;
    let (vocabulary, cache) = (folder.at("vocab.txt"), folder.at("cache"));
    let data = reviews(&data, Some(&vocabulary), &cache);
    data.map(drop).map_err(message)
}

fn reviews(data: &Path, vocabulary: Option<&Path>, cache: &Path) -> Result<Dataset<Tokenized>, DataError> {
    let reading = Reading {
        data: Some(data),
        columns: ColumnNames::default(),
        known: None,
        vocabulary,
        cache,
    };
    load_reviews(DatasetKind::Reviews, &one_example_each(), SEQUENCE, &reading)
}

/// Checks a data set file. `name` determines its format.
fn data(name: &str, bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with(name, bytes)?;
    let checked = check(&folder.at(name), &ColumnNames::default()).map_err(message)?;
    assert!(!checked.parts.is_empty() && checked.parts.iter().all(|part| part.examples > 0));
    Ok(())
}

/// Reads tab-separated rows.
pub fn tsv(bytes: &[u8]) -> Result<(), String> {
    data("reviews.tsv", bytes)
}

/// Reads comma-separated rows.
pub fn csv(bytes: &[u8]) -> Result<(), String> {
    data("reviews.csv", bytes)
}

/// Reads gzipped comma-separated rows.
pub fn gzip(bytes: &[u8]) -> Result<(), String> {
    data("reviews.csv.gz", bytes)
}

/// Reads JSON objects, with labels or without.
pub fn json_lines(bytes: &[u8]) -> Result<(), String> {
    data("lines.jsonl", bytes)
}

/// Reads running text.
pub fn text(bytes: &[u8]) -> Result<(), String> {
    data("text.txt", bytes)
}

/// Reads gzipped running text.
pub fn packed_text(bytes: &[u8]) -> Result<(), String> {
    data("text.txt.gz", bytes)
}

/// Reads a text in a folder like aclImdb, next to two valid ones.
pub fn imdb(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("imdb/train/pos/0_9.txt", bytes)?;
    folder.put("imdb/train/neg/0_1.txt", b"bad")?;
    folder.put("imdb/test/neg/0_2.txt", b"dull")?;
    check(&folder.at("imdb"), &ColumnNames::default())
        .map(drop)
        .map_err(message)
}

/// Reads a CIFAR-10 batch.
pub fn cifar(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("data_batch_1.bin", bytes)?;
    images(&folder.at("data_batch_1.bin"))
}

/// Reads a folder in the format of MNIST with two images, one of class 0 and one of class 1.
pub fn idx(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("mnist/train-images-idx3-ubyte", bytes)?;
    folder.put("mnist/train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 2, 0, 1])?;
    images(&folder.at("mnist"))
}

/// Reads a folder of images with two copies of a PNG.
pub fn png(bytes: &[u8]) -> Result<(), String> {
    picture("0.png", bytes)
}

/// Reads a folder of images with two copies of a JPEG.
pub fn jpeg(bytes: &[u8]) -> Result<(), String> {
    picture("0.jpg", bytes)
}

fn picture(name: &str, bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with(&format!("pictures/cat/{name}"), bytes)?;
    folder.put(&format!("pictures/dog/{name}"), bytes)?;
    images(&folder.at("pictures"))
}

fn images(path: &Path) -> Result<(), String> {
    let loaded = load_images(
        (path, None),
        &RequestedSplits::Test(None),
        EDGE,
        &ImagePreprocessing::without_config(Normalization::UNIT),
    )
    .map_err(message)?;
    assert!(loaded.classes >= 2);
    check(path, &ColumnNames::default()).map(drop).map_err(message)
}

/// Reads the cache file of a corpus.
pub fn token_stream(bytes: &[u8]) -> Result<(), String> {
    cached(DatasetKind::Text, bytes)
}

/// Reads the cache file of reviews.
pub fn tokens(bytes: &[u8]) -> Result<(), String> {
    cached(DatasetKind::Reviews, bytes)
}

/// Loads data, overwrites every cache file with these bytes, and loads the data again. Both results must be equal.
fn cached(kind: DatasetKind, bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("tok.bin", &llama2c_tokenizer())?;
    let text = folder.put("text.txt", "a b ab<|endoftext|>ab ab b a".as_bytes())?;
    let reviews = folder.put("train.tsv", "0\tbad film\n1\tgood film\n".as_bytes())?;
    let cache = folder.at("cache");
    let load = || match kind {
        DatasetKind::Text => load_passages(
            (kind, LanguageTask::Next),
            &one_example_each(),
            SEQUENCE,
            &Reading::new(Some(&text), Some(&folder.at("tok.bin")), &cache),
        ),
        _ => self::reviews(&reviews, None, &cache),
    };
    let all_ids = |data: Dataset<Tokenized>| {
        let ids =
            |part: &Tokenized| -> Vec<Vec<u32>> { (0..part.len()).map(|n| part.ids(n).to_vec()).collect() };
        [&data.train, &data.validation, &data.test].map(ids)
    };
    let first = load().map(all_ids).map_err(message)?;
    for entry in fs::read_dir(&cache).map_err(message)? {
        fs::write(entry.map_err(message)?.path(), bytes).map_err(message)?;
    }
    assert_eq!(load().map(all_ids).map_err(message)?, first);
    Ok(())
}

/// Creates a llama2.c tokenizer with the bytes and a few pieces.
pub fn llama2c_tokenizer() -> Vec<u8> {
    let bytes: Vec<String> = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")).collect();
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].into_iter();
    let pieces = special
        .chain(bytes.iter().map(String::as_str))
        .chain([" ", "a", "b", "ab"]);
    let mut file = 8_u32.to_le_bytes().to_vec();
    for piece in pieces {
        file.extend(0_f32.to_le_bytes());
        file.extend((piece.len() as i32).to_le_bytes());
        file.extend(piece.bytes());
    }
    file
}

/// Reads `config.json`.
pub fn config(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("config.json", bytes)?;
    if let Some(Model::Llama(size)) = model_of(&folder.0)? {
        // Rotary embedding rotates the elements of a head in pairs.
        assert!(size.head_dim > 0 && size.head_dim.is_multiple_of(2), "{size:?}");
    }
    Ok(())
}

/// Reads the header of a llama2.c checkpoint, and the checkpoint.
pub fn llama2c(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("model.bin", bytes)?;
    let model = model_of(&folder.at("model.bin")).map(drop);
    // A pickle may have this name, too.
    model.and(weights(&folder.at("model.bin")))
}

/// Reads a safetensors checkpoint.
pub fn safetensors(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("model.safetensors", bytes)?;
    weights(&folder.at("model.safetensors"))
}

/// Reads `model.safetensors.index.json`, next to a shard.
pub fn index(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("model.safetensors.index.json", bytes)?;
    let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
    folder.put("a.safetensors", &empty)?;
    weights(&folder.0)
}

/// Reads a `torch.save` file.
pub fn pytorch(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("model.pth", bytes)?;
    weights(&folder.at("model.pth"))
}

/// Reads a data file whose name may not match its content. The detected kind and the kind that `check` reports must be equal.
pub fn recognized(bytes: &[u8]) -> Result<(), String> {
    for name in ["file", "file.bin", "file.txt", "file.csv", "file.jsonl"] {
        let folder = Folder::with(name, bytes)?;
        let kind = detect_kind(&folder.at(name)).map_err(message)?;
        if let Ok(checked) = check(&folder.at(name), &ColumnNames::default()) {
            assert_eq!(checked.kind, kind, "{name}");
        }
    }
    Ok(())
}

/// Reads a checkpoint whose name does not indicate its format.
pub fn checkpoint(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("pytorch_model.bin", bytes)?;
    weights(&folder.at("pytorch_model.bin"))
}

/// Reads `tokenizer_config.json` next to a `vocab.txt`.
pub fn tokenizer_config(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("tokenizer_config.json", bytes)?;
    let vocabulary = folder.put("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nbad\nfilm\n")?;
    let data = folder.put("train.tsv", b"0\tbad film\n1\tGood film\n")?;
    let data = reviews(&data, Some(&vocabulary), &folder.at("cache"));
    data.map(drop).map_err(message)
}

/// Reads `preprocessor_config.json` next to a checkpoint.
pub fn preprocessor_config(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder::with("preprocessor_config.json", bytes)?;
    let preparation =
        ImagePreprocessing::for_weights(&folder.0, EDGE as u32, Normalization::UNIT).map_err(message)?;
    let mut record = vec![7; 3073];
    record[0] = 1;
    let data = folder.put("data_batch_1.bin", &record)?;
    let loaded = load_images((&data, None), &RequestedSplits::Test(None), EDGE, &preparation);
    loaded.map(drop).map_err(message)
}

fn weights(path: &Path) -> Result<(), String> {
    for (name, shape, values) in read_weights(path).map_err(message)? {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name:?}");
    }
    Ok(())
}
