//! Sources of parameters: the user's checkpoint, or seeded initialization.

mod fit;
mod initial;
mod name_prefix;
mod naming;
mod tensor_search;

pub(crate) use fit::fit;
pub(crate) use initial::initial;
pub(crate) use naming::Naming;
