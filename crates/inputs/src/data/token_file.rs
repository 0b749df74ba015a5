//! Token ids of a corpus on disk, for corpora larger than the memory. Ids are written as they are produced, and memory-mapped for reading.
//!
//! A file consists of a magic line, the BLAKE3 hash of the payload, and the payload. The payload is little-endian: every id in 32 bits, then a
//! 64-bit number per document (4 · number of ids + index of its part in [`PARTS`]), then the number of documents in 64 bits. The file is written
//! under a temporary name and then renamed. A file whose payload does not match the hash is ignored.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mantissa_core::open_regular;

use super::{DataError, examples::Part, ids::Ids};
use crate::weights::Mapped;

/// Magic line. It must change with the file layout, and with any change in tokenization that the cache key does not cover.
const MAGIC: &[u8; 24] = b"mantissa token stream 3\n";
/// Offset of the ids in the file.
const IDS_OFFSET: usize = MAGIC.len() + blake3::OUT_LEN;
/// Size of each number after the ids, in bytes.
const NUMBER_BYTES: usize = 8;
/// Parts of a data set. A file stores the index of a part in this list.
const PARTS: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

/// Token ids of a corpus.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    /// Ids of all documents, one after the other.
    pub ids: Ids,
    /// Documents in the order of their ids.
    pub documents: Vec<Document>,
}

/// Document of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Document {
    pub part: Part,
    /// Number of token ids.
    pub tokens: usize,
}

/// Returns the path of the file for the hash of `inputs`.
pub(super) fn file_in(folder: &Path, inputs: &blake3::Hash) -> PathBuf {
    folder.join(format!("{}.stream", &inputs.to_hex()[..32]))
}

/// Returns a hasher for the inputs of a corpus. The hash includes the version of this crate.
pub(super) fn hasher() -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(MAGIC).update(env!("CARGO_PKG_VERSION").as_bytes());
    hasher
}

/// Loads a file. Returns `None` if it does not exist or is damaged.
pub(super) fn load(file: &Path) -> Option<Tokens> {
    let mut opened = open_regular(file).ok()?;
    let mut head = [0; IDS_OFFSET];
    opened.read_exact(&mut head).ok()?;
    let hash = head.strip_prefix(MAGIC)?;
    // To compute the hash, read the file instead of mapping it, because mapped pages would stay resident.
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&mut opened).ok()?;
    if hasher.finalize().as_bytes() != hash {
        return None;
    }
    decode(Mapped::open(file).ok()?)
}

fn decode(file: Mapped) -> Option<Tokens> {
    let bytes = file.bytes().get(IDS_OFFSET..)?;
    let (rest, count) = bytes.split_last_chunk::<NUMBER_BYTES>()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let length = rest.len().checked_sub(count.checked_mul(NUMBER_BYTES)?)?;
    let (numbers, _) = rest[length..].as_chunks::<NUMBER_BYTES>();
    let document = |number: &[u8; NUMBER_BYTES]| {
        let number = u64::from_le_bytes(*number);
        Some(Document {
            part: *PARTS.get((number & 3) as usize)?,
            tokens: usize::try_from(number >> 2).ok()?,
        })
    };
    let documents: Vec<Document> = numbers.iter().map(document).collect::<Option<_>>()?;
    let mut counts = documents.iter().map(|document| document.tokens);
    let tokens = counts.try_fold(0usize, usize::checked_add)?;
    (tokens.checked_mul(4)? == length).then(|| Tokens {
        ids: Ids::Mapped(Arc::new(file), IDS_OFFSET..IDS_OFFSET + length),
        documents,
    })
}

/// File that is being written. It is removed on drop unless it is finished.
pub(super) struct Writer {
    to: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    documents: Vec<Document>,
}

impl Writer {
    /// Creates a temporary file that [`finish`](Self::finish) renames to `file`.
    pub fn new(file: &Path) -> Result<Self, DataError> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(DataError::write(folder))?;
        let extension = format!("{}-{}.tmp", process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
        let temporary = file.with_extension(extension);
        let opened = File::create(&temporary).map_err(DataError::write(&temporary))?;
        let mut writer = Self {
            to: file.to_owned(),
            temporary,
            file: BufWriter::new(opened),
            hasher: blake3::Hasher::new(),
            documents: vec![],
        };
        // Reserve space for the hash, which is known at the end.
        let head = writer.file.write_all(&[0; IDS_OFFSET]);
        head.map_err(DataError::write(file))?;
        Ok(writer)
    }

    /// Appends ids of a document. `begins` is true for a new document.
    pub fn add(&mut self, part: Part, begins: bool, ids: &[u32]) -> Result<(), DataError> {
        if begins || self.documents.is_empty() {
            self.documents.push(Document { part, tokens: 0 });
        }
        if let Some(document) = self.documents.last_mut() {
            document.tokens += ids.len();
        }
        let written = write_hashed(&mut self.file, &mut self.hasher, bytemuck::cast_slice(ids));
        written.map_err(DataError::write(&self.to))
    }

    /// Completes the file and renames it to its final path.
    pub fn finish(mut self) -> Result<(), DataError> {
        let to = self.to.clone();
        self.write_trailer().map_err(DataError::write(&to))
    }

    /// Writes the document numbers after the ids, then the magic line and the hash at the start of the file, and renames the file.
    fn write_trailer(&mut self) -> io::Result<()> {
        let numbers = self.documents.iter().map(|document| {
            let part = PARTS.iter().position(|part| *part == document.part);
            ((document.tokens as u64) << 2) | part.unwrap_or_default() as u64
        });
        let count = self.documents.len() as u64;
        for number in numbers.chain([count]) {
            write_hashed(&mut self.file, &mut self.hasher, &number.to_le_bytes())?;
        }
        let hash = self.hasher.finalize();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(MAGIC)?;
        self.file.write_all(hash.as_bytes())?;
        self.file.flush()?;
        fs::rename(&self.temporary, &self.to)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The file no longer exists if it was renamed.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Writes bytes and adds them to the hash.
fn write_hashed(file: &mut BufWriter<File>, hasher: &mut blake3::Hasher, bytes: &[u8]) -> io::Result<()> {
    hasher.update(bytes);
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(&folder.path().join("new"), &hasher().finalize());
        let mut writer = Writer::new(&file).unwrap();
        writer.add(Part::Train, true, &[1, 70_000]).unwrap();
        writer.add(Part::Train, false, &[3]).unwrap();
        writer.add(Part::Train, true, &[1, 4]).unwrap();
        writer.add(Part::Test, true, &[1, 5, 6]).unwrap();
        writer.finish().unwrap();
        (folder, file)
    }

    #[test]
    fn documents_are_restored_and_temporary_files_are_removed() {
        let (_folder, file) = stored();
        let document = |part, tokens| Document { part, tokens };
        let expected = Tokens {
            ids: Ids::Owned(vec![1, 70_000, 3, 1, 4, 1, 5, 6]),
            documents: vec![
                document(Part::Train, 3),
                document(Part::Train, 2),
                document(Part::Test, 3),
            ],
        };
        assert_eq!(load(&file), Some(expected));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn flipped_bits_and_truncation_are_detected() {
        let (_folder, file) = stored();
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&file, damaged).unwrap();
            assert_eq!(load(&file), None, "byte {at}");
            fs::write(&file, &whole[..at]).unwrap();
            assert_eq!(load(&file), None, "{at} bytes");
        }
    }

    #[test]
    fn unfinished_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.stream");
        let mut writer = Writer::new(&file).unwrap();
        writer.add(Part::Train, true, &[1]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(load(&file), None);
    }
}
