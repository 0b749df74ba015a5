//! Selects the model type and loads the data of a cell.

mod dataset;

use mantissa_core::{Cell, DatasetKind, Model, Task};
use mantissa_inputs::data::{Dataset, RequestedSplits, Tokenized};

use crate::{
    Inputs, WorkloadError,
    models::{Bert, Bloom, DistilBert, Gpt2, ImageNetResNet, Llama, Network, ResNet, TextHead, Vit},
};
use dataset::{embedding_rows, images, texts};

/// Task on a model and its data, generic over their types.
pub(crate) trait ModelTask {
    /// Result of the task.
    type Output;

    /// Runs the task.
    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Self::Output, WorkloadError>;
}

/// Creates a model and loads its data.
pub(crate) trait ModelFactory {
    /// Loads the `splits` of the data, creates a model for the data and runs the task.
    fn run<T: ModelTask>(
        self,
        cell: &Cell,
        splits: &RequestedSplits,
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
        splits: &RequestedSplits,
        inputs: &Inputs,
        task: T,
    ) -> Result<T::Output, WorkloadError> {
        match &cell.workload.task {
            Task::Train(train) => run_built_in(cell, (&train.model, train.dataset), splits, inputs, task),
            Task::Evaluate(evaluate) => {
                run_built_in(cell, (&evaluate.model, evaluate.dataset), splits, inputs, task)
            }
            Task::Generate(_) | Task::Kernel(_) => unreachable!("generation and kernels do not read data"),
        }
    }
}

fn run_built_in<T: ModelTask>(
    cell: &Cell,
    (model, kind): (&Model, DatasetKind),
    splits: &RequestedSplits,
    inputs: &Inputs,
    task: T,
) -> Result<T::Output, WorkloadError> {
    match model {
        Model::Distilbert(size) => {
            let text = texts(cell, (model, kind), splits, inputs)?;
            let rows = embedding_rows(cell, &text, inputs)?;
            task.run(DistilBert::new(size.clone(), rows, text.classes), text)
        }
        Model::Bert(size) => {
            let text = texts(cell, (model, kind), splits, inputs)?;
            let (rows, head) = (embedding_rows(cell, &text, inputs)?, head(kind, &text));
            task.run(Bert::new(size.clone(), rows, head), text)
        }
        Model::Llama(size) => task.run(
            Llama::new(size.clone()),
            texts(cell, (model, kind), splits, inputs)?,
        ),
        Model::Gpt2(size) => task.run(
            Gpt2::new(size.clone()),
            texts(cell, (model, kind), splits, inputs)?,
        ),
        Model::Bloom(size) => {
            let text = texts(cell, (model, kind), splits, inputs)?;
            task.run(Bloom::new(size.clone(), head(kind, &text)), text)
        }
        Model::Resnet(size) => {
            let images = images(cell, (model, kind), splits, inputs)?;
            task.run(
                ResNet::new(size.clone(), images.test.edge(), images.classes),
                images,
            )
        }
        Model::ResnetImagenet(size) => {
            let images = images(cell, (model, kind), splits, inputs)?;
            task.run(
                ImageNetResNet::new(size.clone(), images.test.edge(), images.classes),
                images,
            )
        }
        Model::Vit(size) => {
            let images = images(cell, (model, kind), splits, inputs)?;
            task.run(Vit::new(size.clone(), images.classes), images)
        }
        Model::Own => Err(WorkloadError::data(NO_OWN_MODEL.to_owned())),
    }
}

/// Error message if a suite requests `model = "own"` from a program that does not define a model.
const NO_OWN_MODEL: &str = "this program does not define its own model\n  hint: run `model = \"own\"` with a program that defines one, such as `examples/own_model.rs`";

/// Returns the head of a text model: a token head for running text, a class head for other text.
fn head(kind: DatasetKind, text: &Dataset<Tokenized>) -> TextHead {
    match kind.is_running_text() {
        true => TextHead::Tokens,
        false => TextHead::Classes(text.classes),
    }
}
