//! Renders a run folder as pages, figures and tables. Does not need a GPU, the framework `burn` or a network.
//!
//! A *cell* is one workload with one setting and one seed. Each of its *repeats* runs in a process of its own and has a record. A *row* of
//! a report is a cell with its estimates.
//!
//! [`load`] reads a folder into a [`Run`]. [`Report`] computes everything that the renderers show. [`render`] writes all files.
//! [`RunComparison`] compares several runs setting by setting, and [`export`] writes them in formats for other programs.

mod advise;
mod banner;
mod cell_details;
mod claims;
mod comparability;
mod data_sheet;
mod difference;
mod digest;
mod digits;
mod error;
mod estimates;
mod export;
mod facts;
mod figures;
mod group;
mod headline;
mod html;
mod json;
mod launches;
mod least_squares;
mod load;
mod markdown;
mod memory_breakdown;
mod memory_parts;
mod more_repeats;
mod oversubscription;
mod overview;
mod pages;
mod peak;
mod reference;
mod render;
mod row;
mod row_notes;
mod scaling;
mod setting;
mod shape;
mod side_by_side;
mod store;
mod table;
mod table_notes;
mod terminal;
mod tiles;
mod trends;
mod units;
mod view;

pub use advise::{
    Advice, Budget, BudgetError, EstimateRecord, Evidence, FiredRule, Goal, WorkAdvice, WorkloadAdvice,
    advise, parse_error, parse_memory, parse_points,
};
pub use banner::Banner;
pub use claims::{ClaimVerdict, OverallVerdict};
pub use digest::{Correct, Digest, Times};
pub use error::ReportError;
pub use export::{ExportFormat, Kind, PlainColumn, Value, csv, export, parquet};
pub use figures::{Canvas, Figure, figures};
pub use group::Group;
pub use html::html;
pub use json::json;
pub use load::{Run, load};
pub use markdown::{escape as escape_markdown, markdown};
pub use overview::terminal_overview;
pub use reference::{Published, Reference, reference};
pub use render::{Rendered, render, render_single_file};
pub use row::Row;
pub use side_by_side::{MAX_RUNS, RunComparison, load_side_by_side, render_side_by_side};
pub use store::Store;
pub use table::Align;
pub use terminal::{Table, terminal_tables, terminal_tables_within};
pub use trends::{Direction, TrendChangePoint, TrendLine, TrendRun, Trends};
pub use units::{ABSENT, Scale};
pub use view::{Report, Suite};
