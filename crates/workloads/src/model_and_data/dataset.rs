//! Loads the data of a cell for a built-in model.

use mantissa_core::{Cell, DatasetKind, Model};
use mantissa_inputs::{
    data::{
        DataError, Dataset, ImagePreprocessing, Images, KnownClasses, LanguageTask, Normalization, Reading,
        RequestedSplits, Tokenized, check_length, check_vocabulary_of_checkpoint, load_images, load_passages,
        load_reviews, synthetic_images,
    },
    weights::{Checkpoint, check_vocabulary_size, class_names},
};

use crate::{Inputs, WorkloadError};

/// Returns the number of rows of the embedding table: the size of the vocabulary, or the number of rows in the
/// checkpoint if that is larger.
///
/// # Errors
/// The embedding table of the checkpoint has fewer rows than the vocabulary.
pub(super) fn embedding_rows(
    cell: &Cell,
    text: &Dataset<Tokenized>,
    inputs: &Inputs,
) -> Result<u32, WorkloadError> {
    let vocabulary_size = text.test.vocabulary();
    let Some(path) = inputs.weights_of(&cell.workload.name) else {
        return Ok(vocabulary_size);
    };
    // A missing embedding table is reported when the checkpoint is fitted to the model.
    let rows = Checkpoint::open(path)?.rows("embeddings.word_embeddings.weight");
    let Some(rows) = rows.and_then(|rows| u32::try_from(rows).ok()) else {
        return Ok(vocabulary_size);
    };
    check_vocabulary_size(path, rows).map_err(WorkloadError::weights)?;
    match rows < vocabulary_size {
        true => Err(vocabulary_too_large(vocabulary_size, rows)),
        false => Ok(rows),
    }
}

fn vocabulary_too_large(tokens: u32, rows: u32) -> WorkloadError {
    WorkloadError::data(format!(
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
        names: class_names(path, count).map_err(WorkloadError::weights)?,
    }))
}

/// Loads texts and tokenizes them.
pub(super) fn texts(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    splits: &RequestedSplits,
    inputs: &Inputs,
) -> Result<Dataset<Tokenized>, WorkloadError> {
    let sequence = cell.setting.sequence();
    if let Some(positions) = model.positions().filter(|positions| sequence > *positions) {
        return Err(WorkloadError::data(format!(
            "`sequence={sequence}` exceeds the model's {positions} positions"
        )));
    }
    let (data, vocabulary) = (inputs.data_of(kind), inputs.vocabulary.as_deref());
    let language_task = match model.is_causal() {
        true => LanguageTask::Next,
        false => LanguageTask::Masked,
    };
    let data_error = |error: DataError| WorkloadError::data(error);
    let weights = inputs.weights_of(&cell.workload.name);
    if let (Some(weights), Some(vocabulary)) = (weights, vocabulary) {
        check_vocabulary_of_checkpoint(weights, vocabulary).map_err(data_error)?;
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
        true => load_passages((kind, language_task), splits, sequence, &reading),
        false => load_reviews(kind, splits, sequence, &reading),
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

/// Loads images.
pub(super) fn images(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    splits: &RequestedSplits,
    inputs: &Inputs,
) -> Result<Dataset<Images>, WorkloadError> {
    let image_size = model.image_size().expect("image models have an image size") as usize;
    if kind.is_synthetic() {
        return Ok(synthetic_images(splits, image_size));
    }
    let path = inputs.data_of(kind);
    let path = path
        .ok_or_else(|| WorkloadError::data("no images given\n  hint: pass them with `--data`".to_owned()))?;
    let normalization = match model {
        Model::Vit(_) => Normalization::UNIT,
        _ => Normalization::IMAGENET,
    };
    let known = known_classes(cell, model, inputs)?;
    let preparation = match inputs.weights_of(&cell.workload.name) {
        Some(weights) => ImagePreprocessing::for_weights(weights, image_size as u32, normalization),
        None => Ok(ImagePreprocessing::without_config(normalization)),
    };
    let preparation = preparation.map_err(WorkloadError::data)?;
    load_images((path, known.as_ref()), splits, image_size, &preparation).map_err(WorkloadError::data)
}
