//! Forward passes of the models, operation by operation, as shapes only.

mod decoder;
mod encoder;
mod resnet;
mod transformer_block;

use mantissa_core::{Cell, Model, TrainTask};

use super::{
    formats::f32_layers,
    ledger::{SavedTensor, SavedTensors},
};
use crate::data::masked_count;

/// Colour channels of an image.
const COLOURS: u64 = 3;

/// Returns the bytes that the forward pass of a micro-batch saves for its backward pass. With checkpointing, only the hidden states between
/// segments and the batch-norm moments count. `vocabulary_size` and `classes` depend on the data.
pub(super) fn activations(cell: &Cell, task: &TrainTask, (vocabulary_size, classes): (u32, u32)) -> u64 {
    let setting = &cell.setting;
    let examples = task.split.train.unwrap_or(u32::MAX).min(setting.batch());
    let mut forward = Forward {
        ledger: SavedTensors::new(setting, f32_layers(cell)),
        n: examples.into(),
        sequence: setting.sequence().into(),
        vocabulary_size: vocabulary_size.into(),
        classes: classes.into(),
        predicts_tokens: cell.workload.predicts_tokens(),
        predicted_tokens: predicted_tokens(&task.model, setting.sequence()),
    };
    let hidden = match &task.model {
        Model::Distilbert(size) => forward.distilbert(size),
        Model::Bert(size) => forward.bert(size),
        Model::Vit(size) => forward.vit(size),
        Model::Gpt2(size) => forward.gpt2(size),
        Model::Bloom(size) => forward.bloom(size),
        Model::Llama(size) => forward.llama(size),
        Model::Resnet(size) => forward.resnet(size),
        Model::ResnetImagenet(size) => forward.resnet_imagenet(size),
        Model::Own => unreachable!("only built-in models are estimated"),
    };
    match setting.checkpointing() {
        true => hidden.iter().map(SavedTensor::bytes).sum::<u64>() + forward.ledger.moments(),
        false => forward.ledger.bytes(),
    }
}

/// Returns the number of tokens to predict in a passage of `sequence` tokens.
fn predicted_tokens(model: &Model, sequence: u32) -> u64 {
    match model.is_causal() {
        true => u64::from(sequence).saturating_sub(1),
        false => masked_count(sequence) as u64,
    }
}

/// Forward pass over a micro-batch. The method of a model adds its operations to the ledger. It returns the hidden states after each segment, which
/// checkpointing saves.
struct Forward {
    ledger: SavedTensors,
    /// Number of examples.
    n: u64,
    /// Tokens per example.
    sequence: u64,
    /// Vocabulary size of the data. Only models whose vocabulary depends on the data use it.
    vocabulary_size: u64,
    classes: u64,
    /// True if the head predicts tokens of running text instead of classes.
    predicts_tokens: bool,
    /// Number of tokens to predict per example.
    predicted_tokens: u64,
}

impl Forward {
    /// Returns the number of tokens of a micro-batch.
    fn tokens(&self) -> u64 {
        self.n * self.sequence
    }

    /// Adds the embeddings of the tokens and positions, of width `width`.
    fn embed(&mut self, width: u32) -> SavedTensor {
        self.ledger.indices(self.tokens());
        self.ledger.full(self.tokens() * u64::from(width))
    }

    /// Adds the selection of one token's hidden state, of width `width`, in each example: the first token, or the last one in BLOOM.
    fn token_per_example(&mut self, hidden: SavedTensor, width: u32) -> SavedTensor {
        self.ledger.part(hidden, self.n * u64::from(width))
    }

    /// Adds the classification head and the loss.
    fn classify(&mut self, features: SavedTensor, name: &str) {
        let logits = self.ledger.layer(features, name, self.n * self.classes);
        self.ledger.cross_entropy(logits, self.n);
    }

    /// Gathers the hidden states, of width `width`, from which tokens are predicted: for causal models, all but the last of each example.
    fn predicted_rows(&mut self, hidden: SavedTensor, width: u32) -> (SavedTensor, u64) {
        let rows = self.n * self.predicted_tokens;
        self.ledger.indices(rows);
        (self.ledger.part(hidden, rows * u64::from(width)), rows)
    }

    /// Adds the head that is tied to the embedding table, and the loss.
    fn tied_head(
        &mut self,
        (features, rows): (SavedTensor, u64),
        name: &str,
        (vocabulary_size, width): (u64, u32),
    ) {
        let sizes = (rows * vocabulary_size, vocabulary_size * u64::from(width));
        let logits = self.ledger.tied_layer(features, name, sizes);
        self.ledger.cross_entropy(logits, rows);
    }
}
