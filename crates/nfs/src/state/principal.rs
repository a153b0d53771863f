//! Principal of a client. RFC 8881 2.4.

/// Principal that created a client id. RFC 8881 2.4. With AUTH_SYS it is the client's own claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// RPC authentication flavor.
    pub flavor: u32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// The call came from a reserved source port. Without one any program could claim to be root.
    pub has_reserved_port: bool,
}
