//! Labelled reviews: read from the user's disk or generated, divided by a split, tokenised once and cached.
//!
//! [`load_reviews`] is the way in. Whatever is wrong with a file is an error that names the file and the line; a data
//! set is never used in part without saying so.

mod cache;
mod delimited;
mod error;
mod examples;
mod grammar;
mod images;
mod imdb_folder;
mod part;
mod reviews;
mod source;
mod split;
mod synthetic;
mod tokenized;
mod tokenizer;
mod vocabulary;

pub use error::{DataError, LineProblem};
pub use examples::Example;
pub use images::{CLASSES, DEFAULT_TEST_IMAGES, DEFAULT_TRAIN_IMAGES, ImageBatch, Images, synthetic_images};
pub use part::{Dataset, Labelled, Part};
pub use reviews::load_reviews;
pub use synthetic::{DEFAULT_TEST, DEFAULT_TRAIN, LABEL_NOISE, synthetic_reviews};
pub use tokenized::{TokenBatch, Tokenized};

use examples::LabelledParts;
