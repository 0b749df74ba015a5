//! Kernels that earlier processes compiled, and the autotuner's choices, in a file.
//!
//! cubecl stores both in a database, or in memory where no database opens. Mantissa is built without the
//! database (`crates/turso`), so this module copies what the memory holds to a file and back.

use std::path::Path;

#[cfg(feature = "cubecl")]
pub use store::kernels_in;

/// Returns a closure that does nothing: without a GPU backend there are no kernels to keep.
#[cfg(not(feature = "cubecl"))]
#[must_use = "the closure writes the kernels"]
pub fn kernels_in(_folder: &Path) -> impl FnOnce() + Send + use<> {
    || ()
}

#[cfg(feature = "cubecl")]
mod store {
    use std::collections::BTreeMap;
    use std::{fs, io};

    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig, autotune::AutotuneLevel, cache::CacheConfig};
    use cubecl::environment;
    use cubecl::records::RecordLevel;
    use cubecl_environment::{bytes::Bytes, persistence};

    use super::Path;

    /// Name of the file in the folder.
    const FILE: &str = "kernels";

    /// First bytes of the file. The number changes with the format.
    const MAGIC: &[u8] = b"mantissa kernels 1\n";

    /// Values of cubecl's caches by namespace and key. The order makes equal caches equal files.
    type Entries = BTreeMap<(String, Vec<u8>), Vec<u8>>;

    /// Loads the kernels and the autotuner's choices that earlier processes wrote to a folder, and returns a
    /// closure that writes those of this process too.
    ///
    /// Compiled kernels depend on the device and the driver, and the autotuner's choices also on the build, so
    /// each combination needs its own folder. A file that is missing, damaged or not writable costs time only:
    /// the kernels are compiled again.
    ///
    /// The autotuner measures every candidate for every shape (`AutotuneLevel::Full`), whatever
    /// `CUBECL_AUTOTUNE_LEVEL` requests. At lower levels cubecl stops at the first candidate that is close to an
    /// estimate of the fastest possible one, and rounds shapes.
    ///
    /// # Panics
    ///
    /// Panics if this process has used a GPU, or called this function, before: cubecl reads its configuration
    /// once.
    #[must_use = "the closure writes the kernels"]
    pub fn kernels_in(folder: &Path) -> impl FnOnce() + Send + use<> {
        let mut config = CubeClRuntimeConfig::default().override_from_env();
        config.autotune.level = AutotuneLevel::Full;
        config.autotune.disable_cache = false;
        config.compilation.cache = true;
        // cubecl creates this folder even where no database opens.
        config.environment.path = CacheConfig::Directory(folder.to_owned());
        // Records are written to the database only.
        config.environment.records.level = RecordLevel::Off;
        CubeClRuntimeConfig::set(config);

        let folder = folder.to_owned();
        insert(read(&folder));
        move || {
            // Another process may have written since.
            let written = read(&folder);
            insert(written.clone());
            let entries = entries();
            if entries != written {
                // An error costs the next process time, and this one nothing.
                let _ = write(&folder, &entries);
            }
        }
    }

    /// Returns what cubecl's caches hold.
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

    /// Adds entries to cubecl's caches. A key that a cache holds already keeps its value, and a value that this
    /// process computes later replaces an added one.
    fn insert(entries: Entries) {
        for ((namespace, key), value) in entries {
            let value = Bytes::from_bytes_vec(value);
            persistence::open(&namespace).insert(&key, value, persistence::Origin::Imported);
        }
    }

    /// Reads the file of a folder. Returns no entries if the file is missing or damaged.
    fn read(folder: &Path) -> Entries {
        let contents = fs::read(folder.join(FILE)).unwrap_or_default();
        decode(&contents).unwrap_or_default()
    }

    /// Writes the file of a folder. Other processes read the old file or the new one, and never a part of it.
    fn write(folder: &Path, entries: &Entries) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let partial = folder.join(format!("{FILE}.{}", std::process::id()));
        fs::write(&partial, encode(entries))
            .and_then(|()| fs::rename(&partial, folder.join(FILE)))
            .inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    /// Returns the contents of a file: [`MAGIC`], the hash of the rest, and for each entry the namespace, the key
    /// and the value, each after its length.
    fn encode(entries: &Entries) -> Vec<u8> {
        let mut rest = vec![];
        for ((namespace, key), value) in entries {
            for field in [namespace.as_bytes(), key, value] {
                rest.extend((field.len() as u64).to_le_bytes());
                rest.extend(field);
            }
        }
        [MAGIC, blake3::hash(&rest).as_bytes(), &rest].concat()
    }

    /// Returns the entries of a file, or `None` for contents that [`encode`] did not write.
    fn decode(contents: &[u8]) -> Option<Entries> {
        let (hash, mut rest) = contents.strip_prefix(MAGIC)?.split_at_checked(blake3::OUT_LEN)?;
        if blake3::hash(rest).as_bytes() != hash {
            return None;
        }
        let mut entries = Entries::new();
        while !rest.is_empty() {
            let namespace = String::from_utf8(field(&mut rest)?).ok()?;
            entries.insert((namespace, field(&mut rest)?), field(&mut rest)?);
        }
        Some(entries)
    }

    /// Splits the first field off.
    fn field(rest: &mut &[u8]) -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk()?;
        let length = u64::from_le_bytes(*length).try_into().ok()?;
        let (field, after) = after.split_at_checked(length)?;
        *rest = after;
        Some(field.to_vec())
    }

    #[cfg(test)]
    mod tests {
        use std::path::PathBuf;

        use super::*;

        /// A folder that is removed with the value.
        struct Folder(PathBuf);

        impl Folder {
            fn new(name: &str) -> Self {
                let name = format!("mantissa-kernels-{name}-{}", std::process::id());
                Self(std::env::temp_dir().join(name))
            }
        }

        impl Drop for Folder {
            fn drop(&mut self) {
                let _ = fs::remove_dir_all(&self.0);
            }
        }

        fn entry(namespace: &str, key: &[u8], value: &[u8]) -> ((String, Vec<u8>), Vec<u8>) {
            ((namespace.to_owned(), key.to_vec()), value.to_vec())
        }

        /// Fails if cubecl's caches find a database, or if they stop to list what they hold in memory.
        #[test]
        fn caches_survive_in_a_file() {
            let folder = Folder::new("survive");
            let namespace = "mantissa/test/survive";
            let cache = persistence::open(namespace);
            assert_eq!(cache.describe(), format!("memory ({namespace})"));
            let value = || Bytes::from_bytes_vec(vec![2; 1000]);
            cache.insert(b"kernel", value(), persistence::Origin::Local);

            // Other tests of this process may fill other caches.
            let mut kept = entries();
            kept.retain(|(cache, _), _| cache == namespace);
            write(&folder.0, &kept).unwrap();
            cache.purge();
            assert!(cache.get(b"kernel").is_none());

            insert(read(&folder.0));
            assert_eq!(persistence::open(namespace).get(b"kernel"), Some(value()));
        }

        #[test]
        fn a_value_of_this_process_has_precedence() {
            let namespace = "mantissa/test/precedence";
            let cache = persistence::open(namespace);
            let get = || cache.get(b"kernel").unwrap().to_vec();
            insert(Entries::from([entry(namespace, b"kernel", b"read")]));
            assert_eq!(get(), b"read");
            let own = Bytes::from_bytes_vec(b"own".to_vec());
            cache.insert(b"kernel", own, persistence::Origin::Local);
            assert_eq!(get(), b"own");
            insert(Entries::from([entry(namespace, b"kernel", b"read")]));
            assert_eq!(get(), b"own");
        }

        #[test]
        fn entries_of_any_length_survive() {
            let entries = Entries::from([
                entry("", b"", b""),
                entry("autotune/0.11.3/größe", &[0, 255], &[7; 70_000]),
                entry("cuda", b"key", b"value"),
                entry("cuda", b"key2", b""),
            ]);
            assert_eq!(decode(&encode(&entries)), Some(entries));
            assert_eq!(decode(&encode(&Entries::new())), Some(Entries::new()));
        }

        #[test]
        fn a_damaged_file_is_ignored() {
            let folder = Folder::new("damaged");
            assert_eq!(read(&folder.0), Entries::new());

            let entries = Entries::from([entry("cuda", b"key", b"value")]);
            write(&folder.0, &entries).unwrap();
            assert_eq!(read(&folder.0), entries);

            let whole = fs::read(folder.0.join(FILE)).unwrap();
            for length in 0..whole.len() {
                assert_eq!(decode(&whole[..length]), None, "the first {length} bytes");
            }
            for byte in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[byte] ^= 1;
                fs::write(folder.0.join(FILE), damaged).unwrap();
                assert_eq!(read(&folder.0), Entries::new(), "byte {byte}");
            }
            assert_eq!(
                fs::read_dir(&folder.0).unwrap().count(),
                1,
                "no partial file is left"
            );
        }
    }
}
