//! The addresses at which clients can reach this machine, kept up to date.
//!
//! The module caches the system's links and addresses ([`netlink`], [`sysfs`]) and rereads them
//! after a change notification. [`select`] decides for each query which of them clients receive.

mod message;
mod netlink;
mod select;
mod sysfs;

pub use select::{AdvertisedAddress, Pattern, Policy, PrivateLink, SystemInterface};

use select::{Listeners, SystemInterfaces};
use smb::InterfaceFact;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use sync::RwLock;
use tokio::sync::Notify;

/// Changes come in bursts: delay between the first notification and the dump.
const SETTLE: Duration = Duration::from_millis(100);
/// Delay after a failed dump or subscription.
const RETRY: Duration = Duration::from_secs(10);

/// The interfaces of this machine that are up, with their usable addresses. Empty if the dump
/// fails.
#[must_use]
pub fn machine_interfaces() -> Vec<(SystemInterface, Vec<IpAddr>)> {
    let Ok((links, addresses)) = netlink::dump() else { return Vec::new() };
    let of = |link: &SystemInterface| {
        let own = addresses.iter().filter(|one| one.index == link.index && one.is_usable);
        own.map(|one| one.address).collect()
    };
    let up = links.into_iter().filter(|link| link.is_up);
    let mut found: Vec<(SystemInterface, Vec<IpAddr>)> =
        up.map(|link| (link.clone(), of(&link))).collect();
    found.iter_mut().for_each(|(link, _)| sysfs::complete(link));
    found
}

/// The machine's interfaces, and the policy for advertising them.
#[derive(Debug, Default)]
pub struct Interfaces {
    seen: RwLock<Arc<SystemInterfaces>>,
    policy: RwLock<Arc<Policy>>,
    listening: RwLock<Vec<SocketAddr>>,
    changed: Notify,
}

impl Interfaces {
    /// Applies the configured policy.
    pub fn configure(&self, policy: Policy) {
        *self.policy.write() = Arc::new(policy);
        self.changed.notify_one();
    }

    /// Sets the listening addresses.
    pub fn set_listening(&self, addresses: Vec<SocketAddr>) {
        *self.listening.write() = addresses;
    }

    /// The interfaces to advertise to clients that use `port`.
    pub fn reachable(&self, port: u16) -> Vec<InterfaceFact> {
        let (seen, policy) = (self.seen(), self.policy());
        let addresses = self.listening.read();
        select::select(&seen, &policy, Listeners { addresses: &addresses, port })
    }

    /// The interfaces on which the server may announce itself.
    pub fn private_links(&self) -> Vec<PrivateLink> {
        select::private_links(&self.seen(), &self.policy(), &self.listening.read())
    }

    /// Returns once the interfaces or the policy may have changed since the last call. One task may
    /// wait. Cancel safe.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The facts of the interface with `address`.
    pub fn of(&self, address: IpAddr) -> Option<InterfaceFact> {
        select::fact_of(&self.seen(), &self.policy(), address)
    }

    /// Reads the interfaces once.
    pub fn refresh(&self) {
        match netlink::dump() {
            Ok((mut links, addresses)) => {
                links.iter_mut().for_each(sysfs::complete);
                let seen = SystemInterfaces { links, addresses };
                *self.seen.write() = Arc::new(seen);
                self.changed.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list network interfaces: clients get the former list");
            }
        }
    }

    /// Rereads the interfaces after each change notification, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        loop {
            match netlink::Changes::subscribe() {
                Ok(mut changes) => {
                    // Includes changes from before the subscription.
                    self.refresh();
                    while changes.next().await.is_ok() {
                        tokio::time::sleep(SETTLE).await;
                        self.refresh();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot follow changes of network interfaces; retrying every 10 s");
                }
            }
            tokio::time::sleep(RETRY).await;
            self.refresh();
        }
    }

    fn seen(&self) -> Arc<SystemInterfaces> {
        self.seen.read().clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.read().clone()
    }
}
