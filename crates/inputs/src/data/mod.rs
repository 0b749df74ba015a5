//! Labelled texts, labelled images and running text. Data is read from disk or generated, split into parts, tokenized once and cached.
//!
//! The entry points are [`load_reviews`], [`load_images`] and [`load_passages`]. An invalid file is an error that names the file and the line.
//! Notes report skipped files and folders that may belong to the data set.

mod cache;
mod casing;
mod check;
mod checkpoint_tokenizer;
mod cifar10;
mod classes;
mod column_names;
mod corpus;
mod data_file;
mod delimited;
mod detect;
mod error;
mod examples;
mod folder_entries;
mod grammar;
mod ids;
mod idx;
mod image_files;
mod image_format;
mod image_preprocessing;
mod images;
mod imdb_folder;
mod json_lines;
mod labelled;
mod masking;
mod passages;
mod reviews;
mod source;
mod split;
mod subwords;
mod synthetic;
mod synthetic_images;
mod text_decoding;
mod text_files;
mod token_file;
mod tokenized;
mod tokenizer;
mod tokenizer_files;
mod truncation;
mod vocabulary;
mod word_pieces;

pub use check::{Checked, CheckedPart, check};
pub use checkpoint_tokenizer::check_vocabulary_of_checkpoint;
pub use classes::KnownClasses;
pub use column_names::ColumnNames;
pub use corpus::load_passages;
pub use error::{DataError, LineProblem};
pub use examples::Example;
pub use image_files::load_images;
pub use image_preprocessing::ImagePreprocessing;
pub use images::{ImageBatch, Images, Normalization};
pub use labelled::{Dataset, Labelled, Named, Numbers, Part};
pub use masking::masked_count;
pub use passages::LanguageTask;
pub use reviews::{Reading, load_reviews};
pub use split::RequestedSplits;
pub use split::divided;
pub use subwords::TextTokenizer;
pub use synthetic::{DEFAULT_TEST, DEFAULT_TRAIN, LABEL_NOISE, synthetic_reviews};
pub use synthetic_images::{CLASSES, DEFAULT_TEST_IMAGES, DEFAULT_TRAIN_IMAGES, synthetic_images};
pub use tokenized::{TokenBatch, Tokenized};
pub use truncation::check_length;

use std::path::Path;

use detect::{Content, detect_content};
use examples::LabelledParts;
use mantissa_core::DatasetKind;

/// Detects the kind of the data at a path from its content.
///
/// # Errors
/// The path contains no readable data. The error describes the content.
pub fn detect_kind(path: &Path) -> Result<DatasetKind, DataError> {
    if path.is_dir() {
        if image_files::contains_images(path)? {
            return Ok(DatasetKind::Images);
        }
        if text_files::contains_text(path)? {
            return Ok(DatasetKind::Text);
        }
        return source::find(path).map(|_| DatasetKind::Reviews);
    }
    match detect_content(path)? {
        Content::Batch | Content::Picture | Content::IdxImages => Ok(DatasetKind::Images),
        Content::Text { .. } | Content::Lines { labelled: false, .. } => Ok(DatasetKind::Text),
        Content::Rows { .. } | Content::Lines { labelled: true, .. } => Ok(DatasetKind::Reviews),
        Content::Other(is) => Err(DataError::Unrecognised {
            path: path.to_owned(),
            is,
        }),
    }
}
