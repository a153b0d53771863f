//! The addresses that clients can reach this machine at, kept up to date.
//!
//! What the system has ([`netlink`], [`sysfs`]) is kept here and read again when it says
//! that something changed; what of it clients are told is decided by
//! [`select`], when they ask.

mod message;
mod netlink;
mod select;
mod sysfs;

pub use select::{Advertised, Link, Pattern, Policy};

use select::{Listening, Seen};
use smb::InterfaceFact;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Changes come in bursts: after the first of them, the others may come for
/// this long before the system is asked again.
const SETTLE: Duration = Duration::from_millis(100);
/// After the system could not be asked.
const RETRY: Duration = Duration::from_secs(10);

/// The interfaces of this machine that are up, each with its usable addresses; none if the
/// system does not say.
#[must_use]
pub fn machine_interfaces() -> Vec<(Link, Vec<IpAddr>)> {
    let Ok((links, addresses)) = netlink::dump() else { return Vec::new() };
    let of = |link: &Link| {
        let own = addresses.iter().filter(|one| one.index == link.index && one.is_usable);
        own.map(|one| one.address).collect()
    };
    let up = links.into_iter().filter(|link| link.is_up);
    let mut found: Vec<(Link, Vec<IpAddr>)> = up.map(|link| (link.clone(), of(&link))).collect();
    found.iter_mut().for_each(|(link, _)| sysfs::complete(link));
    found
}

/// The interfaces of this machine, and what clients may be told of them.
#[derive(Debug, Default)]
pub struct Interfaces {
    seen: RwLock<Arc<Seen>>,
    policy: RwLock<Arc<Policy>>,
    listening: RwLock<Vec<SocketAddr>>,
}

impl Interfaces {
    /// Takes what the configuration says of them.
    pub fn configure(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Says where connections are taken.
    pub fn set_listening(&self, addresses: Vec<SocketAddr>) {
        *self.listening.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// What clients are told that reached us at `port`.
    pub fn reachable(&self, port: u16) -> Vec<InterfaceFact> {
        let (seen, policy) = (self.seen(), self.policy());
        let addresses = self.listening.read().unwrap_or_else(PoisonError::into_inner);
        select::select(&seen, &policy, Listening { addresses: &addresses, port })
    }

    /// What is known of the interface that has `address`.
    pub fn of(&self, address: IpAddr) -> Option<InterfaceFact> {
        select::fact_of(&self.seen(), &self.policy(), address)
    }

    /// Asks the system once.
    pub fn refresh(&self) {
        match netlink::dump() {
            Ok((mut links, addresses)) => {
                links.iter_mut().for_each(sysfs::complete);
                let seen = Seen { links, addresses };
                *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
            }
            Err(error) => tracing::warn!(%error, "cannot list network interfaces"),
        }
    }

    /// Asks the system again whenever it says that something changed, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        loop {
            match netlink::Changes::subscribe() {
                Ok(mut changes) => {
                    // What came before the subscription.
                    self.refresh();
                    while changes.next().await.is_ok() {
                        tokio::time::sleep(SETTLE).await;
                        self.refresh();
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot follow changes of network interfaces"),
            }
            tokio::time::sleep(RETRY).await;
            self.refresh();
        }
    }

    fn seen(&self) -> Arc<Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
