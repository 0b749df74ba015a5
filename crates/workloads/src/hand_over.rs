//! What another framework needs to compute the same cell: its weights at the start, its examples, and the order in which they are taken.
//!
//! ```text
//! FOLDER/<cell>.json              the cell, the order, the learning rates, and which of the files below are its
//!        weights-<hash>.safetensors   f32, in the names of published checkpoints; running statistics of batch norms beside them
//!        train-<hash>.safetensors     tokens or pixels as the model takes them, and what is asked about them
//! ```
//! Files are called by their content, so that cells share what they have in common.

use std::{fs, path::Path};

use mantissa_core::{Cell, DataSource, GenerateTask, Task};
use safetensors::{Dtype, tensor::TensorView};
use serde::Serialize;

use crate::{
    Inputs, WorkloadError,
    data::{Dataset, Labelled, Numbers, Part, Tokenized, Wanted},
    generate::prompts,
    models::Network,
    start::Purpose,
    subject::{BuiltIn, Source, Work, Writing, with_writer},
    train::Course,
    weights::{Checkpoint, Weight},
};

/// What a cell is computed from, as `<cell>.json` has it.
#[derive(Debug, Serialize)]
struct Handed<'a> {
    cell: &'a Cell,
    /// Absent of kernels, whose operands each side draws for itself.
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
    /// Classes, where examples have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<u32>,
    /// Rows of the table of words, where examples are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<Course>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<DataSource>,
}

impl<'a> Handed<'a> {
    fn new(cell: &'a Cell) -> Self {
        Self {
            cell,
            weights: None,
            train: None,
            validation: None,
            test: None,
            prompts: None,
            classes: None,
            words: None,
            course: None,
            data: None,
        }
    }
}

/// Writes what a cell is computed from into a folder, which it makes.
///
/// # Errors
/// The user's data or weights are wrong; a file cannot be written; a model of the user's own, which nobody else has.
pub fn hand_over(cell: &Cell, inputs: &Inputs, folder: &Path) -> Result<(), WorkloadError> {
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    let handing = Handing { cell, inputs, folder };
    let handed = match &cell.workload.task {
        Task::Train(task) => {
            let wanted = Wanted::Divided(task.split.clone());
            BuiltIn.work(cell, &wanted, inputs, handing)?
        }
        Task::Evaluate(task) => BuiltIn.work(cell, &Wanted::Test(task.test), inputs, handing)?,
        Task::Generate(task) => with_writer(&task.model, HandingPrompts(handing, task))?,
        Task::Kernel(_) => Handed::new(cell),
    };
    let path = folder.join(format!("{}.json", cell.id));
    let text = serde_json::to_string(&handed).map_err(|error| unwritten(&path, &error.into()))?;
    fs::write(&path, text).map_err(|error| unwritten(&path, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> WorkloadError {
    WorkloadError::Data(format!("cannot write `{}`: {error}", path.display()))
}

#[derive(Clone, Copy)]
struct Handing<'a> {
    cell: &'a Cell,
    inputs: &'a Inputs,
    folder: &'a Path,
}

impl<'a> Work for Handing<'a> {
    type Output = Handed<'a>;

    fn on<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Handed<'a>, WorkloadError> {
        let (purpose, course) = match &self.cell.workload.task {
            Task::Train(task) => (
                Purpose::Training,
                Some(Course::of(self.cell, task, data.train.len())),
            ),
            _ => (Purpose::Testing, None),
        };
        Ok(Handed {
            weights: Some(self.weights(&model, purpose)?),
            train: self.part("train", &data.train)?,
            validation: self.part("validation", &data.validation)?,
            test: self.part("test", &data.test)?,
            classes: (!self.cell.workload.predicts_words()).then_some(data.classes),
            words: data.test.words(),
            course,
            data: Some(data.source),
            ..Handed::new(self.cell)
        })
    }
}

struct HandingPrompts<'a>(Handing<'a>, &'a GenerateTask);

impl<'a> Writing for HandingPrompts<'a> {
    type Output = Handed<'a>;

    fn with<M: Network<Part = Tokenized>>(self, model: M) -> Result<Handed<'a>, WorkloadError> {
        let Self(handing, task) = self;
        let n = handing.cell.setting.batch() as usize;
        let ids = prompts(task, n, handing.cell.seed);
        let shape = vec![n, task.prompt_tokens as usize];
        let tensor = (
            "ids".to_owned(),
            Dtype::I32,
            shape,
            bytes_of(&ids, i32::to_le_bytes),
        );
        Ok(Handed {
            weights: Some(handing.weights(&model, Purpose::Testing)?),
            prompts: Some(handing.write("prompts", vec![tensor])?),
            ..Handed::new(handing.cell)
        })
    }
}

/// A tensor of a file: its name, its type, its shape, its little-endian bytes.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

impl Handing<'_> {
    /// The weights that the cell starts from, in f32.
    fn weights<M: Network>(&self, model: &M, purpose: Purpose) -> Result<String, WorkloadError> {
        let stored = |(name, shape, values): Weight| -> Stored {
            (name, Dtype::F32, shape, bytes_of(&values, f32::to_le_bytes))
        };
        let mut all: Vec<Stored> = vec![];
        let mut running = model
            .norms()
            .into_iter()
            .map(|(norm, channels)| (norm, [vec![0.0; channels], vec![1.0; channels]]))
            .collect::<Vec<_>>();
        match self.inputs.weights_of(&self.cell.workload.name) {
            None => all.extend(model.initial(self.cell.seed).map(stored)),
            Some(path) => {
                let checkpoint = Checkpoint::open(path)?;
                let fitted = checkpoint.fit(model, purpose == Purpose::Training)?;
                for weight in fitted.parameters(self.cell.seed) {
                    all.push(stored(weight?));
                }
                let read = fitted.running()?;
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
                let bytes = bytes_of(numbers, i32::to_le_bytes);
                (named.name.to_owned(), Dtype::I32, named.shape, bytes)
            }
            Numbers::Real(numbers) => {
                let bytes = bytes_of(numbers, f32::to_le_bytes);
                (named.name.to_owned(), Dtype::F32, named.shape, bytes)
            }
        });
        self.write(name, tensors.collect()).map(Some)
    }

    /// Writes a file and gives back its name.
    fn write(&self, name: &str, tensors: Vec<Stored>) -> Result<String, WorkloadError> {
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| {
                let view = TensorView::new(*dtype, shape.clone(), bytes)?;
                Ok::<_, safetensors::SafeTensorError>((name.as_str(), view))
            })
            .collect();
        let bytes = views.and_then(|views| safetensors::serialize(views, None));
        let bytes = bytes.map_err(|error| WorkloadError::Data(format!("{name}: {error}")))?;
        let file = format!("{name}-{}.safetensors", &blake3::hash(&bytes).to_hex()[..16]);
        let path = self.folder.join(&file);
        if !path.exists() {
            // Under its name it is whole.
            let part = self.folder.join(format!(".{file}"));
            let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, &path));
            written.map_err(|error| unwritten(&path, &error))?;
        }
        Ok(file)
    }
}

fn bytes_of<T: Copy>(numbers: &[T], bytes: impl Fn(T) -> [u8; 4]) -> Vec<u8> {
    numbers.iter().flat_map(|number| bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use mantissa_core::Axis;
    use safetensors::SafeTensors;

    use super::*;
    use crate::train::testing::cell;

    #[test]
    fn a_cell_is_handed_over_with_the_weights_and_the_micro_batches_that_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            cache: folder.path().join("cache"),
            ..Inputs::default()
        };
        let (cell, task) = cell(&[(Axis::Batch, "4"), (Axis::Accumulate, "2")], false);
        hand_over(&cell, &inputs, folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(format!("{}.json", cell.id))).unwrap();
        let handed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let file = |name: &str| fs::read(folder.path().join(handed[name].as_str().unwrap())).unwrap();

        let bytes = file("weights");
        let weights = SafeTensors::deserialize(&bytes).unwrap();
        let values = |name: &str| -> Vec<f32> {
            let bytes = weights.tensor(name).unwrap().data().to_vec();
            bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect()
        };
        struct Initial<'a>(&'a dyn Fn(&str) -> Vec<f32>, u64);
        impl crate::subject::Asking for Initial<'_> {
            type Answer = usize;

            fn of<M: Network>(self, model: M) -> usize {
                let Self(values, seed) = self;
                let compared = model
                    .initial(seed)
                    .map(|(name, _, expected)| assert_eq!(values(&name), expected, "{name}"));
                compared.count()
            }
        }
        let words = handed["words"].as_u64().unwrap() as u32;
        let classes = handed["classes"].as_u64().unwrap() as u32;
        let compared = crate::subject::asked(&cell, (words, classes), Initial(&values, cell.seed)).unwrap();
        assert!(compared > 10, "{compared}");

        let bytes = file("train");
        let train = SafeTensors::deserialize(&bytes).unwrap();
        let examples = train.tensor("lengths").unwrap().shape()[0];
        assert_eq!(
            train.tensor("ids").unwrap().shape(),
            [examples, cell.setting.sequence() as usize]
        );
        let order = handed["course"]["order"].as_array().unwrap();
        assert_eq!(order.len(), task.epochs as usize);
        let steps: usize = order.iter().map(|epoch| epoch.as_array().unwrap().len()).sum();
        assert_eq!(
            handed["course"]["learning_rates"].as_array().unwrap().len(),
            steps
        );
        assert_eq!(order[0][0][0].as_array().unwrap().len(), 4);
        assert_eq!(order[0][0].as_array().unwrap().len(), 2);
    }
}
