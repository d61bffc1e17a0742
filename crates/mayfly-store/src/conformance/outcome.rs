//! How a case ends: well, with a broken promise, or undecided because the machine was too slow.

use std::fmt;

use crate::error::Error;

/// What a case returns.
pub(super) type Outcome<T = ()> = Result<T, Miss>;

/// Why a case did not end well.
#[derive(Debug)]
pub(super) enum Miss {
    /// The store broke the contract.
    Broken(String),
    /// A read fell too close to a deadline to be judged. The case is tried again with more time.
    TooSlow,
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        Self::Broken(format!("an operation failed: {error:?}"))
    }
}

/// Ends the case with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::outcome::Miss::Broken(format!($($message)+)));
        }
    };
}

/// Ends the case unless both sides are equal; says what was compared, and both sides.
macro_rules! ensure_eq {
    ($found:expr, $wanted:expr, $($what:tt)+) => {
        match (&$found, &$wanted) {
            (found, wanted) => {
                $crate::conformance::outcome::ensure!(
                    found == wanted, "{}: found {found:?}, wanted {wanted:?}", format_args!($($what)+)
                );
            }
        }
    };
}

pub(super) use {ensure, ensure_eq};

/// A case of the contract that the store breaks.
#[derive(Clone)]
pub struct Violation {
    /// The case's name, to be found in [`cases`](super::cases).
    pub case: &'static str,
    /// What was seen instead.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violation {}

/// All cases that a store breaks.
#[derive(Clone)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store breaks {} case(s) of the contract", self.0.len())?;
        self.0.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violations {}
