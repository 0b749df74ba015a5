//! State of a model in training.

use burn::tensor::Device;
use mantissa_core::{Cell, Event, EventKind, OptimizerKind, TrainTask};
use mantissa_precision::{Compute, LossScaler, Optimizer, OptimizerSettings, ParameterSet};

use super::{log::Log, ranks::Ranks};
use crate::{
    Inputs, WorkloadError,
    initial_state::{InitialState, Purpose, initial_state},
    models::{DistilBert, Network, Norms},
};

/// State of a model in training.
pub(super) struct Trainer<'a, M: Network = DistilBert> {
    pub(super) cell: &'a Cell,
    pub(super) task: &'a TrainTask,
    pub(super) model: M,
    pub(super) parameters: ParameterSet,
    /// Running statistics of the batch norms.
    pub(super) running: Norms,
    /// Initial running statistics.
    pub(super) initial_running: Norms,
    pub(super) settings: OptimizerSettings,
    pub(super) optimizer: Optimizer,
    pub(super) scaler: Option<LossScaler>,
    pub(super) compute: Compute,
    pub(super) ranks: Ranks<'a>,
    /// Number of the first example of the next micro-batch in the training.
    pub(super) next_example: u64,
    pub(super) device: &'a Device,
    pub(super) log: Log,
}

impl<'a, M: Network> Trainer<'a, M> {
    /// Creates a trainer that is not connected to other ranks.
    pub(super) fn new(
        cell: &'a Cell,
        task: &'a TrainTask,
        model: M,
        inputs: &Inputs,
        device: &'a Device,
    ) -> Result<Self, WorkloadError> {
        let model = model
            .keep_in_f32(cell.setting.keep_f32())
            .map_err(WorkloadError::unavailable)?;
        let state = initial_training_state(&model, cell, inputs, device)?;
        let parameters = state.parameters;
        let learning_rate = cell.setting.learning_rate().unwrap_or(task.learning_rate);
        let settings = OptimizerSettings {
            momentum: task.momentum,
            epsilon: cell.setting.adam_eps(),
            weight_decay: task.weight_decay,
            clip_norm: task.updates.clip_norm,
            ..OptimizerSettings::new(cell.setting.optimizer(), learning_rate)
        };
        Ok(Self {
            optimizer: Optimizer::new(settings.clone(), parameters.len()),
            settings,
            scaler: scaler(cell, task),
            compute: Compute::of(&cell.setting),
            ranks: Ranks::single(&cell.setting),
            next_example: 0,
            initial_running: state.running.clone(),
            running: state.running,
            log: Log {
                clip_norm: task.updates.clip_norm,
                ..Log::new(state.events.into_iter().chain(epsilon_warning(cell)).collect())
            },
            cell,
            task,
            model,
            parameters,
            device,
        })
    }
}

/// Returns a warning if epsilon is 0 in the format of the optimizer state. If the second moment underflows as well, the update is 0/0 and the
/// training diverges.
fn epsilon_warning(cell: &Cell) -> Option<Event> {
    let setting = &cell.setting;
    let adaptive = matches!(
        setting.optimizer(),
        OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb
    );
    let (epsilon, format) = (setting.adam_eps(), setting.precision().parameters());
    let vanishes = adaptive && epsilon > 0.0 && format.round(epsilon).value == 0.0;
    vanishes.then(|| Event {
        kind: EventKind::Warning,
        step: None,
        value: Some(epsilon),
        detail: format!("`adam_eps={epsilon:e}` is rounded to 0 in {format}, so that updates may be 0/0"),
    })
}

/// Creates the loss scaler; `None` if the setting does not scale the loss.
pub(super) fn scaler(cell: &Cell, task: &TrainTask) -> Option<LossScaler> {
    let scaler = || {
        task.updates
            .loss_scale
            .map_or_else(LossScaler::default, LossScaler::constant)
    };
    cell.setting.precision().scales_loss().then(scaler)
}

/// Returns the initial state of a training.
pub(super) fn initial_training_state<M: Network>(
    model: &M,
    cell: &Cell,
    inputs: &Inputs,
    device: &Device,
) -> Result<InitialState, WorkloadError> {
    let format = cell.setting.precision().parameters();
    initial_state(model, (cell, format, Purpose::Training), inputs, device)
}
