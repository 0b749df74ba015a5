//! Selects the model type and loads the data of a cell.

use mantissa_core::{Attention, Cell, DatasetKind, Model, Task};
use mantissa_inputs::{
    data::{
        DataError, Dataset, ImagePreprocessing, Images, KnownClasses, LanguageTask, Normalization, Reading,
        Tokenized, Wanted, check_folder, check_length, load_images, load_passages, load_reviews,
        synthetic_images,
    },
    weights::{Checkpoint, check_vocabulary_size, class_names},
};
use mantissa_precision::Operation;

use crate::{
    Inputs, WorkloadError,
    models::{
        Bert, Bloom, DistilBert, F32Layers, Gpt2, ImageNetResNet, Llama, Network, ResNet, TextHead, Vit,
    },
};

/// Task on a model and its data, generic over their types.
pub(crate) trait ModelTask {
    /// Result of the task.
    type Output;

    /// Runs the task.
    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Self::Output, WorkloadError>;
}

/// Creates a model and loads its data.
pub(crate) trait ModelFactory {
    /// Loads the `wanted` parts of the data, creates the model for it and runs the task.
    fn run<T: ModelTask>(
        self,
        cell: &Cell,
        wanted: &Wanted,
        inputs: &Inputs,
        task: T,
    ) -> Result<T::Output, WorkloadError>;
}

/// The models of this crate.
pub(crate) struct BuiltIn;

impl ModelFactory for BuiltIn {
    fn run<T: ModelTask>(
        self,
        cell: &Cell,
        wanted: &Wanted,
        inputs: &Inputs,
        task: T,
    ) -> Result<T::Output, WorkloadError> {
        match &cell.workload.task {
            Task::Train(of) => run_built_in(cell, (&of.model, of.dataset), wanted, inputs, task),
            Task::Evaluate(of) => run_built_in(cell, (&of.model, of.dataset), wanted, inputs, task),
            Task::Generate(_) | Task::Kernel(_) => unreachable!("generation and kernels do not read data"),
        }
    }
}

fn run_built_in<T: ModelTask>(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    wanted: &Wanted,
    inputs: &Inputs,
    task: T,
) -> Result<T::Output, WorkloadError> {
    match model {
        Model::Distilbert(size) => {
            let text = texts(cell, (model, kind), wanted, inputs)?;
            let rows = embedding_rows(cell, &text, inputs)?;
            task.run(DistilBert::new(size.clone(), rows, text.classes), text)
        }
        Model::Bert(size) => {
            let text = texts(cell, (model, kind), wanted, inputs)?;
            let (rows, head) = (embedding_rows(cell, &text, inputs)?, head(kind, &text));
            task.run(Bert::new(size.clone(), rows, head), text)
        }
        Model::Llama(size) => task.run(
            Llama::new(size.clone()),
            texts(cell, (model, kind), wanted, inputs)?,
        ),
        Model::Gpt2(size) => task.run(
            Gpt2::new(size.clone()),
            texts(cell, (model, kind), wanted, inputs)?,
        ),
        Model::Bloom(size) => {
            let text = texts(cell, (model, kind), wanted, inputs)?;
            task.run(Bloom::new(size.clone(), head(kind, &text)), text)
        }
        Model::Resnet(size) => {
            let images = images(cell, (model, kind), wanted, inputs)?;
            task.run(
                ResNet::new(size.clone(), images.test.edge(), images.classes),
                images,
            )
        }
        Model::ResnetImagenet(size) => {
            let images = images(cell, (model, kind), wanted, inputs)?;
            task.run(
                ImageNetResNet::new(size.clone(), images.test.edge(), images.classes),
                images,
            )
        }
        Model::Vit(size) => {
            let images = images(cell, (model, kind), wanted, inputs)?;
            task.run(Vit::new(size.clone(), images.classes), images)
        }
        Model::Own => Err(WorkloadError::Data(NO_OWN.to_owned())),
    }
}

/// Error message if a suite requests `model = "own"` from a program without one.
pub(crate) const NO_OWN: &str = "this program does not define its own model\n  hint: run `model = \"own\"` with a program that defines one, such as `examples/own_model.rs`";

/// Evaluates an expression for a model that generates text.
macro_rules! with_text_generator {
    ($from:expr, $model:ident => $value:expr) => {
        match $from {
            mantissa_core::Model::Llama(size) => {
                let $model = $crate::models::Llama::new(size.clone());
                $value
            }
            mantissa_core::Model::Gpt2(size) => {
                let $model = $crate::models::Gpt2::new(size.clone());
                $value
            }
            mantissa_core::Model::Bloom(size) => {
                let $model = $crate::models::Bloom::new(size.clone(), $crate::models::TextHead::Tokens);
                $value
            }
            other => unreachable!("suites reject `{}` for text generation", other.name()),
        }
    };
}
pub(crate) use with_text_generator;

/// Returns the head of a text model: a token head for running text, a class head for other text.
fn head(kind: DatasetKind, text: &Dataset<Tokenized>) -> TextHead {
    match kind.is_running_text() {
        true => TextHead::Tokens,
        false => TextHead::Classes(text.classes),
    }
}

/// Returns the number of rows of the embedding table: the size of the vocabulary, or the number of rows in the
/// checkpoint if that is larger.
///
/// # Errors
/// The embedding table of the checkpoint has fewer rows than the vocabulary.
fn embedding_rows(cell: &Cell, text: &Dataset<Tokenized>, inputs: &Inputs) -> Result<u32, WorkloadError> {
    let vocabulary_size = text.test.vocabulary();
    let Some(path) = inputs.weights_of(&cell.workload.name) else {
        return Ok(vocabulary_size);
    };
    // A missing embedding table is reported when the checkpoint is fitted to the model.
    let rows = Checkpoint::open(path)?.rows("embeddings.word_embeddings.weight");
    let Some(rows) = rows.and_then(|rows| u32::try_from(rows).ok()) else {
        return Ok(vocabulary_size);
    };
    check_vocabulary_size(path, rows).map_err(WorkloadError::Weights)?;
    match rows < vocabulary_size {
        true => Err(vocabulary_too_large(vocabulary_size, rows)),
        false => Ok(rows),
    }
}

fn vocabulary_too_large(tokens: u32, rows: u32) -> WorkloadError {
    WorkloadError::Data(format!(
        "the tokenizer has {tokens} tokens, but the model's embedding table has only {rows} rows\n  hint: pass the tokenizer of the checkpoint with `--vocabulary`"
    ))
}

/// Reads the classes of the checkpoint of a cell. Returns `None` without a checkpoint.
fn known_classes(cell: &Cell, model: &Model, inputs: &Inputs) -> Result<Option<KnownClasses>, WorkloadError> {
    let Some(path) = inputs.weights_of(&cell.workload.name) else {
        return Ok(None);
    };
    let head = match model {
        Model::Bloom(_) => "score.weight",
        Model::Resnet(_) => "linear.weight",
        Model::ResnetImagenet(_) => "fc.weight",
        _ => "classifier.weight",
    };
    let rows = Checkpoint::open(path)?.rows(head);
    let count = rows.and_then(|rows| u32::try_from(rows).ok());
    Ok(Some(KnownClasses {
        count,
        names: class_names(path, count).map_err(WorkloadError::Weights)?,
    }))
}

fn texts(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    wanted: &Wanted,
    inputs: &Inputs,
) -> Result<Dataset<Tokenized>, WorkloadError> {
    let sequence = cell.setting.sequence();
    if let Some(positions) = model.positions().filter(|positions| sequence > *positions) {
        return Err(WorkloadError::Data(format!(
            "`sequence={sequence}` exceeds the model's {positions} positions"
        )));
    }
    let (data, vocabulary) = (inputs.data_of(kind), inputs.vocabulary.as_deref());
    let language_task = match model.is_causal() {
        true => LanguageTask::Next,
        false => LanguageTask::Masked,
    };
    let data_error = |error: DataError| WorkloadError::Data(error.to_string());
    let weights = inputs.weights_of(&cell.workload.name);
    if let (Some(weights), Some(vocabulary)) = (weights, vocabulary) {
        check_folder(weights, vocabulary).map_err(data_error)?;
    }
    let reading = Reading {
        data,
        columns: inputs.columns.clone(),
        known: match kind.is_running_text() {
            true => None,
            false => known_classes(cell, model, inputs)?,
        },
        vocabulary,
        cache: &inputs.cache,
    };
    let text = match kind.is_running_text() {
        true => load_passages((kind, language_task), wanted, sequence, &reading),
        false => load_reviews(kind, wanted, sequence, &reading),
    };
    let text = text.map_err(data_error)?;
    // Running text is divided into passages, which are never truncated.
    if let (Some(weights), false) = (weights, kind.is_running_text()) {
        check_length(weights, sequence).map_err(data_error)?;
    }
    match model.vocabulary() {
        Some(rows) if text.test.vocabulary() > rows => {
            Err(vocabulary_too_large(text.test.vocabulary(), rows))
        }
        _ => Ok(text),
    }
}

fn images(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    wanted: &Wanted,
    inputs: &Inputs,
) -> Result<Dataset<Images>, WorkloadError> {
    let edge = model.image_size().expect("image models have an image size") as usize;
    if kind.is_synthetic() {
        return Ok(synthetic_images(wanted, edge));
    }
    let path = inputs.data_of(kind);
    let path = path
        .ok_or_else(|| WorkloadError::Data("no images given\n  hint: pass them with `--data`".to_owned()))?;
    let normalization = match model {
        Model::Vit(_) => Normalization::UNIT,
        _ => Normalization::IMAGENET,
    };
    let known = known_classes(cell, model, inputs)?;
    let preparation = match inputs.weights_of(&cell.workload.name) {
        Some(weights) => ImagePreprocessing::beside(weights, edge as u32, normalization),
        None => Ok(ImagePreprocessing::usual(normalization)),
    };
    let preparation = preparation.map_err(|error| WorkloadError::Data(error.to_string()))?;
    load_images((path, known.as_ref()), wanted, edge, &preparation)
        .map_err(|error| WorkloadError::Data(error.to_string()))
}

/// Built-in model before its data is read.
pub(crate) enum BuiltInModel {
    DistilBert(DistilBert),
    Bert(Bert),
    Llama(Llama),
    Gpt2(Gpt2),
    Bloom(Bloom),
    ResNet(ResNet),
    ImageNetResNet(ImageNetResNet),
    Vit(Vit),
}

impl BuiltInModel {
    /// Creates the model of a cell. Returns `None` if the cell does not have a built-in model. `vocabulary_size` is used unless the model's
    /// size defines one, and `classes` is the number of classes.
    pub(crate) fn of(cell: &Cell, (vocabulary_size, classes): (u32, u32)) -> Option<Self> {
        let model = cell.workload.model()?;
        let head = match &cell.workload.task {
            Task::Train(task) if !task.dataset.is_running_text() => TextHead::Classes(classes),
            Task::Evaluate(task) if !task.dataset.is_running_text() => TextHead::Classes(classes),
            _ => TextHead::Tokens,
        };
        let edge = model.image_size().unwrap_or(1) as usize;
        Some(match model.clone() {
            Model::Distilbert(size) => Self::DistilBert(DistilBert::new(size, vocabulary_size, classes)),
            Model::Bert(size) => Self::Bert(Bert::new(size, vocabulary_size, head)),
            Model::Llama(size) => Self::Llama(Llama::new(size)),
            Model::Gpt2(size) => Self::Gpt2(Gpt2::new(size)),
            Model::Bloom(size) => Self::Bloom(Bloom::new(size, head)),
            Model::Resnet(size) => Self::ResNet(ResNet::new(size, edge, classes)),
            Model::ResnetImagenet(size) => Self::ImageNetResNet(ImageNetResNet::new(size, edge, classes)),
            Model::Vit(size) => Self::Vit(Vit::new(size, classes)),
            Model::Own => return None,
        })
    }
}

/// Evaluates an expression for a [`BuiltInModel`] of any type.
macro_rules! with_model {
    ($from:expr, $model:ident => $value:expr) => {
        match $from {
            $crate::model_and_data::BuiltInModel::DistilBert($model) => $value,
            $crate::model_and_data::BuiltInModel::Bert($model) => $value,
            $crate::model_and_data::BuiltInModel::Llama($model) => $value,
            $crate::model_and_data::BuiltInModel::Gpt2($model) => $value,
            $crate::model_and_data::BuiltInModel::Bloom($model) => $value,
            $crate::model_and_data::BuiltInModel::ResNet($model) => $value,
            $crate::model_and_data::BuiltInModel::ImageNetResNet($model) => $value,
            $crate::model_and_data::BuiltInModel::Vit($model) => $value,
        }
    };
}
pub(crate) use with_model;

/// Returns the operations of the layers that a cell keeps in f32.
pub(crate) fn kept_operations(cell: &Cell) -> Vec<Operation> {
    let kept = F32Layers::Matching(cell.setting.keep_f32().to_vec());
    let attention = match cell.setting.attention() {
        Attention::Fused => Operation::FusedAttention,
        Attention::Math => Operation::Matmul,
    };
    // The names of layers do not depend on the data.
    let Some(model) = BuiltInModel::of(cell, (1, 1)) else {
        return vec![];
    };
    with_model!(model, model => model.with_kept(kept).kept_operations(attention))
}
