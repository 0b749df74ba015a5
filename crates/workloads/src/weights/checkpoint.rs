//! Checkpoints: `safetensors`, PyTorch's own files and those of llama2.c; the first two whole or in shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use mantissa_precision::Values;
use pytorch_reader::Tensor;
use serde::Deserialize;

use super::{
    Weight,
    form::Form,
    llama2c, pytorch,
    tensors::{Mapped, Place, Places},
};
use crate::{WorkloadError, contents};

/// A file, or a folder of files, with tensors by name.
pub(crate) struct Checkpoint {
    pub(super) path: PathBuf,
    files: Vec<Mapped>,
    pub(super) tensors: BTreeMap<String, Stored>,
    /// Keys of a file of PyTorch's under which it has dictionaries; names of their tensors begin with them.
    pub(super) sections: BTreeSet<String>,
    /// Notes about how it was read, for the report.
    pub(super) notes: Vec<String>,
}

/// A tensor that has not been read.
pub(super) enum Stored {
    /// In one of the files.
    Mapped { file: usize, place: Place },
    /// In an archive of PyTorch's.
    Pickled(Tensor),
}

/// `model.safetensors.index.json`.
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
    /// Finds the tensors of a file, or of a folder as Hugging Face has it.
    ///
    /// # Errors
    /// What is wrong with the file. None of its tensors is read.
    pub(crate) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut checkpoint = Self {
            path: path.to_owned(),
            files: vec![],
            tensors: BTreeMap::new(),
            sections: BTreeSet::new(),
            notes: vec![],
        };
        let wrong =
            |path: &Path, text: String| WorkloadError::Weights(format!("`{}`: {text}", path.display()));
        let (file, notes) = file_of(path).map_err(|text| wrong(path, text))?;
        checkpoint.notes = notes;
        if path.is_dir() {
            let read = weight_files(path).map_err(|text| wrong(path, text))?;
            checkpoint.notes.extend(stray_shards(path, &read));
        }
        checkpoint.add(&file, true).map_err(|text| wrong(&file, text))?;
        Ok(checkpoint)
    }

    /// Adds the tensors of a file, which may be an index of others where those are allowed.
    fn add(&mut self, path: &Path, may_be_index: bool) -> Result<(), String> {
        match Form::of(path)? {
            Form::Index if may_be_index => self.add_shards(path),
            Form::Index => Err("it is a file of JSON".to_owned()),
            Form::Safetensors => self.add_mapped(path, Mapped::safetensors),
            Form::Llama2c => self.add_mapped(path, llama2c::tensors),
            Form::PyTorch => {
                let (tensors, sections) = pytorch::tensors(path)?;
                self.sections.extend(sections);
                let mut tensors = tensors.into_iter();
                tensors.try_for_each(|(name, tensor)| self.insert(name, Stored::Pickled(tensor)))
            }
        }
    }

    fn add_mapped(&mut self, path: &Path, find: fn(&Mapped) -> Result<Places, String>) -> Result<(), String> {
        let mapped = Mapped::open(path).map_err(|error| error.to_string())?;
        let file = self.files.len();
        for (name, place) in find(&mapped)? {
            self.insert(name, Stored::Mapped { file, place })?;
        }
        self.files.push(mapped);
        Ok(())
    }

    fn insert(&mut self, name: String, stored: Stored) -> Result<(), String> {
        match self.tensors.insert(name.clone(), stored) {
            None => Ok(()),
            Some(_) => Err(format!("two files hold `{name}`")),
        }
    }

    /// Every shard that an index names, each of which must hold what the index says.
    fn add_shards(&mut self, index: &Path) -> Result<(), String> {
        let index_file = Index::read(index)?;
        let weight_map = &index_file.weight_map;
        let folder = index.parent().unwrap_or(Path::new(""));
        let mut lacking = vec![];
        for shard in &index_file.shards() {
            let mut parts = Path::new(shard).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(format!("`{shard}` is no file of its own folder"));
            }
            let before: BTreeSet<String> = self.tensors.keys().cloned().collect();
            self.add(&folder.join(shard), false)
                .map_err(|error| format!("`{shard}`: {error}"))?;
            let of_shard = weight_map.iter().filter(|(_, of)| *of == shard);
            let there = |name: &String| self.tensors.contains_key(name) && !before.contains(name);
            let not_there = of_shard.filter(|(name, _)| !there(name));
            lacking.extend(not_there.map(|(name, _)| format!("`{name}` is not in `{shard}`")));
        }
        if lacking.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the index does not fit its files\n  {}",
            lacking.join("\n  ")
        ))
    }

    /// The values of a tensor that has been found to be there and to be of floats: in f64 if it is stored so and they are wanted `wide`,
    /// else in f32.
    pub(super) fn values(&self, name: &str, wide: bool) -> Result<Values, WorkloadError> {
        let wrong =
            |text: String| WorkloadError::Weights(format!("`{}`: `{name}`: {text}", self.path.display()));
        match &self.tensors[name] {
            Stored::Mapped { file, place } => self.files[*file].values(place, wide).map_err(wrong),
            Stored::Pickled(tensor) => pytorch::values(tensor, wide).map_err(wrong),
        }
    }
}

/// Returns the file that a path means, and notes about others that are not read: of a folder, the file that transformers
/// reads.
fn file_of(path: &Path) -> Result<(PathBuf, Vec<String>), String> {
    const NAMES: [&str; 4] = [
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ];
    if !path.is_dir() {
        return match path.exists() {
            true => Ok((path.to_owned(), vec![])),
            false => Err("there is no such file".to_owned()),
        };
    }
    const ADAPTERS: [&str; 3] = [
        "adapter_config.json",
        "adapter_model.safetensors",
        "adapter_model.bin",
    ];
    if let Some(adapter) = ADAPTERS.iter().find(|name| path.join(name).is_file()) {
        return Err(format!(
            "it holds an adapter (`{adapter}`), which is not applied\n  hint: merge it into the weights and save them as `{}`",
            NAMES[0]
        ));
    }
    let mut there = NAMES.iter().filter(|name| path.join(name).exists());
    let Some(first) = there.next() else {
        return Err(format!("the folder has none of `{}`", NAMES.join("`, `")));
    };
    let notes = there.map(|other| format!("`{first}` is read and `{other}` is not, as by transformers"));
    Ok((path.join(first), notes.collect()))
}

/// Describes shards in a folder that do not belong to the files that are `read`.
fn stray_shards(folder: &Path, read: &[PathBuf]) -> Option<String> {
    let is_shard = |name: &str| {
        let begins = ["model-", "pytorch_model-"]
            .iter()
            .any(|begin| name.starts_with(begin));
        begins && name.contains("-of-") && (name.ends_with(".safetensors") || name.ends_with(".bin"))
    };
    let entries = folder.read_dir().ok()?.filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_shard(name) && !read.contains(&folder.join(name)))
        .collect();
    names.sort();
    (!names.is_empty()).then(|| format!("not read, because no index names them: `{}`", names.join("`, `")))
}

/// Returns the files of a checkpoint, a file or a folder: one file, or an index and its shards.
///
/// # Errors
/// A path without a checkpoint, or a malformed index.
pub fn weight_files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let (file, _) = file_of(path)?;
    let shards = match Form::of(&file)? {
        Form::Index => Index::read(&file)?.shards(),
        _ => BTreeSet::new(),
    };
    let shards: Vec<PathBuf> = shards
        .into_iter()
        .map(|shard| file.with_file_name(shard))
        .collect();
    Ok([vec![file], shards].concat())
}

/// Every tensor of floats in a checkpoint: its name, its shape and its row-major values.
///
/// # Errors
/// What is wrong with the file.
pub fn weights_in(path: &Path) -> Result<Vec<Weight>, WorkloadError> {
    let checkpoint = Checkpoint::open(path)?;
    let stored = checkpoint.tensors.iter();
    let floats = stored.filter(|(_, stored)| stored.no_floats().is_none());
    let read = |(name, stored): (&String, &Stored)| {
        Ok((name.clone(), stored.shape(), checkpoint.values(name, true)?))
    };
    floats.map(read).collect()
}

impl Stored {
    pub(super) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Mapped { place, .. } => place.shape.clone(),
            Self::Pickled(tensor) => tensor.shape().to_vec(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Mapped { place, .. } => place.bytes.len() as u64,
            Self::Pickled(tensor) => tensor.byte_len() as u64,
        }
    }

    /// The type of its values, if they are no floats.
    pub(super) fn no_floats(&self) -> Option<String> {
        use safetensors::Dtype;
        match self {
            Self::Mapped { place, .. } => {
                let is_float = matches!(place.dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
                (!is_float).then(|| format!("{:?}", place.dtype))
            }
            Self::Pickled(tensor) => pytorch::dtype(tensor)
                .is_none()
                .then(|| format!("{:?}", tensor.dtype())),
        }
    }
}
