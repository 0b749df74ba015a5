//! Built-in models by name: creates the model of a cell, and dispatches on its type.

use mantissa_core::{Cell, Model, Task};

use super::{Bert, Bloom, DistilBert, Gpt2, ImageNetResNet, Llama, ResNet, TextHead, Vit};

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
            $crate::models::BuiltInModel::DistilBert($model) => $value,
            $crate::models::BuiltInModel::Bert($model) => $value,
            $crate::models::BuiltInModel::Llama($model) => $value,
            $crate::models::BuiltInModel::Gpt2($model) => $value,
            $crate::models::BuiltInModel::Bloom($model) => $value,
            $crate::models::BuiltInModel::ResNet($model) => $value,
            $crate::models::BuiltInModel::ImageNetResNet($model) => $value,
            $crate::models::BuiltInModel::Vit($model) => $value,
        }
    };
}
pub(crate) use with_model;

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
