//! Files with the inputs of a peer: the cell, initial weights, and examples or operands.
//!
//! ```text
//! FOLDER/<cell>.json             the cell, and the names of its files
//!        weights.safetensors     f32, with the names of published checkpoints; includes the running statistics of batch norms
//!        train.safetensors       tokens or pixels in the model's format, and the labels; likewise for validation and test
//!        prompts.safetensors     prompts of a generation cell
//!        operands.safetensors    operands of a kernel, in f64
//!        again-<cell>.json       the cell in f32, with the same files, to compare the predictions
//! ```

use std::{collections::HashMap, fs, path::Path};

use mantissa_core::Values;
use mantissa_core::{Cell, GenerateTask, Setting, read_regular};
use mantissa_inputs::weights::{Checkpoint, Weight};
use safetensors::{Dtype, tensor::TensorView};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Inputs, WorkloadError,
    data::{Dataset, Labelled, Numbers, Part, Tokenized},
    generate::prompts,
    initial_state::Purpose,
    models::Network,
    outcome::ActionError,
    weights::fit,
};

/// Contents of `<cell>.json`.
#[derive(Debug, Serialize)]
struct CellFile<'a> {
    cell: &'a Cell,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    train: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<String>,
    /// File of a kernel's operands.
    #[serde(skip_serializing_if = "Option::is_none")]
    operands: Option<String>,
    /// Number of classes, if examples have classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<u32>,
    /// Vocabulary size, if examples are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<u32>,
}

impl<'a> CellFile<'a> {
    fn new(cell: &'a Cell) -> Self {
        Self {
            cell,
            weights: None,
            train: None,
            validation: None,
            test: None,
            prompts: None,
            operands: None,
            classes: None,
            words: None,
        }
    }
}

/// Cell to write, its inputs and the target folder.
#[derive(Clone, Copy)]
pub(crate) struct CellFiles<'a> {
    pub cell: &'a Cell,
    pub inputs: &'a Inputs,
    pub folder: &'a Path,
}

/// Writes the files of a training or evaluation cell. Returns the name of the JSON file.
///
/// # Errors
/// The user's weights are invalid, or a file cannot be written.
pub(super) fn write_files<M: Network>(
    files: &CellFiles<'_>,
    model: &M,
    data: &Dataset<M::Part>,
    purpose: Purpose,
) -> Result<String, WorkloadError> {
    let weights = files.weights(model, purpose)?;
    let cell = files.cell;
    let written = CellFile {
        weights: Some(weights),
        train: files.part("train", &data.train)?,
        validation: files.part("validation", &data.validation)?,
        test: files.part("test", &data.test)?,
        classes: (!cell.workload.predicts_tokens()).then_some(data.classes),
        words: data.test.words(),
        ..CellFile::new(cell)
    };
    files.write_json(&written)
}

/// Writes the files of a generation cell. Returns the name of the JSON file.
///
/// # Errors
/// The user's weights are invalid, or a file cannot be written.
pub(super) fn write_prompts<M: Network<Part = Tokenized>>(
    files: &CellFiles<'_>,
    model: &M,
    task: &GenerateTask,
) -> Result<String, WorkloadError> {
    let weights = files.weights(model, Purpose::Testing)?;
    let n = files.cell.setting.batch() as usize;
    let ids = prompts(task, n, files.cell.seed);
    let shape = vec![n, task.prompt_tokens as usize];
    let bytes = to_bytes(&ids, i32::to_le_bytes);
    let prompts = files.write("prompts", vec![("ids".to_owned(), Dtype::I32, shape, bytes)])?;
    let written = CellFile {
        weights: Some(weights),
        prompts: Some(prompts),
        ..CellFile::new(files.cell)
    };
    files.write_json(&written)
}

/// Writes the files of a kernel cell: its operands, already rounded to the setting's format. Returns the name of the JSON file.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_operands(
    files: &CellFiles<'_>,
    operands: &[(&str, Vec<usize>, &[f64])],
) -> Result<String, WorkloadError> {
    let stored = operands.iter().map(|(name, shape, values)| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        ((*name).to_owned(), Dtype::F64, shape.clone(), bytes)
    });
    let file = files.write("operands", stored.collect())?;
    let written = CellFile {
        operands: Some(file),
        ..CellFile::new(files.cell)
    };
    files.write_json(&written)
}

/// Writes a second JSON file for a cell, with the same data files and another setting. Returns the name of the JSON file.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn write_with_setting(
    files: &CellFiles<'_>,
    cell_file: &str,
    setting: &Setting,
) -> Result<String, WorkloadError> {
    let path = files.folder.join(cell_file);
    let written = read_regular(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    let mut written: Value = written.map_err(|error| file_error("read", &path, error))?;
    written["cell"]["setting"] = json!(setting);
    let file = format!("again-{cell_file}");
    let path = files.folder.join(&file);
    fs::write(&path, written.to_string()).map_err(|error| write_error(&path, error))?;
    Ok(file)
}

fn write_error(path: &Path, error: std::io::Error) -> WorkloadError {
    file_error("write", path, error)
}

fn file_error(action: &str, path: &Path, error: std::io::Error) -> WorkloadError {
    WorkloadError::data(ActionError::new(
        format!("cannot {action} `{}`", path.display()),
        error,
    ))
}

/// Tensor of a file: name, dtype, shape and little-endian bytes.
type NamedTensor = (String, Dtype, Vec<usize>, Vec<u8>);

impl CellFiles<'_> {
    /// Writes the JSON file and returns its name.
    fn write_json(&self, written: &CellFile<'_>) -> Result<String, WorkloadError> {
        let file = format!("{}.json", self.cell.id);
        let path = self.folder.join(&file);
        let text = serde_json::to_string(written).map_err(|error| write_error(&path, error.into()))?;
        fs::write(&path, text).map_err(|error| write_error(&path, error))?;
        Ok(file)
    }

    /// Writes the initial weights of the cell, in f64 if both the checkpoint and the cell use it, otherwise in f32. Returns the name of the
    /// file.
    fn weights<M: Network>(&self, model: &M, purpose: Purpose) -> Result<String, WorkloadError> {
        let stored = |(name, shape, values): Weight| -> NamedTensor {
            match values {
                Values::F32(values) => (name, Dtype::F32, shape, to_bytes(&values, f32::to_le_bytes)),
                Values::F64(values) => (name, Dtype::F64, shape, to_bytes(&values, f64::to_le_bytes)),
            }
        };
        let format = self.cell.setting.precision().parameters();
        let mut all: Vec<NamedTensor> = vec![];
        let mut running = model
            .norms()
            .into_iter()
            .map(|(norm, channels)| (norm, [0f32, 1.0].map(|value| Values::F32(vec![value; channels]))))
            .collect::<Vec<_>>();
        match self.inputs.weights_of(&self.cell.workload.name) {
            None => all.extend(model.initial(self.cell.seed).map(stored)),
            Some(path) => {
                let checkpoint = Checkpoint::open(path)?;
                let fitted = fit(&checkpoint, model, purpose == Purpose::Training)?;
                for weight in fitted.parameters(self.cell.seed, format) {
                    all.push(stored(weight?));
                }
                let read = fitted.running(format)?;
                if !read.is_empty() {
                    running = read;
                }
            }
        }
        for (norm, [mean, variance]) in running {
            for (part, values) in [("running_mean", mean), ("running_var", variance)] {
                all.push(stored((format!("{norm}.{part}"), vec![values.len()], values)));
            }
        }
        self.write("weights", all)
    }

    fn part<P: Part>(&self, name: &str, part: &P) -> Result<Option<String>, WorkloadError> {
        if part.is_empty() {
            return Ok(None);
        }
        let all: Vec<usize> = (0..part.len()).collect();
        let batch = part.batch(&all);
        let tensors = batch.tensors().into_iter().map(|named| match named.numbers {
            Numbers::Whole(numbers) => {
                let bytes = to_bytes(numbers, i32::to_le_bytes);
                (named.name.to_owned(), Dtype::I32, named.shape, bytes)
            }
            Numbers::Real(numbers) => {
                let bytes = to_bytes(numbers, f32::to_le_bytes);
                (named.name.to_owned(), Dtype::F32, named.shape, bytes)
            }
        });
        self.write(name, tensors.collect()).map(Some)
    }

    /// Writes a file and returns its name.
    fn write(&self, name: &str, tensors: Vec<NamedTensor>) -> Result<String, WorkloadError> {
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| {
                let view = TensorView::new(*dtype, shape.clone(), bytes)?;
                Ok::<_, safetensors::SafeTensorError>((name.as_str(), view))
            })
            .collect();
        let file = format!("{name}.safetensors");
        let path = self.folder.join(&file);
        // transformers rejects files without this metadata, which PyTorch checkpoints have.
        let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let written = views.and_then(|views| safetensors::serialize_to_file(views, Some(format), &path));
        match written {
            Ok(()) => Ok(file),
            Err(error) => Err(WorkloadError::data(format!(
                "cannot write `{}`: {error}",
                path.display()
            ))),
        }
    }
}

fn to_bytes<T: Copy, const BYTES: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; BYTES]) -> Vec<u8> {
    numbers.iter().flat_map(|number| bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use mantissa_core::Axis;
    use safetensors::SafeTensors;

    use super::*;
    use crate::{
        data::RequestedSplits,
        model_and_data::{BuiltIn, ModelFactory, ModelTask},
        models::{BuiltInModel, with_model},
        train::testing::cell,
    };

    struct WriteFiles<'a>(CellFiles<'a>);

    impl ModelTask for WriteFiles<'_> {
        type Output = String;

        fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<String, WorkloadError> {
            write_files(&self.0, &model, &data, Purpose::Training)
        }
    }

    #[test]
    fn cell_files_contain_weights_and_examples() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            cache: folder.path().join("cache"),
            ..Inputs::default()
        };
        let (cell, task) = cell(&[(Axis::Batch, "4"), (Axis::Accumulate, "2")], false);
        let files = CellFiles {
            cell: &cell,
            inputs: &inputs,
            folder: folder.path(),
        };
        let splits = RequestedSplits::TrainAndTest(task.split.clone());
        let cell_file = BuiltIn.run(&cell, &splits, &inputs, WriteFiles(files)).unwrap();
        let text = fs::read_to_string(folder.path().join(cell_file)).unwrap();
        let cell_file: Value = serde_json::from_str(&text).unwrap();
        let file = |name: &str| fs::read(folder.path().join(cell_file[name].as_str().unwrap())).unwrap();

        let bytes = file("weights");
        let weights = SafeTensors::deserialize(&bytes).unwrap();
        let values = |name: &str| -> Vec<f32> {
            let bytes = weights.tensor(name).unwrap().data().to_vec();
            bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect()
        };
        let words = cell_file["words"].as_u64().unwrap() as u32;
        let classes = cell_file["classes"].as_u64().unwrap() as u32;
        let model = BuiltInModel::of(&cell, (words, classes)).unwrap();
        let count = with_model!(model, model => {
            let initial = model.initial(cell.seed);
            initial.map(|(name, _, expected)| assert_eq!(Values::F32(values(&name)), expected, "{name}")).count()
        });
        assert!(count > 10, "{count}");

        let bytes = file("train");
        let train = SafeTensors::deserialize(&bytes).unwrap();
        let examples = train.tensor("lengths").unwrap().shape()[0];
        assert_eq!(
            train.tensor("ids").unwrap().shape(),
            [examples, cell.setting.sequence() as usize]
        );
    }
}
