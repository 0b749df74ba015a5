//! Runs cells with another framework (the peer), with the same inputs in the same order and the same contents of the records.
//!
//! [`Peer::start`] starts the program of the other framework, which reads the cell from files and executes requests one by one. This crate
//! selects the examples of each step, decides when warm-up and sampling end, and evaluates the times, with the same code as for burn.

mod cell_files;
mod evaluate;
mod generate;
mod program;
mod session;
mod train;

use mantissa_core::{Cell, Model, Task};

use crate::{
    Inputs, Observer, Outcome, Phase, WorkloadError,
    data::RequestedSplits,
    kernel::kernel_by_peer,
    model_and_data::{BuiltIn, ModelFactory},
    models::with_text_generator,
    outcome::ActionError,
};
pub(crate) use cell_files::write_operands;
pub(crate) use program::{LaunchKind, Launched, Request};
pub(crate) use session::Session;

pub use program::{Peer, ProgramInfo};

/// Runs a cell with the program of another framework.
///
/// # Errors
/// The user's files are invalid, the program cannot compute the cell, or it failed.
pub fn run(
    cell: &Cell,
    inputs: &Inputs,
    peer: Peer,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    if cell.workload.model() == Some(&Model::Own) {
        let reason = "another framework cannot run this program's own model";
        return Err(WorkloadError::unavailable(reason.to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| {
        WorkloadError::data(ActionError::new(
            "cannot create a temporary folder for the peer",
            error,
        ))
    })?;
    let mut session = Session {
        cell,
        inputs,
        observer,
        peer,
        folder,
    };
    session.progress(Phase::Prepare, 0, 1);
    let executed = session.executed()?;
    let mut outcome = run_task(session)?;
    outcome.executed = executed;
    Ok(outcome)
}

fn run_task(session: Session<'_>) -> Result<Outcome, WorkloadError> {
    let (cell, inputs) = (session.cell, session.inputs);
    match &cell.workload.task {
        Task::Train(task) => {
            let splits = RequestedSplits::TrainAndTest(task.split.clone());
            BuiltIn.run(cell, &splits, inputs, train::TrainingTask { session, task })
        }
        Task::Evaluate(task) => {
            let splits = RequestedSplits::Test(task.test);
            BuiltIn.run(cell, &splits, inputs, evaluate::EvaluationTask { session })
        }
        Task::Generate(task) => {
            with_text_generator!(&task.model, model => generate::generate(session, task, &model))
        }
        Task::Kernel(task) => kernel_by_peer(session, task),
    }
}
