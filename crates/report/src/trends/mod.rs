//! Trends over a history of gated runs: which metrics changed, from which run on, and by how much.
//!
//! [`Trends`] contains the detected change points. This module renders them as sentences, figures, a page and a table.

mod figure;
mod html;
mod table;
mod view;
mod words;

pub use view::{Towards, TrendLine, TrendRun, TrendTurn, Trends};
