//! Trends over a history of runs that the regression gate recorded: which metrics changed, from which run on, and by how much.
//!
//! [`Trends`] contains the detected change points. This module renders them as sentences, figures, a page and a table.

mod figure;
mod html;
mod sentences;
mod table;
mod view;

pub use view::{Direction, TrendChangePoint, TrendLine, TrendRun, Trends};
