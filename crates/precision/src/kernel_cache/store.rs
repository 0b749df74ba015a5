//! Transfer between cubecl's caches in memory and the files of a folder.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use cubecl::{
    config::{CubeClRuntimeConfig, RuntimeConfig, autotune::AutotuneLevel, cache::CacheConfig},
    environment,
    records::RecordLevel,
};
use cubecl_environment::{
    bytes::{AllocationProperty, Bytes},
    persistence,
};

use super::file::{Entries, Entry, KERNELS, Key, TUNED, files, index, write};
use crate::compiler_error::compiler_errors;

/// Loads the compiled kernels and the autotuning results that earlier processes saved to a folder.
///
/// Compiled kernels depend on the device and the driver. Autotuning results also depend on the build. Each combination of device, driver
/// and build needs its own folder. A damaged file is skipped.
///
/// The autotuner measures every candidate for every shape (`AutotuneLevel::Full`), regardless of `CUBECL_AUTOTUNE_LEVEL`. At lower levels
/// cubecl rounds shapes, and stops at the first candidate that is close to an estimate of the shortest possible time.
///
/// # Panics
///
/// Panics if this process has used a GPU, or called this function, before: cubecl reads its configuration
/// once.
pub fn load_kernels(folder: &Path) -> KernelCache {
    let mut config = CubeClRuntimeConfig::default().override_from_env();
    config.autotune.level = AutotuneLevel::Full;
    config.autotune.disable_cache = false;
    config.compilation.cache = true;
    // cubecl creates this folder even where no database opens.
    config.environment.path = CacheConfig::Directory(folder.to_owned());
    // cubecl writes records only to the database, which this build does not have.
    config.environment.records.level = RecordLevel::Off;
    CubeClRuntimeConfig::set(config);
    KernelCache::load(folder)
}

/// Kernels and autotuning results of a folder, loaded into cubecl's caches.
#[derive(Debug)]
#[must_use = "`save` writes the kernels of this process"]
pub struct KernelCache {
    folder: PathBuf,
    loaded: HashSet<Key>,
    problems: Vec<String>,
}

impl KernelCache {
    fn load(folder: &Path) -> Self {
        let mut cache = Self {
            folder: folder.to_owned(),
            loaded: HashSet::new(),
            problems: vec![],
        };
        for path in files(folder) {
            match index(&path) {
                Ok(Some(entries)) => cache.loaded.extend(insert(&path, entries)),
                Ok(None) => cache.problems.push(format!(
                    "ignoring the damaged kernel cache `{}`\n  hint: delete the file",
                    path.display()
                )),
                Err(error) => cache.problems.push(io_problem("read", &path, &error)),
            }
        }
        cache
    }

    /// Saves the values that this process added, and removes the loaded values from cubecl's caches.
    ///
    /// Returns an error message for each file that could not be read or written. Such an error only costs time: the kernels are compiled
    /// again.
    pub fn save(mut self) -> Vec<String> {
        self.unload();
        self.write(entries());
        self.problems
    }

    /// Saves only the compiled kernels. For processes whose autotuner measurements were disturbed by other processes.
    ///
    /// Returns the same as [`save`](Self::save).
    pub fn save_kernels(mut self) -> Vec<String> {
        self.unload();
        let mut added = entries();
        added.retain(|(namespace, _), _| is_compiled(namespace));
        self.write(added);
        self.problems
    }

    /// Returns the compiler error of each candidate kernel that failed to compile in this process. The autotuner skips such candidates.
    pub fn rejected(&self) -> Vec<String> {
        let tuned = entries()
            .into_iter()
            .filter(|(key, _)| !is_compiled(&key.0) && !self.loaded.contains(key));
        tuned
            .flat_map(|(_, value)| compiler_errors(&String::from_utf8_lossy(&value)))
            .collect()
    }

    /// Removes the loaded values from cubecl's caches. Keeps values that this process replaced: they are in memory, whereas unchanged
    /// values are views of a file.
    fn unload(&self) {
        for (namespace, key) in &self.loaded {
            let cache = persistence::open(namespace);
            if cache
                .get(key)
                .is_some_and(|value| value.property() == AllocationProperty::File)
            {
                cache.purge_key(key);
            }
        }
    }

    fn write(&mut self, added: Entries) {
        let (kernels, tuned): (Entries, Entries) = added
            .into_iter()
            .partition(|((namespace, _), _)| is_compiled(namespace));
        for (entries, extension) in [(kernels, KERNELS), (tuned, TUNED)] {
            if let Err(error) = write(&self.folder, &entries, extension) {
                self.problems.push(io_problem("write to", &self.folder, &error));
            }
        }
    }
}

/// Returns true if the values of a cache are compiled kernels.
fn is_compiled(namespace: &str) -> bool {
    namespace.starts_with("cuda")
}

fn io_problem(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} the kernel cache `{}`: {error}", path.display())
}

/// Returns the contents of cubecl's caches.
fn entries() -> Entries {
    let mut entries = Entries::new();
    for summary in environment::namespaces() {
        let namespace = summary.namespace;
        persistence::open(&namespace).scan(&mut |key, value| {
            entries.insert((namespace.clone(), key.to_vec()), value.to_vec());
        });
    }
    entries
}

/// Adds entries of a file to cubecl's caches, and returns their keys. A key that is already in a cache keeps its value. A value that this
/// process computes later replaces an added value.
fn insert(path: &Path, entries: Vec<Entry>) -> impl Iterator<Item = Key> {
    entries.into_iter().map(move |entry| {
        let value = Bytes::from_file(path, entry.length, entry.offset);
        let cache = persistence::open(&entry.key.0);
        cache.insert(&entry.key.1, value, persistence::Origin::Imported);
        entry.key
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs};

    use super::*;
    use crate::kernel_cache::testing::{Folder, entry, read};

    fn computed(value: &[u8]) -> Bytes {
        Bytes::from_bytes_vec(value.to_vec())
    }

    /// Saves the values that this test added to the caches, and returns the new files. Ignores values of other tests.
    fn save(folder: &Folder, mut cache: KernelCache) -> Vec<PathBuf> {
        let before = files(&folder.0);
        cache.unload();
        let mut added = entries();
        added.retain(|(namespace, _), _| namespace.ends_with("/test/saved"));
        cache.write(added);
        assert_eq!(cache.problems, [""; 0]);
        files(&folder.0)
            .into_iter()
            .filter(|path| !before.contains(path))
            .collect()
    }

    /// Fails if cubecl's caches find a database, if they no longer list their values in memory, or if a loaded value is saved
    /// again.
    #[test]
    fn caches_are_saved_and_loaded() {
        let folder = Folder::new("saved");
        let namespace = "cuda/test/saved";
        let cache = persistence::open(namespace);
        assert_eq!(cache.describe(), format!("memory ({namespace})"));
        let insert = |key: &[u8], value: &[u8]| {
            cache.insert(key, computed(value), persistence::Origin::Local);
        };
        insert(b"kernel", &[2; 1000]);
        insert(b"other", &[3; 10]);
        let [first] = save(&folder, KernelCache::load(&folder.0)).try_into().unwrap();
        assert_eq!(first.extension(), Some(OsStr::new("kernels")));
        let saved = [
            entry(namespace, b"kernel", &[2; 1000]),
            entry(namespace, b"other", &[3; 10]),
        ];
        assert_eq!(read(&first), Some(Entries::from(saved)));
        cache.purge();

        let loaded = KernelCache::load(&folder.0);
        assert_eq!(cache.get(b"kernel"), Some(computed(&[2; 1000])));
        assert!(save(&folder, loaded).is_empty());
        assert!(cache.get(b"kernel").is_none());

        let loaded = KernelCache::load(&folder.0);
        insert(b"other", &[4; 10]);
        insert(b"third", b"");
        let tuned = persistence::open("autotune/test/saved");
        tuned.insert(b"shape", computed(b"fastest"), persistence::Origin::Local);
        let added = save(&folder, loaded);
        let added_entries = |extension| {
            let path = added
                .iter()
                .find(|path| path.extension() == Some(OsStr::new(extension)));
            read(path.unwrap()).unwrap()
        };
        assert_eq!(added.len(), 2);
        let kernels = [
            entry(namespace, b"other", &[4; 10]),
            entry(namespace, b"third", b""),
        ];
        assert_eq!(added_entries("kernels"), Entries::from(kernels));
        assert_eq!(
            added_entries("tuned"),
            Entries::from([entry("autotune/test/saved", b"shape", b"fastest")])
        );
    }

    #[test]
    fn values_of_this_process_take_precedence() {
        let folder = Folder::new("precedence");
        let namespace = "mantissa/test/precedence";
        let cache = persistence::open(namespace);
        let get = || cache.get(b"kernel").unwrap().to_vec();
        let saved = Entries::from([entry(namespace, b"kernel", b"read")]);
        write(&folder.0, &saved, KERNELS).unwrap();
        let _ = KernelCache::load(&folder.0);
        assert_eq!(get(), b"read");
        cache.insert(b"kernel", computed(b"own"), persistence::Origin::Local);
        assert_eq!(get(), b"own");
        let _ = KernelCache::load(&folder.0);
        assert_eq!(get(), b"own");
    }

    #[test]
    fn a_damaged_file_is_reported_and_not_used() {
        let folder = Folder::new("damaged");
        write(
            &folder.0,
            &Entries::from([entry("cuda", b"key", b"value")]),
            KERNELS,
        )
        .unwrap();
        let path = folder.only_file();
        let whole = fs::read(&path).unwrap();
        let damaged = |contents: &[u8]| {
            fs::write(&path, contents).unwrap();
            index(&path).unwrap().is_none()
        };
        for length in 0..whole.len() {
            assert!(damaged(&whole[..length]), "the first {length} bytes");
        }
        for byte in 0..whole.len() {
            let mut changed = whole.clone();
            changed[byte] ^= 1;
            assert!(damaged(&changed), "byte {byte}");
        }
        let [problem] = KernelCache::load(&folder.0).problems.try_into().unwrap();
        assert!(problem.contains("ignoring the damaged kernel cache"), "{problem}");
        assert!(!damaged(&whole));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported() {
        let folder = Folder::new("unwritable");
        fs::write(&folder.0, "a file").unwrap();
        let error = write(
            &folder.0,
            &Entries::from([entry("cuda", b"key", b"value")]),
            KERNELS,
        )
        .unwrap_err();
        let problem = io_problem("write to", &folder.0, &error);
        assert!(
            problem.starts_with("cannot write to the kernel cache `"),
            "{problem}"
        );
        fs::remove_file(&folder.0).unwrap();
    }
}
