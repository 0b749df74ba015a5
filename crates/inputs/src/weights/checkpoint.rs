//! Checkpoints: safetensors and PyTorch files, single or sharded, and llama2.c files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use mantissa_core::Values;
use pytorch_reader::Tensor;
use serde::Deserialize;

use super::{
    Weight,
    format::Format,
    llama2c, pytorch,
    tensors::{Mapped, Span, Spans},
};
use crate::contents;

/// Message about a checkpoint that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WeightsError(pub String);

/// Checkpoint in a file or folder, with its tensors by name.
pub struct Checkpoint {
    path: PathBuf,
    files: Vec<Mapped>,
    tensors: BTreeMap<String, Stored>,
    sections: BTreeSet<String>,
    notes: Vec<String>,
}

/// Stored tensor whose values are not read yet.
pub struct Stored(Location);

enum Location {
    /// In one of the mapped files.
    Mapped { file: usize, span: Span },
    /// In a PyTorch archive.
    Pickled(Tensor),
}

/// Contents of `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    fn read(path: &Path) -> Result<Self, String> {
        contents::json(path)
    }

    /// Returns the names of the shards.
    fn shards(&self) -> BTreeSet<String> {
        self.weight_map.values().cloned().collect()
    }
}

impl Checkpoint {
    /// Opens a file, or a folder in the layout of Hugging Face, and finds its tensors. Does not read their values.
    ///
    /// # Errors
    /// An invalid file.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let mut checkpoint = Self {
            path: path.to_owned(),
            files: vec![],
            tensors: BTreeMap::new(),
            sections: BTreeSet::new(),
            notes: vec![],
        };
        let with_path = |path: &Path, text: String| WeightsError(format!("`{}`: {text}", path.display()));
        let (file, notes) = find_file(path).map_err(|text| with_path(path, text))?;
        checkpoint.notes = notes;
        if path.is_dir() {
            let loaded = weight_files(path).map_err(|text| with_path(path, text))?;
            checkpoint.notes.extend(stray_shards(path, &loaded));
        }
        checkpoint
            .add(&file, true)
            .map_err(|text| with_path(&file, text))?;
        Ok(checkpoint)
    }

    /// Adds the tensors of a file, or of the shards of an index if `may_be_index` is true.
    fn add(&mut self, path: &Path, may_be_index: bool) -> Result<(), String> {
        match Format::detect(path)? {
            Format::Index if may_be_index => self.add_shards(path),
            Format::Index => Err("it is a JSON file, not a shard".to_owned()),
            Format::Safetensors => self.add_mapped(path, Mapped::safetensors),
            Format::Llama2c => self.add_mapped(path, llama2c::tensors),
            Format::PyTorch => {
                let (tensors, sections) = pytorch::tensors(path)?;
                self.sections.extend(sections);
                let mut tensors = tensors.into_iter();
                tensors.try_for_each(|(name, tensor)| self.insert(name, Stored(Location::Pickled(tensor))))
            }
        }
    }

    fn add_mapped(&mut self, path: &Path, find: fn(&Mapped) -> Result<Spans, String>) -> Result<(), String> {
        let mapped = Mapped::open(path).map_err(|error| error.to_string())?;
        let file = self.files.len();
        for (name, span) in find(&mapped)? {
            self.insert(name, Stored(Location::Mapped { file, span }))?;
        }
        self.files.push(mapped);
        Ok(())
    }

    fn insert(&mut self, name: String, stored: Stored) -> Result<(), String> {
        match self.tensors.insert(name.clone(), stored) {
            None => Ok(()),
            Some(_) => Err(format!("tensor `{name}` is in more than one file")),
        }
    }

    /// Adds every shard of an index and checks that each contains the tensors that the index lists.
    fn add_shards(&mut self, index: &Path) -> Result<(), String> {
        let index_file = Index::read(index)?;
        let weight_map = &index_file.weight_map;
        let folder = index.parent().unwrap_or(Path::new(""));
        let mut missing = vec![];
        for shard in &index_file.shards() {
            let mut parts = Path::new(shard).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(format!("shard `{shard}` is not in the folder of the index"));
            }
            let earlier: BTreeSet<String> = self.tensors.keys().cloned().collect();
            self.add(&folder.join(shard), false)
                .map_err(|error| format!("`{shard}`: {error}"))?;
            let listed = weight_map.iter().filter(|(_, file)| *file == shard);
            let was_added = |name: &String| self.tensors.contains_key(name) && !earlier.contains(name);
            let absent = listed.filter(|(name, _)| !was_added(name));
            missing.extend(absent.map(|(name, _)| format!("`{name}` is not in `{shard}`")));
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the index does not match its shards\n  {}",
            missing.join("\n  ")
        ))
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, Stored> {
        &self.tensors
    }

    /// Returns the top-level keys of a PyTorch file that have a dictionary or list as value. The name of a tensor in such a value begins with its
    /// key.
    pub fn sections(&self) -> &BTreeSet<String> {
        &self.sections
    }

    /// Returns notes for the report, such as files that were ignored.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of rows of the tensor `name`. In the checkpoint, the name may have a prefix that ends with a dot.
    pub fn rows(&self, name: &str) -> Option<usize> {
        let matches = |other: &&String| {
            other
                .strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let found = self.tensors.keys().find(matches)?;
        self.tensors[found].shape().first().copied()
    }

    /// Reads the values of a tensor of floats: in f64 if it is stored in f64 and `wide` is true, otherwise in f32.
    ///
    /// # Errors
    /// The file cannot be read, or the dtype is not a supported float.
    ///
    /// # Panics
    /// The checkpoint has no tensor of this name.
    pub fn values(&self, name: &str, wide: bool) -> Result<Values, WeightsError> {
        let with_path = |text: String| WeightsError(format!("`{}`: `{name}`: {text}", self.path.display()));
        match &self.tensors[name].0 {
            Location::Mapped { file, span } => self.files[*file].values(span, wide).map_err(with_path),
            Location::Pickled(tensor) => pytorch::values(tensor, wide).map_err(with_path),
        }
    }
}

/// Returns the checkpoint file at a path, and notes about ignored files. In a folder, selects the file that transformers would load.
fn find_file(path: &Path) -> Result<(PathBuf, Vec<String>), String> {
    const CHECKPOINT_FILES: [&str; 4] = [
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ];
    if !path.is_dir() {
        return match path.exists() {
            true => Ok((path.to_owned(), vec![])),
            false => Err("file not found".to_owned()),
        };
    }
    const ADAPTER_FILES: [&str; 3] = [
        "adapter_config.json",
        "adapter_model.safetensors",
        "adapter_model.bin",
    ];
    if let Some(adapter) = ADAPTER_FILES.iter().find(|name| path.join(name).is_file()) {
        return Err(format!(
            "the folder contains an adapter (`{adapter}`); adapters are not supported\n  hint: merge it into the weights and save them as `{}`",
            CHECKPOINT_FILES[0]
        ));
    }
    let mut found = CHECKPOINT_FILES.iter().filter(|name| path.join(name).exists());
    let Some(first) = found.next() else {
        return Err(format!(
            "the folder contains no checkpoint; expected one of `{}`",
            CHECKPOINT_FILES.join("`, `")
        ));
    };
    let notes = found
        .map(|other| format!("`{other}` is ignored because `{first}` takes precedence, as in transformers"));
    Ok((path.join(first), notes.collect()))
}

/// Returns a note about shards in a folder that are not among the `loaded` files.
fn stray_shards(folder: &Path, loaded: &[PathBuf]) -> Option<String> {
    let is_shard = |name: &str| {
        let has_prefix = ["model-", "pytorch_model-"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        has_prefix && name.contains("-of-") && (name.ends_with(".safetensors") || name.ends_with(".bin"))
    };
    let entries = folder.read_dir().ok()?.filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_shard(name) && !loaded.contains(&folder.join(name)))
        .collect();
    names.sort();
    (!names.is_empty()).then(|| format!("shards that no index lists are ignored: `{}`", names.join("`, `")))
}

/// Returns the files of the checkpoint at a path (a file or a folder): one file, or an index and its shards.
///
/// # Errors
/// A path without a checkpoint, or a malformed index.
pub fn weight_files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let (file, _) = find_file(path)?;
    let shards = match Format::detect(&file)? {
        Format::Index => Index::read(&file)?.shards(),
        _ => BTreeSet::new(),
    };
    let shards: Vec<PathBuf> = shards
        .into_iter()
        .map(|shard| file.with_file_name(shard))
        .collect();
    Ok([vec![file], shards].concat())
}

/// Reads every float tensor of a checkpoint: name, shape and row-major values. Skips other tensors.
///
/// # Errors
/// An invalid file.
pub fn read_weights(path: &Path) -> Result<Vec<Weight>, WeightsError> {
    let checkpoint = Checkpoint::open(path)?;
    let stored = checkpoint.tensors.iter();
    let floats = stored.filter(|(_, stored)| stored.unsupported_dtype().is_none());
    let read = |(name, stored): (&String, &Stored)| {
        Ok((name.clone(), stored.shape(), checkpoint.values(name, true)?))
    };
    floats.map(read).collect()
}

impl Stored {
    /// Returns the shape of the tensor.
    pub fn shape(&self) -> Vec<usize> {
        match &self.0 {
            Location::Mapped { span, .. } => span.shape.clone(),
            Location::Pickled(tensor) => tensor.shape().to_vec(),
        }
    }

    /// Returns the size of the tensor in the file, in bytes.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Location::Mapped { span, .. } => span.bytes.len() as u64,
            Location::Pickled(tensor) => tensor.byte_len() as u64,
        }
    }

    /// Returns the name of the dtype unless it is F64, F32, F16 or BF16.
    pub fn unsupported_dtype(&self) -> Option<String> {
        use safetensors::Dtype;
        match &self.0 {
            Location::Mapped { span, .. } => {
                let is_float = matches!(span.dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
                (!is_float).then(|| format!("{:?}", span.dtype))
            }
            Location::Pickled(tensor) => pytorch::dtype(tensor)
                .is_none()
                .then(|| format!("{:?}", tensor.dtype())),
        }
    }
}
