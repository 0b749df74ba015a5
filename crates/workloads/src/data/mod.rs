//! Labelled reviews and images, and running text: read from the user's disk or generated, divided by a split, tokenised once and
//! cached.
//!
//! [`load_reviews`], [`load_images`] and [`load_passages`] are the ways in. Whatever is wrong with a file is an error that names the
//! file and the line; a data set is never used in part without saying so.

mod cache;
mod check;
mod corpus;
mod delimited;
mod error;
mod examples;
mod grammar;
mod ids;
mod image_files;
mod images;
mod imdb_folder;
mod json_lines;
mod masking;
mod part;
mod passages;
mod reviews;
mod source;
mod split;
mod subwords;
mod synthetic;
mod synthetic_images;
mod text_files;
mod token_file;
mod tokenized;
mod tokenizer;
mod vocabulary;

pub use check::{Checked, CheckedPart, check};
pub use corpus::load_passages;
pub use error::{DataError, LineProblem};
pub use examples::Example;
pub use image_files::load_images;
pub use images::{ImageBatch, Images, Shades};
pub(crate) use masking::hidden_of;
pub use part::{Dataset, Labelled, Named, Numbers, Part};
pub use passages::Words;
pub use reviews::load_reviews;
pub use split::Wanted;
pub(crate) use split::divided;
pub use subwords::TextTokenizer;
pub use synthetic::{DEFAULT_TEST, DEFAULT_TRAIN, LABEL_NOISE, synthetic_reviews};
pub use synthetic_images::{CLASSES, DEFAULT_TEST_IMAGES, DEFAULT_TRAIN_IMAGES, synthetic_images};
pub use tokenized::{TokenBatch, Tokenized};

use std::path::Path;

use examples::LabelledParts;
use mantissa_core::DatasetKind;

/// The kind of the data at a path, from what lies there.
pub fn kind_of(path: &Path) -> DatasetKind {
    if image_files::are_at(path) {
        DatasetKind::Images
    } else if text_files::is_at(path) {
        DatasetKind::Text
    } else {
        DatasetKind::Reviews
    }
}
