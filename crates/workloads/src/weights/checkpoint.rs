//! Checkpoints: `safetensors`, whole or in shards, PyTorch's own files and those of llama2.c. A checkpoint either has every
//! tensor of a model, or is answered with every difference.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use pytorch_reader::Tensor;
use serde::Deserialize;

use super::{
    Weight, initial, llama2c, pytorch,
    tensors::{Mapped, Place, Places},
};
use crate::{
    WorkloadError,
    models::{Network, ParameterSpec},
};

/// What published checkpoints of a model call things.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Naming {
    /// What names of the bare model begin with here, and lack in files of it.
    pub prefix: &'static str,
    /// What names of the head begin with. A file of the bare model has none of them; a training draws them from its seed.
    pub head: &'static [&'static str],
    /// What files may hold beside the parameters: buffers, and heads of other tasks, by a part of their names.
    pub beside: &'static [&'static str],
}

/// What every file may hold beside parameters.
const BESIDE: &[&str] = &["num_batches_tracked"];

/// What names begin with that were written by PyTorch's `DataParallel`.
const PARALLEL: &str = "module.";

/// A file, or a folder of files, with tensors by name.
pub(crate) struct Checkpoint {
    path: PathBuf,
    files: Vec<Mapped>,
    tensors: BTreeMap<String, Stored>,
}

/// A tensor that has not been read.
enum Stored {
    /// In one of the files.
    Mapped { file: usize, place: Place },
    /// In an archive of PyTorch's.
    Pickled(Tensor),
}

/// A batch norm's name, its mean and its variance.
type Running = (String, [Vec<f32>; 2]);

/// Where each tensor of a model is found.
pub(crate) struct Fitted<'a> {
    checkpoint: &'a Checkpoint,
    /// Parameters, with their names in the file; those of a head that it lacks have none.
    parameters: Vec<(ParameterSpec, Option<String>)>,
    /// Batch norms, with the names of their mean and their variance.
    norms: Vec<(String, [String; 2])>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Finds the tensors of a file, or of a folder as Hugging Face has it.
    ///
    /// # Errors
    /// What is wrong with the file. None of its tensors is read.
    pub(crate) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let wrong = |text: String| WorkloadError::Weights(format!("`{}`: {text}", path.display()));
        let mut checkpoint = Self {
            path: path.to_owned(),
            files: vec![],
            tensors: BTreeMap::new(),
        };
        let file = file_of(path).map_err(wrong)?;
        let ends = |end: &str| file.extension().and_then(OsStr::to_str) == Some(end);
        if ends("json") {
            checkpoint.add_shards(&file).map_err(wrong)?;
        } else if ends("safetensors") {
            checkpoint.add(&file, Mapped::safetensors).map_err(wrong)?;
        } else if ends("bin") && !pytorch::is_one(&file) {
            checkpoint.add(&file, llama2c::tensors).map_err(wrong)?;
        } else if ["bin", "pt", "pth", "th"].into_iter().any(ends) {
            let pickled = pytorch::tensors(&file).map_err(wrong)?.into_iter();
            checkpoint
                .tensors
                .extend(pickled.map(|(name, tensor)| (name, Stored::Pickled(tensor))));
        } else {
            return Err(wrong(
                "it is no checkpoint\n  hint: `.safetensors`, `.safetensors.index.json`, `.pt`, `.pth`, `.th`, `.bin`, or a \
                 folder with one of them"
                    .to_owned(),
            ));
        }
        Ok(checkpoint)
    }

    fn add(&mut self, path: &Path, find: fn(&Mapped) -> Result<Places, String>) -> Result<(), String> {
        let mapped = Mapped::open(path).map_err(|error| error.to_string())?;
        let file = self.files.len();
        for (name, place) in find(&mapped)? {
            let stored = Stored::Mapped { file, place };
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(format!("two files hold `{name}`"));
            }
        }
        self.files.push(mapped);
        Ok(())
    }

    /// Every shard that an index names, each of which must hold what the index says.
    fn add_shards(&mut self, index: &Path) -> Result<(), String> {
        let text = std::fs::read(index).map_err(|error| error.to_string())?;
        let Index { weight_map } = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let folder = index.parent().unwrap_or(Path::new(""));
        let shards: BTreeSet<&String> = weight_map.values().collect();
        for shard in shards {
            let mut parts = Path::new(shard).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(format!("`{shard}` is no file of its own folder"));
            }
            let path = folder.join(shard);
            self.add(&path, Mapped::safetensors)
                .map_err(|error| format!("`{shard}`: {error}"))?;
        }
        let lacking = |(name, shard): (&String, &String)| {
            let there = matches!(self.tensors.get(name), Some(Stored::Mapped { file, .. })
                if self.files[*file].path().file_name() == Some(OsStr::new(shard)));
            (!there).then(|| format!("`{name}` is not in `{shard}`"))
        };
        let lacking: Vec<String> = weight_map.iter().filter_map(lacking).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the index does not fit its files\n  {}",
            lacking.join("\n  ")
        ))
    }

    /// Finds every tensor of a model.
    ///
    /// # Errors
    /// One error that lists every missing, extra and misshapen tensor, with the shapes wanted and found. What is to be
    /// trained may lack a head, and running statistics, altogether.
    pub(crate) fn fit<M: Network>(
        &self,
        model: &M,
        to_be_trained: bool,
    ) -> Result<Fitted<'_>, WorkloadError> {
        let naming = model.naming();
        let mut search = Search {
            checkpoint: self,
            naming,
            used: BTreeSet::new(),
            problems: vec![],
        };
        let of_head = |name: &str| naming.head.iter().any(|head| name.starts_with(head));
        let specs = model.parameters();
        let has_head = specs
            .iter()
            .any(|spec| of_head(&spec.name) && search.name_of(&spec.name).is_some());
        let parameters = specs.into_iter().filter_map(|spec| {
            if of_head(&spec.name) && to_be_trained && !has_head {
                return Some((spec, None));
            }
            let found = search.find(&spec.name, &spec.shape)?;
            Some((spec, Some(found)))
        });
        let parameters: Vec<_> = parameters.collect();
        let norms = model.norms();
        let mean = |norm: &str| format!("{norm}.running_mean");
        let has_norms = norms
            .iter()
            .any(|(norm, _)| search.name_of(&mean(norm)).is_some());
        let norms = norms.into_iter().filter(|_| has_norms || !to_be_trained);
        let norms = norms.filter_map(|(norm, channels)| {
            let [mean, variance] = ["running_mean", "running_var"]
                .map(|part| search.find(&format!("{norm}.{part}"), &[channels]));
            Some((norm, [mean?, variance?]))
        });
        let norms: Vec<_> = norms.collect();
        search.note_extras();
        if search.problems.is_empty() {
            return Ok(Fitted {
                checkpoint: self,
                parameters,
                norms,
            });
        }
        Err(WorkloadError::Weights(format!(
            "`{}`: the tensors do not fit the model\n  {}",
            self.path.display(),
            search.problems.join("\n  ")
        )))
    }

    /// The values of a tensor that has been found to be there and to be of floats.
    fn values(&self, name: &str) -> Result<Vec<f32>, WorkloadError> {
        let wrong =
            |text: String| WorkloadError::Weights(format!("`{}`: `{name}`: {text}", self.path.display()));
        match &self.tensors[name] {
            Stored::Mapped { file, place } => self.files[*file].values(place).map_err(wrong),
            Stored::Pickled(tensor) => pytorch::values(tensor).map_err(wrong),
        }
    }
}

/// Every tensor of floats in a checkpoint: its name, its shape and its row-major values.
///
/// # Errors
/// What is wrong with the file.
pub fn weights_in(path: &Path) -> Result<Vec<Weight>, WorkloadError> {
    let checkpoint = Checkpoint::open(path)?;
    let stored = checkpoint.tensors.iter();
    let floats = stored.filter(|(_, stored)| stored.no_floats().is_none());
    let read =
        |(name, stored): (&String, &Stored)| Ok((name.clone(), stored.shape(), checkpoint.values(name)?));
    floats.map(read).collect()
}

impl Stored {
    fn shape(&self) -> Vec<usize> {
        match self {
            Self::Mapped { place, .. } => place.shape.clone(),
            Self::Pickled(tensor) => tensor.shape().to_vec(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Mapped { place, .. } => place.bytes.len() as u64,
            Self::Pickled(tensor) => tensor.byte_len() as u64,
        }
    }

    /// The type of its values, if they are no floats.
    fn no_floats(&self) -> Option<String> {
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

/// The file that a path means: of a folder, the one that Hugging Face would read.
fn file_of(path: &Path) -> Result<PathBuf, String> {
    const NAMES: [&str; 3] = [
        "model.safetensors.index.json",
        "model.safetensors",
        "pytorch_model.bin",
    ];
    if !path.is_dir() {
        return match path.exists() {
            true => Ok(path.to_owned()),
            false => Err("there is no such file".to_owned()),
        };
    }
    let there = NAMES
        .iter()
        .map(|name| path.join(name))
        .find(|file| file.exists());
    there.ok_or_else(|| format!("the folder has none of `{}`", NAMES.join("`, `")))
}

/// Tensors of a model on their way to being found.
struct Search<'a> {
    checkpoint: &'a Checkpoint,
    naming: Naming,
    used: BTreeSet<String>,
    problems: Vec<String>,
}

impl Search<'_> {
    /// What a file calls a tensor.
    fn name_of(&self, name: &str) -> Option<String> {
        let bare = name.strip_prefix(self.naming.prefix).unwrap_or(name);
        // Files from before PyTorch's own layer norm.
        let old = |name: &str| {
            let name = name
                .strip_suffix("LayerNorm.weight")
                .map(|layer| format!("{layer}LayerNorm.gamma"))
                .or_else(|| {
                    name.strip_suffix("LayerNorm.bias")
                        .map(|layer| format!("{layer}LayerNorm.beta"))
                });
            name.unwrap_or_default()
        };
        let names = [
            name.to_owned(),
            bare.to_owned(),
            format!("{PARALLEL}{name}"),
            old(name),
            old(bare),
        ];
        let mut names = names.into_iter();
        names.find(|name| self.checkpoint.tensors.contains_key(name))
    }

    /// What a file calls a tensor of this shape; a problem if it has none.
    fn find(&mut self, name: &str, shape: &[usize]) -> Option<String> {
        let Some(found) = self.name_of(name) else {
            self.problems.push(format!("missing `{name}` {shape:?}"));
            return None;
        };
        let stored = &self.checkpoint.tensors[&found];
        self.used.insert(found.clone());
        if stored.shape() != shape {
            let problem = format!("`{found}` is {:?}, wanted {shape:?}", stored.shape());
            self.problems.push(problem);
            return None;
        }
        if let Some(dtype) = stored.no_floats() {
            let problem = format!("`{found}` is {dtype}, wanted F64, F32, F16 or BF16");
            self.problems.push(problem);
            return None;
        }
        Some(found)
    }

    fn note_extras(&mut self) {
        let beside = |name: &str| {
            let mut parts = self.naming.beside.iter().chain(BESIDE);
            parts.any(|part| name.contains(part))
        };
        let names = self.checkpoint.tensors.keys();
        let extra = names.filter(|name| !self.used.contains(*name) && !beside(name));
        let extra: Vec<String> = extra.map(|name| format!("extra `{name}`")).collect();
        self.problems.extend(extra);
    }
}

impl Fitted<'_> {
    /// Parameters one after the other, each read when it is asked for; those of a head that the file lacks are drawn from
    /// a seed.
    pub(crate) fn parameters(&self, seed: u64) -> impl Iterator<Item = Result<Weight, WorkloadError>> {
        let lacking = self.parameters.iter().filter(|(_, name)| name.is_none());
        let mut drawn = initial(lacking.map(|(spec, _)| spec.clone()).collect(), seed);
        self.parameters.iter().map(move |(spec, name)| match name {
            Some(name) => {
                let values = self.checkpoint.values(name)?;
                Ok((spec.name.clone(), spec.shape.clone(), values))
            }
            None => Ok(drawn.next().expect("one for each that is lacking")),
        })
    }

    /// Mean and variance of every batch norm, by its name.
    pub(crate) fn running(&self) -> Result<Vec<Running>, WorkloadError> {
        let read = |(norm, [mean, variance]): &(String, [String; 2])| {
            let values = [self.checkpoint.values(mean)?, self.checkpoint.values(variance)?];
            Ok((norm.clone(), values))
        };
        self.norms.iter().map(read).collect()
    }

    /// Bytes of what is read, as the file has it.
    pub(crate) fn bytes(&self) -> u64 {
        let parameters = self.parameters.iter().filter_map(|(_, name)| name.as_ref());
        let names = parameters.chain(self.norms.iter().flat_map(|(_, names)| names));
        names.map(|name| self.checkpoint.tensors[name].bytes()).sum()
    }

    /// Whether the file has running statistics.
    pub(crate) fn has_norms(&self) -> bool {
        !self.norms.is_empty()
    }

    /// Names of the parameters that the file lacks.
    pub(crate) fn lacking(&self) -> Vec<&str> {
        let lacking = self.parameters.iter().filter(|(_, name)| name.is_none());
        lacking.map(|(spec, _)| spec.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::DistilBertSize;
    use safetensors::{Dtype, tensor::TensorView};

    use super::*;
    use crate::models::DistilBert;

    /// A model with few parameters, and what its files hold beside and may lack.
    fn model() -> DistilBert {
        let size = DistilBertSize {
            n_layers: 1,
            dim: 2,
            n_heads: 1,
            hidden_dim: 3,
            max_position_embeddings: 2,
            dropout: 0.0,
            attention_dropout: 0.0,
            seq_classif_dropout: 0.0,
        };
        DistilBert::new(size, 3, 2)
    }

    type Tensors = BTreeMap<String, (Vec<usize>, Dtype, Vec<u8>)>;

    /// Every tensor of the model; value `i` of tensor `t` is t + i/64, a number of all formats.
    fn tensors() -> Tensors {
        let specs = model().parameters().into_iter().zip(0u8..);
        let tensor = |(spec, t): (ParameterSpec, u8)| {
            let count: usize = spec.shape.iter().product();
            let value = |i: usize| f32::from(t) + i as f32 / 64.0;
            let bytes = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
            (spec.name, (spec.shape, Dtype::F32, bytes))
        };
        specs.map(tensor).collect()
    }

    fn write(path: &Path, tensors: &Tensors) {
        let views = tensors.iter().map(|(name, (shape, dtype, bytes))| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize_to_file(views, None, path).unwrap();
    }

    /// What is read from a path, in the model's order.
    fn read(path: &Path, to_be_trained: bool) -> Result<Vec<Weight>, String> {
        let checkpoint = Checkpoint::open(path).map_err(|error| error.to_string())?;
        let fitted = checkpoint.fit(&model(), to_be_trained);
        let fitted = fitted.map_err(|error| error.to_string())?;
        Ok(fitted.parameters(7).map(Result::unwrap).collect())
    }

    fn expected() -> Vec<Weight> {
        let tensors = tensors();
        let specs = model().parameters().into_iter();
        specs
            .map(|spec| {
                let (shape, _, bytes) = &tensors[&spec.name];
                (spec.name, shape.clone(), bytemuck::pod_collect_to_vec(bytes))
            })
            .collect()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        (folder, path)
    }

    #[test]
    fn a_file_that_does_not_fit_is_answered_with_every_difference() {
        let (_folder, path) = folder();
        let mut tensors = tensors();
        let (name, other) = ("distilbert.embeddings.LayerNorm.bias", "pre_classifier.weight");
        tensors.remove(name);
        tensors.get_mut(other).unwrap().0 = vec![1, 4];
        tensors.insert("z".into(), (vec![1], Dtype::F32, vec![0; 4]));
        let counts = "classifier.bias";
        *tensors.get_mut(counts).unwrap() = (vec![2], Dtype::I32, vec![0; 8]);
        // Nobody asks for these.
        tensors.insert("vocab_transform.bias".into(), (vec![1], Dtype::F32, vec![0; 4]));
        tensors.insert(
            "distilbert.x.num_batches_tracked".into(),
            (vec![], Dtype::I64, vec![0; 8]),
        );
        write(&path, &tensors);
        let error = read(&path, true).unwrap_err();
        let problems: Vec<&str> = error.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            problems,
            [
                "missing `distilbert.embeddings.LayerNorm.bias` [2]",
                "`pre_classifier.weight` is [1, 4], wanted [2, 2]",
                "`classifier.bias` is I32, wanted F64, F32, F16 or BF16",
                "extra `z`",
            ]
        );
    }

    #[test]
    fn every_float_format_and_naming_is_read() {
        let (_folder, path) = folder();
        let whole = tensors();
        write(&path, &whole);
        assert_eq!(read(&path, false).unwrap(), expected());

        type Narrow = fn(f32) -> Vec<u8>;
        let formats: [(Dtype, Narrow); 3] = [
            (Dtype::F16, |x| half::f16::from_f32(x).to_le_bytes().to_vec()),
            (Dtype::BF16, |x| half::bf16::from_f32(x).to_le_bytes().to_vec()),
            (Dtype::F64, |x| f64::from(x).to_le_bytes().to_vec()),
        ];
        for (dtype, narrow) in formats {
            let stored = whole.iter().map(|(name, (shape, _, bytes))| {
                let values: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
                (
                    name.clone(),
                    (
                        shape.clone(),
                        dtype,
                        values.into_iter().flat_map(narrow).collect(),
                    ),
                )
            });
            write(&path, &stored.collect());
            let read = read(&path, false).unwrap();
            for ((name, _, read), (_, _, wanted)) in read.iter().zip(expected()) {
                let close = read
                    .iter()
                    .zip(&wanted)
                    .all(|(a, b)| (a - b).abs() <= 0.004 * b.abs());
                assert!(close, "{dtype:?} {name}: {read:?} and not {wanted:?}");
                let exact = dtype == Dtype::F64 || (dtype == Dtype::F16 && wanted[0] < 16.0);
                assert!(!exact || *read == wanted, "{dtype:?} {name}");
            }
        }

        // Of the bare model, as before PyTorch's own layer norm, and by a data-parallel training.
        let renamed = |rename: &dyn Fn(&str) -> String| -> Tensors {
            whole
                .iter()
                .map(|(name, tensor)| (rename(name), tensor.clone()))
                .collect()
        };
        let bare = renamed(&|name| {
            name.replace("distilbert.", "")
                .replace("LayerNorm.weight", "LayerNorm.gamma")
                .replace("LayerNorm.bias", "LayerNorm.beta")
        });
        let parallel = renamed(&|name| format!("module.{name}"));
        for tensors in [bare, parallel] {
            write(&path, &tensors);
            assert_eq!(read(&path, false).unwrap(), expected());
        }
    }

    #[test]
    fn a_head_that_is_missing_is_drawn_for_a_training_and_refused_for_a_test() {
        let (_folder, path) = folder();
        let mut tensors = tensors();
        tensors.retain(|name, _| !name.contains("classifier"));
        write(&path, &tensors);
        let read_again = read(&path, true).unwrap();
        let drawn: Vec<&Weight> = read_again
            .iter()
            .filter(|(name, ..)| name.contains("classifier"))
            .collect();
        assert_eq!(drawn.len(), 4);
        assert!(drawn[0].2.iter().any(|x| *x != 0.0), "{drawn:?}");
        assert_eq!(read_again[0], expected()[0]);
        let error = read(&path, false).unwrap_err();
        assert_eq!(error.matches("missing").count(), 4, "{error}");
        // Half a head is none.
        tensors.insert("classifier.bias".into(), (vec![2], Dtype::F32, vec![0; 8]));
        write(&path, &tensors);
        assert_eq!(read(&path, true).unwrap_err().matches("missing").count(), 3);
    }

    #[test]
    fn shards_are_read_by_their_index_which_has_to_be_true() {
        let (folder, path) = folder();
        let (first, second): (Tensors, Tensors) = tensors()
            .into_iter()
            .partition(|(name, _)| name.starts_with("distilbert."));
        let shard = |number: u32| format!("model-{number:05}-of-00002.safetensors");
        write(&folder.path().join(shard(1)), &first);
        write(&folder.path().join(shard(2)), &second);
        let index = path.with_file_name("model.safetensors.index.json");
        let map = |first_in: &str| -> serde_json::Value {
            let of = |tensors: &Tensors, shard: &str| -> Vec<(String, serde_json::Value)> {
                tensors.keys().map(|name| (name.clone(), shard.into())).collect()
            };
            let all = of(&first, first_in).into_iter().chain(of(&second, &shard(2)));
            serde_json::json!({ "metadata": {}, "weight_map": serde_json::Map::from_iter(all) })
        };
        std::fs::write(&index, map(&shard(1)).to_string()).unwrap();
        assert_eq!(read(folder.path(), false).unwrap(), expected());
        assert_eq!(read(&index, false).unwrap(), expected());
        for (wrong, says) in [
            ("../model.safetensors", "no file of its own folder"),
            ("/etc/passwd", "no file of its own folder"),
            (shard(2).as_str(), "the index does not fit its files"),
            ("absent.safetensors", "`absent.safetensors`: No such file"),
        ] {
            std::fs::write(&index, map(wrong).to_string()).unwrap();
            let error = read(folder.path(), false).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_file_that_lies_about_itself_is_an_error_and_not_a_number() {
        let (_folder, path) = folder();
        write(&path, &tensors());
        let good = std::fs::read(&path).unwrap();
        // Cut off at every byte of the header, and in the values.
        let header = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize + 8;
        let cuts = (0..header).step_by(7).chain([header, good.len() - 1]);
        for cut in cuts {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert!(read(&path, false).is_err(), "{cut} bytes");
        }
        let with_header = |text: &str| {
            let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
            bytes.extend_from_slice(text.as_bytes());
            bytes.extend_from_slice(&[0; 16]);
            bytes
        };
        let tensor = |offsets: &str| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}"#);
        for bad in [
            u64::MAX.to_le_bytes().to_vec(),
            with_header(&format!(
                r#"{{"a":{},"b":{}}}"#,
                tensor("[0,8]"),
                tensor("[4,12]")
            )),
            with_header(&format!(
                r#"{{"a":{},"b":{}}}"#,
                tensor("[0,8]"),
                tensor("[8,4096]")
            )),
            with_header(&format!(r#"{{"a":{}}}"#, tensor("[8,0]"))),
            with_header(r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}}"#),
            with_header(r#"{"a":{"dtype":"F7","shape":[4],"data_offsets":[0,16]}}"#),
            with_header(r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,16]}}"#),
        ] {
            std::fs::write(&path, &bad).unwrap();
            assert!(read(&path, false).is_err(), "{}", String::from_utf8_lossy(&bad));
        }
        let other = path.with_file_name("weights.xyz");
        std::fs::write(&other, good).unwrap();
        assert!(read(&other, false).unwrap_err().contains("it is no checkpoint"));
        let gone = path.with_file_name("gone.safetensors");
        assert!(read(&gone, false).unwrap_err().contains("there is no such file"));
    }
}
