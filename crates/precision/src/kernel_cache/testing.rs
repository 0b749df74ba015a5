//! Test helpers: a temporary folder and entries of caches.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use cubecl_environment::bytes::Bytes;

use super::file::{Entries, Entry, Key, files, index};

/// Temporary folder, removed on drop.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("mantissa-kernels-{name}-{}", process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn only_file(&self) -> PathBuf {
        let [file] = files(&self.0).try_into().unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns an entry of a cache: its key and its value.
pub(super) fn entry(namespace: &str, key: &[u8], value: &[u8]) -> (Key, Vec<u8>) {
    ((namespace.to_owned(), key.to_vec()), value.to_vec())
}

/// Reads a file with all of its values.
pub(super) fn read(path: &Path) -> Option<Entries> {
    let value = |entry: Entry| {
        let value = Bytes::from_file(path, entry.length, entry.offset).to_vec();
        (entry.key, value)
    };
    Some(index(path).unwrap()?.into_iter().map(value).collect())
}
