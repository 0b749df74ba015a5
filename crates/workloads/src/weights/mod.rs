//! Sources of parameters: the user's checkpoint, or seeded initialization.

mod fit;
mod initial;

pub(crate) use fit::{Naming, fit};
pub(crate) use initial::initial;
