//! Where parameters come from: a checkpoint of the user's, or seeded initialisation.

mod fit;
mod initial;

pub(crate) use fit::{Naming, fit};
pub(crate) use initial::initial;
