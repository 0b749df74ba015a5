//! Comparison of several runs in one report, such as two GPUs, two frameworks, or the states before and after a change.
//!
//! [`load_side_by_side`] reads the folders. [`RunComparison`] matches their settings and compares every run with the first one.
//! [`render_side_by_side`] writes the page, the summary and the figures.

mod compare;
mod environment;
mod fields;
mod figure;
mod html;
mod incomparable;
mod load;
mod losses;
mod markdown;
mod matching;
mod render;
mod sentences;
mod view;

pub use load::{MAX_RUNS, load_side_by_side};
pub use render::render_side_by_side;
pub use view::RunComparison;
