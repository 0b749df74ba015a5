//! Sources of parameters: a checkpoint of the user, or seeded initialization.

mod fit;
mod initial;

pub(crate) use fit::{Naming, fit};
pub(crate) use initial::initial;
