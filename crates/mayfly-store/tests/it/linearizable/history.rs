//! What tasks did to one key and what they were told, with the moments around every call.

use std::fmt;

/// A written value; every write of a history has its own.
pub(crate) type Number = u64;

/// Boot time in nanoseconds.
pub(crate) type Nanos = u64;

/// What a call asked for. A ttl is in nanoseconds, none = never expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Put { new: Number, ttl: Option<Nanos> },
    Insert { new: Number, ttl: Option<Nanos> },
    Swap { expected: Number, new: Number, ttl: Option<Nanos> },
    Delete { expected: Number },
    Get(Look),
    IsAlive,
}

/// By which operation a value was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Get,
    Batch,
    Range,
}

/// What it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A write was acknowledged, or a conditional one decided.
    Done(bool),
    /// A read found this.
    Found(Option<Number>),
    /// A question about life was answered.
    Alive(bool),
    /// Nobody knows whether the write happened, or when.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) task: usize,
    pub(crate) ask: Ask,
    pub(crate) answer: Answer,
    pub(crate) began: Nanos,
    /// When the answer came; never for an unknown outcome.
    pub(crate) ended: Nanos,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |nanos: Nanos| nanos as f64 / 1e6;
        let (began, ended) = (millis(self.began), millis(self.ended));
        write!(f, "{began:12.3} … {ended:12.3} ms  task {}  {:?} → {:?}", self.task, self.ask, self.answer)
    }
}
