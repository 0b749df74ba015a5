//! Which setting is advised, and which best practices are told.

mod budget;
mod cost_rules;
mod quality;
mod range_rules;
mod seeds;
mod ties;
mod told;
