//! Which setting is advised, and which best practices are told.

mod budget;
mod cost_rules;
mod quality;
mod range_rules;
mod seeds;
mod ties;
mod told;

#[path = "../support/advice.rs"]
mod advice;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod support;
