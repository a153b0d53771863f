//! Values of the file layer in the form of MS-FSCC, and back: names, attributes, reparse points,
//! statuses.
//!
//! Pure functions. May import no other room; every room may import it.

pub mod attributes;
pub mod dot_names;
pub mod extended_attributes;
pub mod names;
pub mod reparse;
pub mod status;
