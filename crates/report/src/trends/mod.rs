//! Gated runs in a row: what turned, from which run on, and by how much.
//!
//! [`Trends`] is what a history shows, as its keeper found it; here it becomes words, figures, a page and a table.

mod figure;
mod html;
mod table;
mod view;
mod words;

pub use view::{Towards, TrendLine, TrendRun, TrendTurn, Trends};
