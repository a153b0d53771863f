//! Statistics of every request, for all protocols: transactions by share, operation and outcome,
//! bytes, latencies, CPU time by stage, busiest clients and files.
//!
//! Counting takes no lock and shares no cache line between threads: each thread has its own stripe,
//! and readers sum the stripes. The configuration and tables here fix all dimensions, so no client
//! can create more series. The crate has no clock: times are arguments.
#![forbid(unsafe_code)]

mod api;
mod audit;
mod cell;
mod histogram;
mod peaks;
mod registry;
mod response;
mod share;
mod slow;
mod snapshot;
mod stage;
mod top;

pub use api::{Api, MeteredProtocol, NfsOperation, TransactionType};
pub use audit::{AuditEvent, AuditKind, AuditSink, NegotiatedSession};
pub use cell::{Arrival, CompletedRequest, SentReply};
pub use histogram::{BOUNDS_MICROSECONDS, HistogramSnapshot};
pub use peaks::Peak;
pub use registry::{Meter, SHARES_MAX};
pub use response::{Authentication, ResponseType};
pub use share::ShareId;
pub use slow::{SLOW_MAX, SlowRequest};
pub use snapshot::{ApiSnapshot, MeterSnapshot, ShareSnapshot, TopEntry};
pub use stage::{STAGE_SAMPLE, Stage, StageClock, StageTimes};
pub use top::{TOP_SAMPLE, TopCounts};
