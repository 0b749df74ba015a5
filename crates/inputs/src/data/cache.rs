//! Cache of tokenized data sets. The name of a file is a hash of everything that determines its contents.
//!
//! A file consists of a magic line, the BLAKE3 hash of the payload, and the payload: little-endian 32-bit words with a length before every list.
//! It is written under a temporary name and then renamed, so that no worker process reads a file that another one is still writing. A file whose
//! payload does not match the hash is ignored.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use mantissa_core::read_regular;

use super::{DataError, Tokenized, ids::Ids};

/// Magic line. It must change with the file layout, and with any change in tokenization that the cache key does not cover.
const MAGIC: &[u8; 18] = b"mantissa tokens 3\n";

/// Contents of a cache file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub train: Tokenized,
    pub validation: Tokenized,
    pub test: Tokenized,
    pub classes: u32,
    pub vocabulary_size: u32,
    /// See [`super::LabelledParts`].
    pub names: Vec<(u32, String)>,
    pub notes: Vec<String>,
}

/// Returns the path of the file for the hash of `inputs`.
pub(super) fn file_in(folder: &Path, inputs: &blake3::Hash) -> PathBuf {
    folder.join(format!("{}.tokens", &inputs.to_hex()[..32]))
}

/// Returns a hasher for the inputs of an entry. The hash includes the version of this crate.
pub(super) fn hasher() -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(MAGIC).update(env!("CARGO_PKG_VERSION").as_bytes());
    hasher
}

/// Returns the entry in `file`, or creates and stores it. If the entry cannot be stored, adds a note to the entry, because every worker process
/// must then create it again.
pub(super) fn load_or_create(
    file: &Path,
    make: impl FnOnce() -> Result<Entry, DataError>,
) -> Result<Entry, DataError> {
    if let Some(entry) = load(file) {
        return Ok(entry);
    }
    let mut entry = make()?;
    if let Err(error) = store(file, &entry) {
        entry.notes.push(not_cached_note(&error));
    }
    Ok(entry)
}

/// Returns the note about tokens that cannot be cached.
pub(super) fn not_cached_note(error: &DataError) -> String {
    format!("the tokens cannot be cached, so every cell tokenizes its data again: {error}")
}

/// Loads the entry in `file`. Returns `None` if the file does not exist or is damaged.
pub(super) fn load(file: &Path) -> Option<Entry> {
    let bytes = read_regular(file).ok()?;
    let (hash, payload) = bytes.strip_prefix(MAGIC)?.split_at_checked(blake3::OUT_LEN)?;
    let intact = blake3::hash(payload).as_bytes() == hash;
    intact.then(|| decode(payload)).flatten()
}

/// Writes `entry` to `file`, replacing an existing file.
pub(super) fn store(file: &Path, entry: &Entry) -> Result<(), DataError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(DataError::write(folder))?;
    let payload = encode(entry);
    let bytes = [MAGIC, blake3::hash(&payload).as_bytes().as_slice(), &payload].concat();
    let extension = format!("{}-{}.tmp", process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
    let temporary = file.with_extension(extension);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, file));
    written.map_err(|source| {
        // Ignore this error, because the first one is reported.
        let _ = fs::remove_file(&temporary);
        DataError::write(file)(source)
    })
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut text =
        serde_json::to_vec(&(&entry.names, &entry.notes)).expect("strings and numbers serialize to JSON");
    // Pad to a multiple of four bytes. JSON allows trailing spaces.
    text.resize(text.len().next_multiple_of(4), b' ');
    let (text, _) = text.as_chunks::<4>();
    let mut words = vec![entry.classes, entry.vocabulary_size, text.len() as u32];
    words.extend(text.iter().map(|bytes| u32::from_le_bytes(*bytes)));
    for part in [&entry.train, &entry.validation, &entry.test] {
        words.extend([part.padding, part.labels.len() as u32]);
        words.extend_from_slice(&part.labels);
        words.extend((0..part.labels.len()).map(|index| part.ids(index).len() as u32));
        (0..part.labels.len()).for_each(|index| words.extend_from_slice(part.ids(index)));
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn decode(payload: &[u8]) -> Option<Entry> {
    let (words, remainder) = payload.as_chunks::<4>();
    let mut words = words.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let words = &mut words;
    let (classes, vocabulary_size, text) = (words.next()?, words.next()?, words.next()? as usize);
    let text: Vec<u8> = take_words(words, text)?
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let (names, notes) = serde_json::from_slice(&text).ok()?;
    let mut part = || {
        let (padding, examples) = (words.next()?, words.next()? as usize);
        let labels = take_words(words, examples)?;
        let mut end = 0;
        let ranges = take_words(words, examples)?
            .into_iter()
            .map(|length| {
                let start = end;
                end += length as usize;
                start..end
            })
            .collect();
        let mut part = Tokenized::from_ranges(Ids::Owned(take_words(words, end)?), ranges);
        (part.labels, part.padding) = (labels, padding);
        Some(part)
    };
    let (train, validation, test) = (part()?, part()?, part()?);
    let complete = remainder.is_empty() && words.next().is_none();
    complete.then_some(Entry {
        train,
        validation,
        test,
        classes,
        vocabulary_size,
        names,
        notes,
    })
}

fn take_words(words: &mut impl ExactSizeIterator<Item = u32>, n: usize) -> Option<Vec<u32>> {
    (words.len() >= n).then(|| words.take(n).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Entry {
        let mut train = Tokenized::new(0);
        train.push(&[2, 70_000, 3], 1);
        train.push(&[2, 3], 0);
        let mut test = Tokenized::new(0);
        test.push(&[2, 8, 9, 3], 2);
        Entry {
            train,
            validation: Tokenized::new(0),
            test,
            classes: 3,
            vocabulary_size: 70_001,
            names: vec![(0, "bad".into()), (1, "fair".into()), (2, "good".into())],
            notes: vec!["one line is empty".into()],
        }
    }

    fn stored() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(&folder.path().join("new"), &hasher().finalize());
        store(&file, &sample()).unwrap();
        (folder, file)
    }

    #[test]
    fn an_entry_round_trips_and_leaves_no_temporary_file() {
        let (_folder, file) = stored();
        assert_eq!(load(&file), Some(sample()));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_detected() {
        let (_folder, file) = stored();
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&file, damaged).unwrap();
            assert_eq!(load(&file), None, "byte {at}");
        }
    }

    #[test]
    fn a_truncated_file_is_detected() {
        let (_folder, file) = stored();
        let whole = fs::read(&file).unwrap();
        for length in 0..whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(load(&file), None, "{length} bytes");
        }
    }

    #[test]
    fn concurrent_writers_do_not_affect_each_other_or_a_reader() {
        let (_folder, file) = stored();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| store(&file, &sample()).unwrap()));
            }
            for _ in 0..200 {
                assert_eq!(load(&file), Some(sample()));
            }
        });
    }

    #[test]
    fn an_entry_that_cannot_be_stored_is_returned_with_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("blocked");
        fs::write(&blocked, "not a folder").unwrap();
        let created = load_or_create(&file_in(&blocked, &blake3::hash(b"")), || Ok(sample())).unwrap();
        let [.., note] = created.notes.as_slice() else {
            panic!("the entry has no note")
        };
        assert!(
            note.contains("every cell tokenizes its data again") && note.contains("blocked"),
            "{note}"
        );
    }
}
