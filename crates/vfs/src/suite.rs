//! The behaviour every backend must show, as functions that take a backend.
