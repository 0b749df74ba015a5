//! Kinds of data sets.

use crate::name::named;

named! {
    /// Data set that a workload uses: the synthetic one if the user provides no data.
    pub enum DatasetKind ("dataset") {
        /// Synthetic labelled reviews from a seeded generator. Reports label them as synthetic.
        SyntheticReviews = "synthetic-reviews",
        /// Labelled reviews from the user's files.
        Reviews = "reviews",
        /// Synthetic labelled images from a seeded generator. Reports label them as synthetic.
        SyntheticImages = "synthetic-images",
        /// Labelled images from the user's files.
        Images = "images",
        /// Synthetic running text from a seeded generator. Reports label it as synthetic.
        SyntheticText = "synthetic-text",
        /// Running text from the user's files. A model predicts the next or the masked tokens.
        Text = "text",
        /// Data set of the program that runs the suite.
        Own = "own",
    }
}

impl DatasetKind {
    /// Returns true if the examples are images.
    pub fn has_images(self) -> bool {
        matches!(self, Self::SyntheticImages | Self::Images)
    }

    /// Returns true if the examples are labelled texts.
    pub fn has_reviews(self) -> bool {
        matches!(self, Self::SyntheticReviews | Self::Reviews)
    }

    /// Returns true if the data comes from a seeded generator.
    pub fn is_synthetic(self) -> bool {
        matches!(
            self,
            Self::SyntheticReviews | Self::SyntheticImages | Self::SyntheticText
        )
    }

    /// Returns true if the labels are the tokens of the text itself.
    pub fn is_running_text(self) -> bool {
        matches!(self, Self::Text | Self::SyntheticText)
    }

    /// Returns the synthetic data set of the same kind of examples.
    #[must_use]
    pub fn synthetic(self) -> Self {
        match self {
            Self::Images | Self::SyntheticImages => Self::SyntheticImages,
            Self::Text | Self::SyntheticText => Self::SyntheticText,
            Self::Reviews | Self::SyntheticReviews => Self::SyntheticReviews,
            Self::Own => Self::Own,
        }
    }
}
