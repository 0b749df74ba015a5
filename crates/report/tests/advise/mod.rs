//! Tests of the advised settings and best practices.

mod budget;
mod cost_rules;
mod quality;
mod range_rules;
mod seeds;
mod text;
mod ties;
