//! Tests of tables, figures, pages and exports on invented and recorded runs.

use mantissa_testing::CountingAllocator;

/// Counts allocated memory for `mantissa_testing::hostile`, which no test of this crate uses at present.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[path = "support/advice.rs"]
mod advice;
mod advise;
mod approved;
mod browser;
mod claims;
mod comparisons;
#[path = "support/default_axes.rs"]
mod default_axes;
mod export_fields;
mod exports;
mod findings;
mod folders;
#[path = "support/gpus.rs"]
mod gpus;
mod histograms;
mod hover;
mod kernel_figures;
#[path = "support/layout.rs"]
mod layout;
mod loss_curves;
mod overview;
mod pages;
mod pictures;
mod readable;
mod reductions;
mod repeats;
#[cfg(target_os = "linux")]
mod scale;
mod scaling;

mod shipped_claims;
mod side_by_side;
mod staleness;
mod suite_page;
mod support;
mod terminals;
mod traced;
#[path = "support/traces.rs"]
mod traces;
mod trends;
