//! The integration tests, one binary.

mod clock_matrix;
mod conformance;
mod crash;
mod disk_faults;
mod engine;
mod feed;
mod kill9;
mod limits;
mod linearizable;
mod model;
mod naive;
mod reopen;
mod sim_disk;
mod worlds;
