//! What the two embedded engines share: deadlines on two clocks, the index with its timers, the expired feed.

pub(crate) mod backlog;
pub(crate) mod deadline;
pub(crate) mod index;
pub(crate) mod janitor;
pub(crate) mod pages;
pub(crate) mod reaper;
pub(crate) mod timeline;
