//! File format of the kernel cache: keys and values, each after its length, with a hash of all of them.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process,
};

/// Extension of a file with compiled kernels.
pub(super) const KERNELS: &str = "kernels";

/// Extension of a file with autotuning results.
pub(super) const TUNED: &str = "tuned";

/// First bytes of a file. The number changes with the format.
const MAGIC: &[u8] = b"mantissa kernels 2\n";

/// Namespace and key of a value in cubecl's caches.
pub(super) type Key = (String, Vec<u8>);

/// Values of cubecl's caches. Sorted, so equal caches produce identical files.
pub(super) type Entries = BTreeMap<Key, Vec<u8>>;

/// Returns the files of a folder, sorted by name.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| {
        [KERNELS, TUNED]
            .map(OsStr::new)
            .map(Some)
            .contains(&path.extension())
    });
    files.sort();
    files
}

/// Writes entries to a new file of a folder. The write is atomic: other processes see the whole file or nothing.
pub(super) fn write(folder: &Path, entries: &Entries, extension: &str) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let contents = encode(entries);
    let name = &blake3::hash(&contents).to_hex()[..16];
    let partial = folder.join(format!("{name}.{}", process::id()));
    fs::write(&partial, contents)
        .and_then(|()| fs::rename(&partial, folder.join(name).with_extension(extension)))
        .inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Returns the contents of a file: [`MAGIC`], the hash of the entries, and for each entry the namespace, the key
/// and the value, each after its length.
fn encode(entries: &Entries) -> Vec<u8> {
    let mut body = vec![];
    for ((namespace, key), value) in entries {
        for field in [namespace.as_bytes(), key, value] {
            body.extend((field.len() as u64).to_le_bytes());
            body.extend(field);
        }
    }
    [MAGIC, blake3::hash(&body).as_bytes(), &body].concat()
}

/// A value in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Returns the entries of a file, or `None` if the file is damaged or has another format.
pub(super) fn index(path: &Path) -> io::Result<Option<Vec<Entry>>> {
    let mut file = File::open(path)?;
    let mut head = vec![];
    let length = MAGIC.len() + blake3::OUT_LEN;
    Read::by_ref(&mut file)
        .take(length as u64)
        .read_to_end(&mut head)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&file)?;
    if head != [MAGIC, hasher.finalize().as_bytes()].concat() {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(length as u64))?;
    read_entries(BufReader::new(file)).map(Some)
}

/// Reads namespaces and keys, and skips values.
fn read_entries(mut file: BufReader<File>) -> io::Result<Vec<Entry>> {
    let mut entries = vec![];
    while !io::BufRead::fill_buf(&mut file)?.is_empty() {
        let namespace = read_field(&mut file)?;
        let namespace = String::from_utf8(namespace).map_err(io::Error::other)?;
        let key = (namespace, read_field(&mut file)?);
        let length = read_length(&mut file)?;
        let offset = file.stream_position()?;
        file.seek_relative(length.try_into().map_err(io::Error::other)?)?;
        entries.push(Entry { key, offset, length });
    }
    Ok(entries)
}

fn read_length(file: &mut impl Read) -> io::Result<u64> {
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    Ok(u64::from_le_bytes(length))
}

fn read_field(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_length(file)?;
    let mut field = vec![];
    file.take(length).read_to_end(&mut field)?;
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_cache::testing::{Folder, entry, read};

    #[test]
    fn entries_of_any_length_are_read_back() {
        let folder = Folder::new("lengths");
        let entries = Entries::from([
            entry("", b"", b""),
            entry("autotune/0.11.3/größe", &[0, 255], &[7; 70_000]),
            entry("cuda", b"key", b"value"),
            entry("cuda", b"key2", b""),
        ]);
        write(&folder.0, &Entries::new(), KERNELS).unwrap();
        assert!(files(&folder.0).is_empty());
        write(&folder.0, &entries, KERNELS).unwrap();
        assert_eq!(read(&folder.only_file()), Some(entries));
    }
}
