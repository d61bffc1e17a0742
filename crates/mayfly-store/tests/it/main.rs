//! The integration tests, one binary.

mod conformance;
mod linearizable;
mod naive;
