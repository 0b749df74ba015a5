//! Content hashes of the input files of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use mantissa_core::{Cell, DatasetKind, InputFile, InputRole, MAX_CONFIGURATION_BYTES, Task, open_limited};
use mantissa_inputs::{Inputs, weights::weight_files};
use rayon::prelude::*;

use crate::{RunError, RunSettings};

/// Maximum number of files in a folder that are listed separately. Larger folders are summarized in one entry.
const MAX_LISTED_FILES: usize = 32;

/// Configuration files next to a checkpoint or tokenizer.
const CONFIGURATIONS: [&str; 8] = [
    "added_tokens.json",
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// Content hashes of the input files, computed once per run.
#[derive(Debug, Default)]
pub(crate) struct InputHashes {
    /// Inputs by suite.
    inputs: BTreeMap<String, Inputs>,
    /// Input files by role and path; a folder may have several.
    files: BTreeMap<(InputRole, PathBuf), Vec<InputFile>>,
}

impl InputHashes {
    /// Hashes the input files of all `cells`.
    ///
    /// # Errors
    /// A file is missing or unreadable.
    pub fn of<'a>(settings: &RunSettings, cells: impl Iterator<Item = &'a Cell>) -> Result<Self, RunError> {
        let mut hashed = Self::default();
        for cell in cells {
            let inputs = hashed.inputs.entry(cell.suite.clone());
            let inputs = inputs.or_insert_with(|| settings.resolved_inputs_of(&cell.suite));
            for (role, path) in inputs_read_by(cell, inputs) {
                if !hashed.files.contains_key(&(role, path.clone())) {
                    let files = hash_files(role, &path).map_err(|error| {
                        RunError::Input(format!("cannot read the {role} `{}`: {error}", path.display()))
                    })?;
                    hashed.files.insert((role, path), files);
                }
            }
        }
        Ok(hashed)
    }

    /// Returns the input files of a cell.
    pub fn of_cell(&self, cell: &Cell) -> Vec<InputFile> {
        let read = self
            .inputs
            .get(&cell.suite)
            .map(|inputs| inputs_read_by(cell, inputs));
        let files = read
            .into_iter()
            .flatten()
            .filter_map(|input| self.files.get(&input));
        let mut files: Vec<InputFile> = files.flatten().cloned().collect();
        files.sort();
        files.dedup();
        files
    }
}

/// Selects the inputs that a cell reads.
fn inputs_read_by(cell: &Cell, inputs: &Inputs) -> Vec<(InputRole, PathBuf)> {
    let workload = &cell.workload;
    let dataset = match &workload.task {
        Task::Train(task) => Some(task.dataset),
        Task::Evaluate(task) => Some(task.dataset),
        Task::Generate(_) => None,
        Task::Kernel(_) => return vec![],
    };
    let data = dataset.and_then(|kind| inputs.data_of(kind));
    let reads_text =
        dataset.is_some_and(|kind| !matches!(kind, DatasetKind::Images | DatasetKind::SyntheticImages));
    let vocabulary = inputs.vocabulary.as_deref().filter(|_| reads_text);
    let weights = inputs.weights_of(&workload.name);
    let candidates = [
        (InputRole::Data, data),
        (InputRole::Vocabulary, vocabulary),
        (InputRole::Weights, weights),
    ];
    let candidates = candidates.into_iter();
    candidates
        .filter_map(|(role, path)| Some((role, path?.to_owned())))
        .collect()
}

/// Hashes the file or folder at a path and the configuration files next to a checkpoint or tokenizer.
fn hash_files(role: InputRole, path: &Path) -> io::Result<Vec<InputFile>> {
    if role == InputRole::Data && path.is_dir() {
        return hash_folder(path);
    }
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let paths = match role {
        InputRole::Weights => match weight_files(path) {
            Ok(files) => files,
            // Do not fail here: the worker reports why a checkpoint is invalid.
            Err(_) if path.exists() => return Ok(vec![]),
            Err(error) => return Err(io::Error::other(error)),
        },
        _ => vec![path.to_owned()],
    };
    let neighbors = CONFIGURATIONS.iter().map(|name| paths[0].with_file_name(name));
    let neighbors =
        neighbors.filter(|other| role != InputRole::Data && !paths.contains(other) && other.is_file());
    let configuration: Vec<PathBuf> = neighbors.collect();
    let paths = paths.par_iter().map(|path| hash_file(role, name(path), path));
    let configuration = configuration
        .par_iter()
        .map(|path| hash_file(InputRole::Configuration, name(path), path));
    paths.chain(configuration).collect()
}

/// Hashes all files in the folder of a data set.
fn hash_folder(path: &Path) -> io::Result<Vec<InputFile>> {
    let mut found = vec![];
    collect_files(path, "", &mut BTreeSet::new(), &mut found)?;
    found.sort();
    let folder = fs::canonicalize(path)?;
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let hash =
        |(name, path): &(String, PathBuf)| hash_file(InputRole::Data, format!("{folder}/{name}"), path);
    let all: Vec<InputFile> = found.par_iter().map(hash).collect::<io::Result<_>>()?;
    if all.len() <= MAX_LISTED_FILES {
        return Ok(all);
    }
    let mut hasher = blake3::Hasher::new();
    for file in &all {
        let relative = file.name.split_once('/').map_or("", |(_, relative)| relative);
        hasher.update(format!("{relative}\0{}\n", file.hash).as_bytes());
    }
    Ok(vec![InputFile {
        role: InputRole::Data,
        name: format!("{folder}/"),
        hash: short_hash(hasher.finalize()),
        bytes: all.iter().map(|file| file.bytes).sum(),
        files: all.len() as u64,
    }])
}

/// Lists all files below a folder. `prefix` is the beginning of their relative names. Skips hidden files and
/// `__MACOSX`.
fn collect_files(
    folder: &Path,
    prefix: &str,
    seen: &mut BTreeSet<PathBuf>,
    found: &mut Vec<(String, PathBuf)>,
) -> io::Result<()> {
    // Symbolic links may form cycles.
    if !seen.insert(fs::canonicalize(folder)?) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with('.') || name == "__MACOSX" {
            continue;
        }
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect_files(&path, &format!("{name}/"), seen, found)?;
        } else {
            found.push((name, path));
        }
    }
    Ok(())
}

fn hash_file(role: InputRole, name: String, path: &Path) -> io::Result<InputFile> {
    let mut hasher = blake3::Hasher::new();
    let max_bytes = match role {
        InputRole::Vocabulary | InputRole::Configuration => MAX_CONFIGURATION_BYTES,
        _ => u64::MAX,
    };
    open_limited(path, max_bytes)
        .and_then(|_| hasher.update_mmap_rayon(path).map(drop))
        .map_err(|error| io::Error::new(error.kind(), format!("`{name}`: {error}")))?;
    Ok(InputFile {
        role,
        name,
        hash: short_hash(hasher.finalize()),
        bytes: hasher.count(),
        files: 1,
    })
}

fn short_hash(hash: blake3::Hash) -> String {
    hash.to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use mantissa_inputs::{
        data::{ColumnNames, TextTokenizer, check},
        weights::read_weights,
    };

    use super::*;

    type Layout<'a> = &'a [(&'a str, &'a [u8])];

    fn write(folder: &Path, layout: Layout<'_>) {
        for (name, bytes) in layout {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// A PNG of 1 × 1 pixel.
    const PNG: &[u8] = include_bytes!("../tests/pixel.png");

    /// Deletes each file, truncates it and flips one of its bits, at several positions. Asserts after each change that
    /// the file is rejected or has another hash. `path` is the path given by the user: a file, or the folder if empty.
    fn assert_changes_are_detected(role: InputRole, path: &str, layout: Layout<'_>) {
        const POSITIONS: usize = 16;
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join(path);
        let read = || {
            match role {
                InputRole::Data => check(&input, &ColumnNames::default())
                    .map(drop)
                    .map_err(|error| error.to_string()),
                InputRole::Vocabulary => TextTokenizer::open(&input)
                    .map(drop)
                    .map_err(|error| error.to_string()),
                _ => read_weights(&input).map(drop).map_err(|error| error.to_string()),
            }?;
            hash_files(role, &input).map_err(|error| error.to_string())
        };
        write(folder.path(), layout);
        let before = read().unwrap();
        assert!(!before.is_empty());
        for (name, bytes) in layout {
            let path = folder.path().join(name);
            let positions = (0..POSITIONS).map(|position| bytes.len() * position / POSITIONS);
            let flipped = |at: usize| {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << (at % 8);
                flipped
            };
            let changed = positions.flat_map(|at| [bytes[..at].to_vec(), flipped(at)]);
            for changed in changed.map(Some).chain([None]) {
                match &changed {
                    None => fs::remove_file(&path).unwrap(),
                    Some(bytes) => fs::write(&path, bytes).unwrap(),
                }
                if let Ok(after) = read() {
                    assert_ne!(before, after, "{name}: {:?}", changed.map(|bytes| bytes.len()));
                }
            }
            fs::write(&path, bytes).unwrap();
            assert_eq!(read().unwrap(), before);
        }
    }

    #[test]
    fn a_changed_data_set_is_rejected_or_changes_a_hash() {
        let assert_changes_are_detected =
            |layout: Layout<'_>| assert_changes_are_detected(InputRole::Data, "", layout);
        let mut record = vec![9; 3073];
        record[0] = 1;
        assert_changes_are_detected(&[
            ("train.tsv", b"0\tbad film\n1\tgood\n"),
            ("test.tsv", b"1\tfine\n0\tdull\n"),
        ]);
        assert_changes_are_detected(&[("train.csv", b"label,text\n0,bad film\n1,good\n")]);
        assert_changes_are_detected(&[(
            "train.jsonl",
            b"{\"text\": \"bad\", \"label\": 0}\n{\"text\": \"good\", \"label\": 1}\n",
        )]);
        assert_changes_are_detected(&[
            ("train/pos/1.txt", b"good"),
            ("train/neg/1.txt", b"bad"),
            ("test/pos/1.txt", b"fine"),
        ]);
        assert_changes_are_detected(&[
            ("train.txt", b"a text of some words"),
            ("test.txt", b"another text"),
        ]);
        assert_changes_are_detected(&[("data_batch_1.bin", &record), ("test_batch.bin", &record)]);
        // Two images of one pixel, and their labels.
        assert_changes_are_detected(&[
            (
                "train-images-idx3-ubyte",
                &[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 8],
            ),
            ("train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 2, 1, 0]),
        ]);
        assert_changes_are_detected(&[("cat/1.png", PNG), ("cat/2.png", PNG), ("dog/nested/1.png", PNG)]);
    }

    #[test]
    fn a_changed_checkpoint_or_tokenizer_is_rejected_or_changes_a_hash() {
        let golden = |krate: &str, name: &str| {
            let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            fs::read(crates.join(krate).join("tests/golden").join(name)).unwrap()
        };
        let safetensors = golden("workloads", "distilbert-tiny.safetensors");
        let torch = golden("inputs", "archive.pth");
        let config = br#"{"model_type": "distilbert"}"#;
        assert_changes_are_detected(
            InputRole::Weights,
            "",
            &[("model.safetensors", &safetensors), ("config.json", config)],
        );
        assert_changes_are_detected(InputRole::Weights, "model.pth", &[("model.pth", &torch)]);
        let index = br#"{"weight_map": {"a": "one.safetensors"}}"#;
        let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let shard = [
            &(header.len() as u64).to_le_bytes()[..],
            header,
            &1_f32.to_le_bytes(),
        ]
        .concat();
        assert_changes_are_detected(
            InputRole::Weights,
            "",
            &[
                ("model.safetensors.index.json", index),
                ("one.safetensors", &shard),
            ],
        );
        // Width 2, inner width 2, one layer, one head, three tokens, two positions: 44 numbers.
        let header = [2, 2, 1, 1, 1, 3, 2].map(i32::to_le_bytes).concat();
        let numbers = [0.5_f32; 44].map(f32::to_le_bytes).concat();
        assert_changes_are_detected(
            InputRole::Weights,
            "tiny.bin",
            &[("tiny.bin", &[header, numbers].concat())],
        );

        let token = |piece: &str| {
            [
                &0_f32.to_le_bytes()[..],
                &(piece.len() as i32).to_le_bytes(),
                piece.as_bytes(),
            ]
            .concat()
        };
        let bytes: Vec<String> = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")).collect();
        let pieces = ["<unk>", "\n<s>\n", "\n</s>\n"]
            .into_iter()
            .chain(bytes.iter().map(String::as_str))
            .chain(["a", "b"]);
        let tokenizer = [8_i32.to_le_bytes().to_vec(), pieces.flat_map(token).collect()].concat();
        assert_changes_are_detected(InputRole::Vocabulary, "tok.bin", &[("tok.bin", &tokenizer)]);
    }

    #[test]
    fn hidden_files_are_not_hashed_and_large_folders_are_summarized() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[("a.txt", b"a"), (".hidden", b"b"), (".git/c", b"c")],
        );
        let one = hash_files(InputRole::Data, folder.path()).unwrap();
        assert_eq!(one.len(), 1);
        // b3sum of "a".
        assert_eq!(one[0].hash, "17762fddd969a453");
        for number in 0..MAX_LISTED_FILES {
            fs::write(folder.path().join(format!("{number}.txt")), b"x").unwrap();
        }
        let [all] = &hash_files(InputRole::Data, folder.path()).unwrap()[..] else {
            panic!("one entry");
        };
        assert_eq!(
            (all.files, all.bytes),
            (MAX_LISTED_FILES as u64 + 1, MAX_LISTED_FILES as u64 + 1)
        );
    }

    #[test]
    fn configurations_next_to_weights_are_hashed() {
        const EMPTY: &[u8] = b"\x02\0\0\0\0\0\0\0{}";
        const INDEX: &[u8] = br#"{ "weight_map": { "a": "one.safetensors", "b": "two.safetensors" } }"#;
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("model.safetensors", EMPTY),
                ("config.json", b"{}"),
                ("README.md", b"r"),
            ],
        );
        let names = |path: &Path| -> Vec<(InputRole, String)> {
            let files = hash_files(InputRole::Weights, path).unwrap();
            files.into_iter().map(|file| (file.role, file.name)).collect()
        };
        let weights = |name: &str| (InputRole::Weights, name.to_owned());
        let configuration = (InputRole::Configuration, "config.json".to_owned());
        let expected = [weights("model.safetensors"), configuration.clone()];
        assert_eq!(names(&folder.path().join("model.safetensors")), expected);
        assert_eq!(names(folder.path()), expected);

        fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let index = "model.safetensors.index.json";
        write(
            folder.path(),
            &[
                (index, INDEX),
                ("one.safetensors", EMPTY),
                ("two.safetensors", EMPTY),
            ],
        );
        let expected = [
            weights(index),
            weights("one.safetensors"),
            weights("two.safetensors"),
            configuration,
        ];
        assert_eq!(names(folder.path()), expected);
        assert_eq!(names(&folder.path().join(index)), expected);
    }
}
