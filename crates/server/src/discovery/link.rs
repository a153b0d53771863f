//! The task of one interface: its sockets, its responders, and the clock.

use super::counters::DiscoveryProtocol;
use super::plan::{LinkPlan, LinkStatus};
use super::socket::{BoundInterface, GroupSocket};
use super::{Discovery, jitter, metadata};
use crate::limits::DISCOVERY_BURST;
use ::discovery::limits::DATAGRAM_BYTES_MAX;
use ::discovery::mdns::{self, Announcement, MdnsResponder};
use ::discovery::wsd::{self, WsdComputer, WsdResponder};
use ::discovery::{Recipient, SenderGate, Transmit};
use std::future::{pending, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use sync::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Pause before a failed part of the announcement is started again.
const RETRY: Duration = Duration::from_secs(30);
/// Pause of reception after a refused datagram. A flood must not keep a worker of the file server
/// busy: at most one burst of each socket is read between two pauses, and the kernel drops the rest.
const REFUSAL_PAUSE: Duration = Duration::from_millis(20);
/// RFC 6762 11: the TTL of all messages.
const MDNS_HOPS: u32 = 255;
/// WS-Discovery does not leave the link.
const WSD_HOPS: u32 = 1;

/// The task of one interface.
pub(super) struct AnnouncementTask {
    discovery: Arc<Discovery>,
    plan: LinkPlan,
    mdns: Option<MdnsLink>,
    wsd: Vec<WsdLink>,
    problems: Vec<String>,
    /// When failed parts are started again.
    retry: Option<Instant>,
    /// When reception goes on after a refused datagram.
    paused_until: Option<Instant>,
    status: LinkStatus,
}

/// Multicast DNS of the interface, over both IP families.
struct MdnsLink {
    sockets: Vec<GroupSocket>,
    responder: MdnsResponder,
    gate: SenderGate,
}

/// WS-Discovery at one address.
struct WsdLink {
    socket: GroupSocket,
    responder: WsdResponder,
    gate: SenderGate,
    address: IpAddr,
    computer: WsdComputer,
    metadata: AbortHandle,
    /// Admits connections to the metadata.
    metadata_gate: Arc<Mutex<SenderGate>>,
}

impl Drop for WsdLink {
    fn drop(&mut self) {
        self.metadata.abort();
    }
}

impl AnnouncementTask {
    /// A task for the interface of the plan.
    pub(super) fn new(discovery: Arc<Discovery>, plan: LinkPlan) -> Self {
        Self {
            discovery,
            plan,
            mdns: None,
            wsd: Vec::new(),
            problems: Vec::new(),
            retry: None,
            paused_until: None,
            status: LinkStatus::default(),
        }
    }

    /// Announces by the newest plan until there is none any more; then withdraws the announcement.
    pub(super) async fn run(mut self, mut plans: watch::Receiver<LinkPlan>) {
        self.apply(Instant::now());
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX + 1];
        loop {
            let now = Instant::now();
            self.paused_until = self.paused_until.filter(|until| now < *until);
            if self.paused_until.is_none() && self.receive(&mut buffer, now) {
                self.paused_until = Some(now + REFUSAL_PAUSE);
            }
            self.advance(now);
            self.report();
            let due = self.next_due();
            let sockets: Vec<&UdpSocket> = self.sockets().map(|one| &one.socket).collect();
            tokio::select! {
                changed = plans.changed() => match changed {
                    Ok(()) => {
                        self.plan = plans.borrow_and_update().clone();
                        self.apply(Instant::now());
                    }
                    Err(_) => break,
                },
                () = readable(&sockets), if self.paused_until.is_none() => {}
                () = until(due) => {}
            }
        }
        self.close();
    }

    fn sockets(&self) -> impl Iterator<Item = &GroupSocket> {
        let of_mdns = self.mdns.iter().flat_map(|mdns| &mdns.sockets);
        of_mdns.chain(self.wsd.iter().map(|wsd| &wsd.socket))
    }

    /// Starts, changes and ends responders by the plan.
    fn apply(&mut self, now: Instant) {
        self.retry = None;
        self.problems = self.plan.no_wsd.iter().map(|text| (*text).to_owned()).collect();
        self.apply_mdns(now);
        self.apply_wsd(now);
    }

    fn apply_mdns(&mut self, now: Instant) {
        let Some(announcement) = self.plan.mdns.clone() else {
            if let Some(mut mdns) = self.mdns.take() {
                mdns.close();
            }
            return;
        };
        let groups =
            groups(&announcement.addresses, [mdns::GROUP_V4.into(), mdns::GROUP_V6.into()]);
        match self.mdns_over(&groups, announcement, now) {
            Ok(mdns) => self.mdns = Some(mdns),
            Err(error) => self.failed("multicast DNS", ("udp", mdns::PORT), &error, now),
        }
    }

    /// The present responder with the new announcement, or a new one. It keeps its name when an IP
    /// family comes or goes.
    fn mdns_over(
        &mut self,
        groups: &[IpAddr],
        announcement: Announcement,
        now: Instant,
    ) -> io::Result<MdnsLink> {
        let subnets = self.plan.subnets.clone();
        let present = self.mdns.take();
        let has_groups = present.as_ref().is_some_and(|mdns| mdns.has_groups(groups));
        let interface = self.interface();
        let join = || {
            let join = |group: &IpAddr| GroupSocket::join(interface, *group, mdns::PORT, MDNS_HOPS);
            groups.iter().map(join).collect::<io::Result<Vec<_>>>()
        };
        let Some(mut present) = present else {
            let responder = MdnsResponder::new(announcement, jitter(), now);
            return Ok(MdnsLink { sockets: join()?, responder, gate: SenderGate::new(subnets) });
        };
        if !has_groups {
            present.sockets = join()?;
        }
        present.gate.set_subnets(subnets);
        present.responder.update(announcement, now);
        Ok(present)
    }

    fn apply_wsd(&mut self, now: Instant) {
        let (computer, addresses) = match self.plan.wsd.clone() {
            Some((computer, addresses)) => (Some(computer), addresses),
            None => (None, Vec::new()),
        };
        let is_planned = |wsd: &WsdLink| {
            addresses.contains(&wsd.address) && computer.as_ref() == Some(&wsd.computer)
        };
        let (kept, ended): (Vec<_>, Vec<_>) = self.wsd.drain(..).partition(is_planned);
        self.wsd = kept;
        for mut wsd in ended {
            wsd.close();
        }
        let Some(computer) = computer else { return };
        for wsd in &mut self.wsd {
            wsd.gate.set_subnets(self.plan.subnets.clone());
            wsd.metadata_gate.lock().set_subnets(self.plan.subnets.clone());
        }
        for address in addresses {
            if self.wsd.iter().any(|wsd| wsd.address == address) {
                continue;
            }
            match self.start_wsd(&computer, address, now) {
                Ok(started) => self.wsd.push(started),
                Err((port, error)) => self.failed("WS-Discovery", port, &error, now),
            }
        }
    }

    fn start_wsd(
        &self,
        computer: &WsdComputer,
        address: IpAddr,
        now: Instant,
    ) -> Result<WsdLink, ((&'static str, u16), io::Error)> {
        let listener = metadata::listen(address, self.plan.index)
            .map_err(|error| (("tcp", wsd::METADATA_PORT), error))?;
        let group = if address.is_ipv4() { wsd::GROUP_V4.into() } else { wsd::GROUP_V6.into() };
        let socket = GroupSocket::join(self.interface(), group, wsd::PORT, WSD_HOPS)
            .map_err(|error| (("udp", wsd::PORT), error))?;
        let metadata_gate = Arc::new(Mutex::new(SenderGate::new(self.plan.subnets.clone())));
        let (discovery, gate) = (self.discovery.clone(), metadata_gate.clone());
        let serve = metadata::serve(discovery, listener, computer.clone(), gate);
        Ok(WsdLink {
            socket,
            responder: WsdResponder::new(computer.clone(), address, jitter(), now),
            gate: SenderGate::new(self.plan.subnets.clone()),
            address,
            computer: computer.clone(),
            metadata: tokio::spawn(serve).abort_handle(),
            metadata_gate,
        })
    }

    fn interface(&self) -> BoundInterface<'_> {
        BoundInterface { name: &self.plan.name, index: self.plan.index }
    }

    /// Records a failure, which is retried. The log has it once until it changes.
    fn failed(&mut self, what: &str, port: (&str, u16), error: &io::Error, now: Instant) {
        self.retry = Some(now + RETRY);
        let (protocol, port) = port;
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => "another program uses the port; stop it, or turn this off",
            io::ErrorKind::PermissionDenied => {
                "restart the server if this was off at its start, or turn it off"
            }
            _ => "it is tried again every 30 s; turn this off if it is not wanted",
        };
        let problem = format!("{what} ({protocol} {port}): {error}; {remedy} in [discovery]");
        if !self.status.problems.contains(&problem) {
            let interface = self.plan.name.as_str();
            tracing::warn!(interface, "the server is not announced: {problem}");
        }
        self.problems.push(problem);
    }

    /// Handles waiting datagrams, a bounded number of each socket. Returns whether any was refused.
    fn receive(&mut self, buffer: &mut [u8], now: Instant) -> bool {
        let counters = &self.discovery.counters;
        let mut has_refused = false;
        let mut failure = None;
        if let Some(MdnsLink { sockets, responder, gate }) = &mut self.mdns {
            for socket in sockets {
                let handle = |from: SocketAddr, datagram: &[u8]| {
                    let is_own = gate.is_own(from.ip());
                    match gate.admit(from.ip(), now) {
                        Ok(()) => counters.count(
                            DiscoveryProtocol::Mdns,
                            responder.handle_datagram(from, is_own, datagram, now),
                        ),
                        Err(refusal) => {
                            has_refused = true;
                            counters.refused(DiscoveryProtocol::Mdns, refusal);
                        }
                    }
                };
                failure = failure.or(receive_burst(socket, buffer, handle).err());
            }
        }
        for WsdLink { socket, responder, gate, .. } in &mut self.wsd {
            let handle = |from: SocketAddr, datagram: &[u8]| match gate.admit(from.ip(), now) {
                Ok(()) => counters
                    .count(DiscoveryProtocol::Wsd, responder.handle_datagram(from, datagram, now)),
                Err(refusal) => {
                    has_refused = true;
                    counters.refused(DiscoveryProtocol::Wsd, refusal);
                }
            };
            failure = failure.or(receive_burst(socket, buffer, handle).err());
        }
        if let Some(error) = failure {
            // The interface went down, for example. New sockets replace all.
            tracing::debug!(interface = self.plan.name, %error, "discovery sockets failed");
            self.mdns = None;
            self.wsd.clear();
            self.retry = Some(now + RETRY);
        }
        has_refused
    }

    /// Lets the responders act on the time, and sends what they have to say.
    fn advance(&mut self, now: Instant) {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.apply(now);
        }
        if let Some(mdns) = &mut self.mdns {
            mdns.responder.handle_timeout(now);
            while let Some(transmit) = mdns.responder.poll_transmit() {
                mdns.send(&transmit);
            }
        }
        for wsd in &mut self.wsd {
            while let Some(transmit) = wsd.responder.poll_transmit(now) {
                wsd.send(&transmit);
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let mdns = self.mdns.iter().filter_map(|mdns| mdns.responder.poll_timeout());
        let wsd = self.wsd.iter().filter_map(|wsd| wsd.responder.poll_timeout());
        mdns.chain(wsd).chain(self.retry).chain(self.paused_until).min()
    }

    /// Publishes and logs changes of the state.
    fn report(&mut self) {
        let responder = self.mdns.as_ref().map(|mdns| &mdns.responder);
        let name = responder.and_then(MdnsResponder::announced_name);
        let mut problems = self.problems.clone();
        if responder.is_some_and(MdnsResponder::is_nameless) {
            problems.push(
                "other machines use the name and its variants; set name in [server]".to_owned(),
            );
        }
        problems.extend(self.plan.mdns.iter().filter_map(omission));
        let services = self.plan.mdns.iter().filter(|_| name.is_some()).flat_map(|announced| {
            let has_backups = !announced.backup_shares.is_empty();
            ["smb"].into_iter().chain(has_backups.then_some("time machine"))
        });
        let status = LinkStatus {
            interface: self.plan.name.clone(),
            services: services.map(str::to_owned).collect(),
            explorer: !self.wsd.is_empty(),
            name,
            problems,
        };
        if status == self.status {
            return;
        }
        let LinkStatus { interface, name, explorer, .. } = &status;
        if let Some(name) = name.as_ref().filter(|_| status.name != self.status.name) {
            let is_other = self.plan.mdns.as_ref().is_some_and(|plan| plan.name != *name);
            if is_other {
                tracing::warn!(
                    interface,
                    name,
                    "another machine has the server's name: it is announced with a number; set name in [server]"
                );
            } else {
                tracing::info!(interface, name, explorer, "announced");
            }
        }
        self.discovery.report(self.plan.index, status.clone());
        self.status = status;
    }

    fn close(&mut self) {
        if let Some(mdns) = &mut self.mdns {
            mdns.close();
        }
        for wsd in &mut self.wsd {
            wsd.close();
        }
    }
}

impl MdnsLink {
    fn has_groups(&self, groups: &[IpAddr]) -> bool {
        self.sockets.iter().map(|socket| socket.group.ip()).eq(groups.iter().copied())
    }

    /// Sends to the group over every family, to a client over its own.
    fn send(&self, transmit: &Transmit) {
        for socket in &self.sockets {
            match transmit.to {
                Recipient::Group => socket.send(&transmit.payload, socket.group),
                Recipient::Client(to) if to.is_ipv4() == socket.group.is_ipv4() => {
                    socket.send(&transmit.payload, to);
                }
                Recipient::Client(_) => {}
            }
        }
    }

    fn close(&mut self) {
        for transmit in self.responder.close() {
            self.send(&transmit);
        }
    }
}

impl WsdLink {
    fn send(&self, transmit: &Transmit) {
        let to = match transmit.to {
            Recipient::Group => self.socket.group,
            Recipient::Client(to) => to,
        };
        self.socket.send(&transmit.payload, to);
    }

    fn close(&mut self) {
        for transmit in self.responder.close() {
            self.send(&transmit);
        }
    }
}

/// The Time Machine shares that the announcement has no room for.
fn omission(announcement: &Announcement) -> Option<String> {
    let omitted = announcement.omitted_backup_shares();
    (!omitted.is_empty()).then(|| {
        let shares = omitted.join(", ");
        format!("not offered for Time Machine, because the names are too long together: {shares}")
    })
}

/// The groups of the families that the addresses have.
fn groups(addresses: &[IpAddr], of_family: [IpAddr; 2]) -> Vec<IpAddr> {
    let has_family = |group: &IpAddr| addresses.iter().any(|ip| ip.is_ipv4() == group.is_ipv4());
    of_family.into_iter().filter(has_family).collect()
}

fn receive_burst(
    socket: &GroupSocket,
    buffer: &mut [u8],
    mut handle: impl FnMut(SocketAddr, &[u8]),
) -> io::Result<()> {
    for _ in 0..DISCOVERY_BURST {
        let Some((length, from)) = socket.receive(buffer)? else { break };
        handle(from, &buffer[..length]);
    }
    Ok(())
}

/// Returns when a socket has a datagram or an error.
async fn readable(sockets: &[&UdpSocket]) {
    poll_fn(|cx| {
        let mut any = Poll::Pending;
        for socket in sockets {
            if socket.poll_recv_ready(cx).is_ready() {
                any = Poll::Ready(());
            }
        }
        any
    })
    .await;
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => pending().await,
    }
}
