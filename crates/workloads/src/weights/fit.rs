//! Matches the tensors of a checkpoint to the parameters of a model. A checkpoint that does not match is rejected with a list of the differences.

use mantissa_core::{Format, Values};
use mantissa_inputs::weights::{Checkpoint, Weight};

use super::{initial, name_prefix::detect_prefix, tensor_search::TensorSearch};
use crate::{
    WorkloadError,
    models::{Network, ParameterSpec},
};

/// Name, running mean and running variance of a batch norm.
type RunningStatistics = (String, [Values; 2]);

/// Checkpoint tensors matched to the parameters of a model.
pub(crate) struct Fitted<'a> {
    checkpoint: &'a Checkpoint,
    /// Parameters with their names in the checkpoint; `None` for head parameters that are initialized.
    parameters: Vec<(ParameterSpec, Option<String>)>,
    /// Batch norms with the names of their mean and variance in the checkpoint.
    norms: Vec<(String, [String; 2])>,
    /// Notes for the report on how the checkpoint was read.
    notes: Vec<String>,
}

/// Matches every parameter and batch norm of a model to a tensor of the checkpoint.
///
/// # Errors
/// Tensors are missing, unexpected, or have another shape or type. The error counts all differences and lists the first ones.
///
/// If the model is to be trained, the whole head and all running statistics may be missing. A head for another number of classes is initialized
/// like a missing head.
pub(crate) fn fit<'a, M: Network>(
    checkpoint: &'a Checkpoint,
    model: &M,
    for_training: bool,
) -> Result<Fitted<'a>, WorkloadError> {
    let naming = model.naming();
    let specs = model.parameters();
    let weights_error =
        |text: String| WorkloadError::weights(format!("`{}`: {text}", checkpoint.path().display()));
    let prefix = detect_prefix(checkpoint, &specs, naming).map_err(weights_error)?;
    let mut search = TensorSearch::new(checkpoint, naming, prefix);
    let mut notes = checkpoint.notes().to_vec();
    notes.extend(search.prefix_note());
    let is_head = |name: &str| naming.head.iter().any(|head| name.starts_with(head));
    let has_head = specs
        .iter()
        .any(|spec| is_head(&spec.name) && search.name_of(&spec.name).is_some());
    let wanted = specs.len();
    let parameters = specs.into_iter().filter_map(|spec| {
        if is_head(&spec.name) && for_training && !has_head {
            return Some((spec, None));
        }
        if for_training && let Some(classes) = search.different_class_count(&spec) {
            notes.push(format!(
                "`{}` has {classes} classes, but the data has {}: initialized from the seed",
                spec.name, spec.shape[0]
            ));
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
    let norms = norms.into_iter().filter(|_| has_norms || !for_training);
    let norms = norms.filter_map(|(norm, channels)| {
        let [mean, variance] =
            ["running_mean", "running_var"].map(|part| search.find(&format!("{norm}.{part}"), &[channels]));
        Some((norm, [mean?, variance?]))
    });
    let norms: Vec<_> = norms.collect();
    search.record_unexpected(model.tied_head())?;
    if search.fits() {
        return Ok(Fitted {
            checkpoint,
            parameters,
            norms,
            notes,
        });
    }
    Err(weights_error(search.differences(wanted)))
}

impl Fitted<'_> {
    /// Iterates over the parameters. Each parameter is read from the checkpoint on demand, or initialized from the seed if it belongs to a
    /// missing head. Values are f64 only if the checkpoint and `format` are f64.
    pub(crate) fn parameters(
        &self,
        seed: u64,
        format: Format,
    ) -> impl Iterator<Item = Result<Weight, WorkloadError>> {
        let missing = self.parameters.iter().filter(|(_, name)| name.is_none());
        let mut initialized = initial(missing.map(|(spec, _)| spec.clone()).collect(), seed);
        self.parameters.iter().map(move |(spec, name)| match name {
            Some(name) => {
                let values = self.checkpoint.values(name, format == Format::F64)?;
                Ok((spec.name.clone(), spec.shape.clone(), values))
            }
            None => Ok(initialized
                .next()
                .expect("`initial` returns every missing parameter")),
        })
    }

    /// Reads the running mean and variance of every batch norm.
    pub(crate) fn running(&self, format: Format) -> Result<Vec<RunningStatistics>, WorkloadError> {
        let wide = format == Format::F64;
        let read = |(norm, [mean, variance]): &(String, [String; 2])| {
            let values = [
                self.checkpoint.values(mean, wide)?,
                self.checkpoint.values(variance, wide)?,
            ];
            Ok((norm.clone(), values))
        };
        self.norms.iter().map(read).collect()
    }

    /// Returns the size in bytes of the matched tensors in the checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        let parameters = self.parameters.iter().filter_map(|(_, name)| name.as_ref());
        let names = parameters.chain(self.norms.iter().flat_map(|(_, names)| names));
        names.map(|name| self.checkpoint.tensors()[name].bytes()).sum()
    }

    /// Returns true if the checkpoint has running statistics.
    pub(crate) fn has_norms(&self) -> bool {
        !self.norms.is_empty()
    }

    /// Returns the names of the parameters that the checkpoint does not contain and that are initialized.
    pub(crate) fn missing_parts(&self) -> Vec<&str> {
        let missing = self.parameters.iter().filter(|(_, name)| name.is_none());
        missing.map(|(spec, _)| spec.name.as_str()).collect()
    }

    /// Returns notes for the report on how the checkpoint was read.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        path::{Path, PathBuf},
    };

    use mantissa_core::{DistilBertSize, LlamaSize};
    use safetensors::{Dtype, tensor::TensorView};

    use super::*;
    use crate::{
        models::{DistilBert, Llama},
        weights::tensor_search::MAX_LISTED,
    };

    /// A small model with a head and tensors to ignore.
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

    /// Every tensor of the model. Value `i` of tensor `t` is t + i/64.
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

    /// Reads a checkpoint in the order of the model's parameters.
    fn read(path: &Path, for_training: bool) -> Result<Vec<Weight>, String> {
        let checkpoint = Checkpoint::open(path).map_err(|error| error.to_string())?;
        let fitted = fit(&checkpoint, &model(), for_training);
        let fitted = fitted.map_err(|error| error.to_string())?;
        Ok(fitted.parameters(7, Format::F32).map(Result::unwrap).collect())
    }

    fn expected() -> Vec<Weight> {
        let tensors = tensors();
        let specs = model().parameters().into_iter();
        specs
            .map(|spec| {
                let (shape, _, bytes) = &tensors[&spec.name];
                (
                    spec.name,
                    shape.clone(),
                    Values::F32(bytemuck::pod_collect_to_vec(bytes)),
                )
            })
            .collect()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        (folder, path)
    }

    #[test]
    fn mismatched_checkpoint_is_rejected_with_differences() {
        let (_folder, path) = folder();
        let mut tensors = tensors();
        let (name, other) = ("distilbert.embeddings.LayerNorm.bias", "pre_classifier.weight");
        tensors.remove(name);
        tensors.get_mut(other).unwrap().0 = vec![1, 4];
        tensors.insert("z".into(), (vec![1], Dtype::F32, vec![0; 4]));
        let counts = "classifier.bias";
        *tensors.get_mut(counts).unwrap() = (vec![2], Dtype::I32, vec![0; 8]);
        // These two tensors are ignored, so the error does not list them.
        tensors.insert("vocab_transform.bias".into(), (vec![1], Dtype::F32, vec![0; 4]));
        tensors.insert(
            "distilbert.x.num_batches_tracked".into(),
            (vec![], Dtype::I64, vec![0; 8]),
        );
        write(&path, &tensors);
        let error = read(&path, true).unwrap_err();
        let (summary, problems) = error.split_once('\n').unwrap();
        let wanted = model().parameters().len();
        assert!(
            summary.ends_with(&format!(
                "do not match the model's {wanted} parameters: 1 missing, 2 mismatched, 1 unexpected"
            )),
            "{summary}"
        );
        assert_eq!(
            problems.lines().map(str::trim).collect::<Vec<_>>(),
            [
                "missing `distilbert.embeddings.LayerNorm.bias` [2]",
                "`pre_classifier.weight` has shape [1, 4], expected [2, 2]",
                "`classifier.bias` has type I32, expected F64, F32, F16 or BF16",
                "unexpected `z`",
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
                let (read, wanted) = (read.to_f64(), wanted.to_f64());
                let close = read
                    .iter()
                    .zip(&wanted)
                    .all(|(a, b)| (a - b).abs() <= 0.004 * b.abs());
                assert!(close, "{dtype:?} {name}: got {read:?}, expected {wanted:?}");
                let exact = dtype == Dtype::F64 || (dtype == Dtype::F16 && wanted[0] < 16.0);
                assert!(!exact || read == wanted, "{dtype:?} {name}");
            }
        }

        // First without the model prefix and with TensorFlow's names of layer norm parameters, then with prefixes that training scripts add.
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
        write(&path, &bare);
        assert_eq!(read(&path, false).unwrap(), expected());
        for prefix in [
            "module.",
            "_orig_mod.",
            "module._orig_mod.",
            "model.",
            "ema.module.",
            "any.other.",
        ] {
            write(&path, &renamed(&|name| format!("{prefix}{name}")));
            assert_eq!(read(&path, false).unwrap(), expected(), "{prefix}");
            let checkpoint = Checkpoint::open(&path).unwrap();
            let notes = fit(&checkpoint, &model(), false).unwrap().notes().join("\n");
            assert!(notes.contains(&format!("the prefix `{prefix}`")), "{notes}");
        }
    }

    #[test]
    fn f64_values_are_not_rounded_for_a_model_in_f64() {
        let (_folder, path) = folder();
        let fine = 1.0 + 2f64.powi(-40);
        let tensors = tensors().into_iter().map(|(name, (shape, ..))| {
            let count = shape.iter().product::<usize>();
            (name, (shape, Dtype::F64, fine.to_le_bytes().repeat(count)))
        });
        write(&path, &tensors.collect());
        let checkpoint = Checkpoint::open(&path).unwrap();
        let fitted = fit(&checkpoint, &model(), false).unwrap();
        for (format, value) in [(Format::F64, fine), (Format::F32, 1.0)] {
            let values = fitted
                .parameters(7, format)
                .flat_map(|weight| weight.unwrap().2.to_f64());
            assert!(values.into_iter().all(|x| x == value), "{format}");
        }
    }

    #[test]
    fn duplicate_models_and_unknown_names_are_short_errors() {
        let (_folder, path) = folder();
        let with = |prefix: &str| -> Tensors {
            let all = tensors().into_iter();
            all.map(|(name, tensor)| (format!("{prefix}{name}"), tensor))
                .collect()
        };
        let twice: Tensors = with("a.").into_iter().chain(with("b.")).collect();
        write(&path, &twice);
        let error = read(&path, false).unwrap_err();
        assert!(
            error.contains("more than once, with the prefixes `a.` and `b.`"),
            "{error}"
        );
        // If the prefixes of several copies of the model are in `SECTIONS`, the copy whose prefix comes first in `SECTIONS` is read.
        let averaged = with("ema.").into_iter().map(|(name, (shape, dtype, bytes))| {
            let zeros = vec![0; bytes.len()];
            (name, (shape, dtype, zeros))
        });
        write(&path, &with("model.").into_iter().chain(averaged).collect());
        assert_eq!(read(&path, false).unwrap(), expected());
        let checkpoint = Checkpoint::open(&path).unwrap();
        let notes = fit(&checkpoint, &model(), false).unwrap().notes().join("\n");
        assert!(notes.contains("ignored: the tensors under `ema`"), "{notes}");
        let others = tensors().into_values().enumerate();
        let others = others.map(|(number, tensor)| (format!("block_{number}.kernel"), tensor));
        write(&path, &others.collect());
        let error = read(&path, false).unwrap_err();
        let count = model().parameters().len();
        assert!(
            error.contains(&format!("none of its {count} tensors")) && error.lines().count() < 4,
            "{error}"
        );
        // Only the embeddings are present.
        let mut few = tensors();
        few.retain(|name, _| name.contains("embeddings"));
        write(&path, &few);
        let error = read(&path, false).unwrap_err();
        assert!(
            error.lines().count() <= MAX_LISTED + 2 && error.contains(" more"),
            "{error}"
        );
    }

    #[test]
    fn head_for_other_classes_is_accepted_only_in_training() {
        let (_folder, path) = folder();
        let mut tensors = tensors();
        tensors.insert("classifier.weight".into(), (vec![5, 2], Dtype::F32, vec![0; 40]));
        tensors.insert("classifier.bias".into(), (vec![5], Dtype::F32, vec![0; 20]));
        write(&path, &tensors);
        let checkpoint = Checkpoint::open(&path).unwrap();
        let fitted = fit(&checkpoint, &model(), true).unwrap();
        assert_eq!(fitted.missing_parts(), ["classifier.weight", "classifier.bias"]);
        assert!(
            fitted.notes()[0].contains("5 classes, but the data has 2"),
            "{:?}",
            fitted.notes()
        );
        assert!(
            read(&path, false)
                .unwrap_err()
                .contains("[5, 2], expected [2, 2]")
        );
    }

    #[test]
    fn a_tied_head_must_equal_the_embedding_table() {
        let (_folder, path) = folder();
        let model = Llama::new(LlamaSize {
            vocab_size: 3,
            hidden_size: 2,
            intermediate_size: 3,
            num_hidden_layers: 1,
            num_attention_heads: 1,
            num_key_value_heads: 1,
            head_dim: 2,
            tie_word_embeddings: true,
            ..LlamaSize::LLAMA2_7B
        });
        let specs = model.parameters().into_iter();
        let mut tensors: Tensors = specs
            .map(|spec| {
                let count = spec.shape.iter().product::<usize>();
                (
                    spec.name,
                    (spec.shape, Dtype::F32, 1f32.to_le_bytes().repeat(count)),
                )
            })
            .collect();
        let head = tensors["model.embed_tokens.weight"].clone();
        tensors.insert("lm_head.weight".into(), head);
        let fits = |tensors: &Tensors| {
            write(&path, tensors);
            let checkpoint = Checkpoint::open(&path).unwrap();
            fit(&checkpoint, &model, false)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert_eq!(fits(&tensors), Ok(()));
        tensors.get_mut("lm_head.weight").unwrap().2[3] ^= 0x80;
        let error = fits(&tensors).unwrap_err();
        assert!(
            error.contains("`lm_head.weight` differs from `model.embed_tokens.weight`"),
            "{error}"
        );
        // The head may lack the prefix of the other tensors.
        let head = tensors.remove("lm_head.weight").unwrap();
        let mut prefixed: Tensors = tensors
            .iter()
            .map(|(name, tensor)| (format!("module.{name}"), tensor.clone()))
            .collect();
        assert_eq!(fits(&prefixed), Ok(()));
        prefixed.insert("lm_head.weight".into(), head);
        assert!(
            fits(&prefixed)
                .unwrap_err()
                .contains("`lm_head.weight` differs from")
        );
        tensors.insert("lm_head.bias".into(), (vec![3], Dtype::F32, vec![0; 12]));
        assert!(fits(&tensors).unwrap_err().contains("`lm_head.bias` is a bias"));
    }

    #[test]
    fn missing_head_is_accepted_only_in_training() {
        let (_folder, path) = folder();
        let mut tensors = tensors();
        tensors.retain(|name, _| !name.contains("classifier"));
        write(&path, &tensors);
        let read_again = read(&path, true).unwrap();
        let initialized: Vec<&Weight> = read_again
            .iter()
            .filter(|(name, ..)| name.contains("classifier"))
            .collect();
        assert_eq!(initialized.len(), 4);
        assert!(
            initialized[0].2.to_f64().iter().any(|x| *x != 0.0),
            "{initialized:?}"
        );
        assert_eq!(read_again[0], expected()[0]);
        let error = read(&path, false).unwrap_err();
        assert_eq!(error.matches("missing `").count(), 4, "{error}");
        // A partial head is an error.
        tensors.insert("classifier.bias".into(), (vec![2], Dtype::F32, vec![0; 8]));
        write(&path, &tensors);
        assert_eq!(read(&path, true).unwrap_err().matches("missing `").count(), 3);
    }

    #[test]
    fn shards_are_read_only_with_a_matching_index() {
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
        // A whole file is preferred to shards, as in transformers.
        let whole = path.with_file_name("model.safetensors");
        let mut other = tensors();
        other.values_mut().for_each(|(_, _, bytes)| bytes.fill(0));
        write(&whole, &other);
        assert_ne!(read(folder.path(), false).unwrap(), expected());
        let notes = Checkpoint::open(folder.path()).unwrap().notes().to_vec();
        assert!(
            notes[0].contains("`model.safetensors.index.json` is ignored"),
            "{notes:?}"
        );
        std::fs::remove_file(whole).unwrap();
        for (wrong, message) in [
            ("../model.safetensors", "is not in the folder of the index"),
            ("/etc/passwd", "is not in the folder of the index"),
            (shard(2).as_str(), "the index does not match its shards"),
            ("absent.safetensors", "`absent.safetensors`: No such file"),
        ] {
            std::fs::write(&index, map(wrong).to_string()).unwrap();
            let error = read(folder.path(), false).unwrap_err();
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }

    #[test]
    fn adapters_are_rejected_and_lone_shards_are_reported() {
        let (folder, path) = folder();
        write(&path, &tensors());
        let copy = |name: &str| std::fs::copy(&path, folder.path().join(name)).unwrap();
        copy("model-00003-of-00003.safetensors");
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let notes = fit(&checkpoint, &model(), false).unwrap().notes().join("\n");
        assert!(notes.contains("`model-00003-of-00003.safetensors`"), "{notes}");
        copy("adapter_model.safetensors");
        let error = Checkpoint::open(folder.path()).err().unwrap().to_string();
        assert!(
            error.contains("an adapter (`adapter_model.safetensors`)"),
            "{error}"
        );
    }

    #[test]
    fn corrupt_files_are_rejected() {
        let (_folder, path) = folder();
        write(&path, &tensors());
        let good = std::fs::read(&path).unwrap();
        // Truncate the file in the header (at every seventh byte) and in the values.
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
        // The file name does not matter.
        let other = path.with_file_name("pytorch_model.bin");
        std::fs::write(&other, good).unwrap();
        assert_eq!(read(&other, false).unwrap(), expected());
        std::fs::write(
            &other,
            "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 9\n",
        )
        .unwrap();
        assert!(
            read(&other, false)
                .unwrap_err()
                .contains("it is a Git LFS pointer")
        );
        std::fs::write(&other, "no weights at all").unwrap();
        assert!(
            read(&other, false)
                .unwrap_err()
                .contains("it is not a checkpoint")
        );
        let gone = path.with_file_name("gone.safetensors");
        assert!(read(&gone, false).unwrap_err().contains("file not found"));
    }
}
