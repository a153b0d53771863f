//! A backend in memory, for tests and simulation.
