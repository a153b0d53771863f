//! Notifications to the service manager: sd_notify(3).

use super::Pulse;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of the status text.
const STATUS_EVERY: Duration = Duration::from_secs(15);
/// Beats of the server are a second apart; a shorter gap is no stall.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Watchdog period.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads the service manager's addresses from the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        let value = |name| std::env::var(name).ok();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let watchdog = period(own, value("WATCHDOG_PID"), value("WATCHDOG_USEC"));
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let to = address(&name).and_then(|to| Ok((UnixDatagram::unbound()?, to)));
            to.inspect_err(|error| {
                tracing::warn!(%error, "the service manager is not notified: the address in NOTIFY_SOCKET is unusable");
            })
            .ok()
        });
        // A service manager that reads no messages must not delay the server.
        if let Some((socket, _)) = &to {
            let _ = socket.set_write_timeout(Some(Duration::from_secs(1)));
        }
        Self { to, watchdog }
    }

    /// Reports that the server is ready.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// Reports a reload; [`Supervisor::ready`] follows.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// Reports the shutdown.
    pub fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=Finishing requests in flight");
    }

    /// Sends the status and the watchdog notification at intervals, until the task is dropped. A
    /// stalled server sends no watchdog notification.
    pub async fn attend(
        self: Arc<Self>,
        pulse: Arc<Pulse>,
        status: impl Fn() -> String + Send + 'static,
    ) {
        if self.to.is_none() {
            return;
        }
        let every = self.watchdog.map_or(STATUS_EVERY, |period| STATUS_EVERY.min(period / 2));
        let within = every.max(STALLED_AFTER);
        let mut times = tokio::time::interval(every);
        loop {
            times.tick().await;
            let stalled = pulse.stalled(Instant::now(), within);
            if let Some(what) = stalled {
                tracing::error!(
                    task = what,
                    "a task makes no progress: the watchdog notification is withheld, so that the service manager restarts the server"
                );
            }
            self.say(&sign_of_life(stalled, self.watchdog.is_some(), &status()));
        }
    }

    fn say(&self, text: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), to) {
            tracing::debug!(%error, "the service manager does not receive notifications");
        }
    }
}

/// The periodic message; without WATCHDOG=1 if the server has stalled.
fn sign_of_life(stalled: Option<&str>, is_watched: bool, status: &str) -> String {
    match stalled {
        Some(what) => format!("STATUS=No progress: {what}"),
        None if is_watched => format!("WATCHDOG=1\nSTATUS={}", line(status)),
        None => format!("STATUS={}", line(status)),
    }
}

/// Replaces control characters: text after a line feed would be another message.
fn line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// A socket path, or with `@` an abstract name.
fn address(name: &OsString) -> std::io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(std::io::Error::other("neither a path nor an abstract name")),
    }
}

/// The watchdog period, if it is meant for this process.
fn period(process: i32, of: Option<String>, microseconds: Option<String>) -> Option<Duration> {
    let is_ours = of.is_none_or(|text| text.parse() == Ok(process));
    let period = Duration::from_micros(microseconds?.parse().ok().filter(|n| *n > 0)?);
    is_ours.then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_for_another_process_is_ignored() {
        let of = |pid: Option<&str>, time: &str| {
            period(7, pid.map(str::to_owned), Some(time.to_owned()))
        };
        assert_eq!(of(Some("7"), "2000000"), Some(Duration::from_secs(2)));
        assert_eq!(of(None, "2000000"), Some(Duration::from_secs(2)));
        assert_eq!(of(Some("8"), "2000000"), None);
        assert_eq!(of(Some("7"), "0"), None);
        assert_eq!(of(Some("7"), "soon"), None);
        assert_eq!(period(7, None, None), None);
    }

    #[test]
    fn stalled_server_sends_no_watchdog_message() {
        assert_eq!(sign_of_life(None, true, "Serving"), "WATCHDOG=1\nSTATUS=Serving");
        assert_eq!(sign_of_life(None, false, "Serving"), "STATUS=Serving");
        let stalled = sign_of_life(Some("SMB"), true, "Serving");
        assert_eq!(stalled, "STATUS=No progress: SMB");
    }

    #[test]
    fn messages_reach_path_and_abstract_sockets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("anabranch test {}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_path = (UnixDatagram::bind(&path), path.into_os_string());
        let by_name = (UnixDatagram::bind_addr(&abstract_name), format!("@{name}").into());
        for (listener, name) in [by_path, by_name] {
            let listener = listener.expect("a socket");
            listener.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
            let to =
                Some((UnixDatagram::unbound().expect("a socket"), address(&name).expect("one")));
            Supervisor { to, watchdog: None }.ready("Serving\nWATCHDOG=1");
            let mut bytes = [0; 100];
            let count = listener.recv(&mut bytes).expect("a message");
            assert_eq!(&bytes[..count], b"READY=1\nSTATUS=Serving WATCHDOG=1");
        }
        assert!(address(&"relative".into()).is_err());
    }
}
