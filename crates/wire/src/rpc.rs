//! DCE/RPC over IPC$: the calls with which clients list shares and resolve SIDs. C706, MS-RPCE
//! 2.2.2, MS-SRVS 3.1.4, MS-WKST 3.2.4, MS-LSAT.
//!
//! One [`Pipe`] is one open of a named pipe: request bytes in, response bytes out.

mod lsarpc;
mod names;
mod ndr;
mod srvsvc;
mod wkssvc;

use crate::codec::{DecodeError, Reader, Writer};
pub use names::{SidBytes, SidNames, UnixNames, machine_sid};
use std::sync::Arc;

/// Maximum length of one reassembled request.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of one fragment, in either direction.
const FRAGMENT_BYTES_MAX: usize = 4280;
/// Maximum number of presentation contexts in one bind.
const CONTEXTS_MAX: usize = 16;
/// Maximum length of the responses that the client has not read yet.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

const HEADER: usize = 16;
const REQUEST: u8 = 0;
const RESPONSE: u8 = 2;
const FAULT: u8 = 3;
const BIND: u8 = 11;
const BIND_ACK: u8 = 12;
const ALTER_CONTEXT: u8 = 14;
const ALTER_CONTEXT_RESPONSE: u8 = 15;
const FIRST: u8 = 1;
const LAST: u8 = 2;

/// NDR with 32-bit pointers, version 2.
const NDR32: [u8; 20] = [
    0x04, 0x5D, 0x88, 0x8A, 0xEB, 0x1C, 0xC9, 0x11, 0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60,
    2, 0, 0, 0,
];
/// The first eight bytes of the bind-time feature negotiation syntax.
const FEATURES: [u8; 8] = [0x2C, 0x1C, 0xB7, 0x6C, 0x12, 0x98, 0x40, 0x45];

/// nca_op_rng_error.
const FAULT_OPNUM: u32 = 0x1C01_0002;
/// nca_s_fault_context_mismatch.
const FAULT_HANDLE: u32 = 0x1C00_001A;
/// nca_s_fault_ndr.
const FAULT_NDR: u32 = 0x0000_06F7;

/// The facts that the interfaces report.
#[derive(Clone, Debug, Default)]
pub struct RpcFacts {
    /// Computer name.
    pub server_name: String,
    /// Domain or workgroup.
    pub domain: String,
    /// Comment shown beside the server's name.
    pub comment: String,
    /// Shares that the caller may see, including IPC$.
    pub shares: Vec<ShareInfo>,
    /// Name of the caller.
    pub user: String,
    /// Names of SIDs.
    pub names: Arc<SidNames>,
    /// True if the caller may use administrative calls.
    pub is_administrator: bool,
    /// Time of the latest request, in milliseconds since 1970; see [`Pipe::set_now`].
    pub now_unix_ms: i64,
}

impl RpcFacts {
    /// Heap memory of this value, without the names that all pipes share.
    fn heap_bytes(&self) -> usize {
        let texts = [&self.server_name, &self.domain, &self.comment, &self.user];
        let of_share = |share: &ShareInfo| share.name.capacity() + share.remark.capacity();
        texts.iter().map(|text| text.capacity()).sum::<usize>()
            + self.shares.capacity() * size_of::<ShareInfo>()
            + self.shares.iter().map(of_share).sum::<usize>()
    }
}

/// One share in a list.
#[derive(Clone, Debug)]
pub struct ShareInfo {
    /// Name.
    pub name: String,
    /// `STYPE_*`: 0 for a disk, 0x8000_0003 for IPC$.
    pub kind: u32,
    /// Comment.
    pub remark: String,
    /// `SHI1005_FLAGS_*`. MS-SRVS 2.2.4.29.
    pub flags: u32,
    /// True if share lists contain it.
    pub is_listed: bool,
}

/// SHI1005_FLAGS_ACCESS_BASED_DIRECTORY_ENUM: listings contain only entries that the caller may
/// read.
pub const SHARE_ACCESS_BASED_ENUMERATION: u32 = 0x0800;
/// SHI1005_FLAGS_ENCRYPT_DATA: the share requires encryption.
pub const SHARE_ENCRYPT_DATA: u32 = 0x8000;

/// The RPC interface of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcInterface {
    /// Local security authority.
    Lsarpc,
    /// Server service.
    Srvsvc,
    /// Workstation service.
    Wkssvc,
}

impl RpcInterface {
    /// The interface behind a pipe's name.
    #[must_use]
    pub fn of_pipe(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "lsarpc" => Some(Self::Lsarpc),
            "srvsvc" => Some(Self::Srvsvc),
            "wkssvc" => Some(Self::Wkssvc),
            _ => None,
        }
    }

    fn uuid(self) -> [u8; 16] {
        match self {
            Self::Lsarpc => [
                0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xCD, 0xAB, 0xEF, 0x00, 0x01, 0x23, 0x45, 0x67,
                0x89, 0xAB,
            ],
            Self::Srvsvc => [
                0xC8, 0x4F, 0x32, 0x4B, 0x70, 0x16, 0xD3, 0x01, 0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E,
                0xE1, 0x88,
            ],
            Self::Wkssvc => [
                0x98, 0xD0, 0xFF, 0x6B, 0x12, 0xA1, 0x10, 0x36, 0x98, 0x33, 0x46, 0xC3, 0xF8, 0x7E,
                0x34, 0x5A,
            ],
        }
    }
}

/// One open of a pipe.
#[derive(Debug)]
pub struct Pipe {
    interface: RpcInterface,
    facts: RpcFacts,
    input: Vec<u8>,
    stub: Vec<u8>,
    output: Vec<u8>,
    /// Policy handles of the local security authority.
    handles: lsarpc::PolicyHandles,
    /// True once the pipe was disconnected; see [`Pipe::disconnect`].
    is_disconnected: bool,
}

impl Pipe {
    /// Opens a pipe.
    #[must_use]
    pub fn new(interface: RpcInterface, facts: RpcFacts) -> Self {
        let (input, stub, output) = (Vec::new(), Vec::new(), Vec::new());
        let handles = lsarpc::PolicyHandles::default();
        Self { interface, facts, input, stub, output, handles, is_disconnected: false }
    }

    /// Sets the time that responses to subsequently written calls report, in milliseconds since
    /// 1970.
    pub fn set_now(&mut self, now_unix_ms: i64) {
        self.facts.now_unix_ms = now_unix_ms;
    }

    /// Processes bytes of the client. Their responses can be read when this returns.
    ///
    /// # Errors
    /// [`DecodeError`] disconnects the pipe.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if self.is_disconnected {
            return Err(DecodeError { what: "disconnected pipe", at: 0 });
        }
        self.handle_bytes(bytes).inspect_err(|_| self.disconnect())
    }

    fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut rest = input.as_slice();
        while let Some(length) = fragment_length(rest)? {
            let Some((fragment, later)) = rest.split_at_checked(length) else { break };
            self.handle_fragment(fragment)?;
            rest = later;
            if self.output.len() > OUTPUT_BYTES_MAX {
                return Err(DecodeError { what: "unread RPC answers", at: 0 });
            }
        }
        if rest.len() > REQUEST_BYTES_MAX {
            return Err(DecodeError { what: "RPC fragment", at: 0 });
        }
        // Copied, because the buffer still has capacity for the complete write.
        self.input = rest.to_vec();
        Ok(())
    }

    /// Disconnects the pipe: further writes fail, and unread responses are dropped.
    pub fn disconnect(&mut self) {
        self.is_disconnected = true;
        (self.input, self.stub, self.output) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// True if every further write fails; see [`Pipe::disconnect`].
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.is_disconnected
    }

    /// Memory of the pipe, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.stub.capacity() + self.output.capacity();
        size_of::<Self>() + self.facts.heap_bytes() + buffers
    }

    /// Takes up to `count` bytes of responses; the flag is true if more are left.
    pub fn read(&mut self, count: usize) -> (Vec<u8>, bool) {
        let count = count.min(self.output.len());
        if count == self.output.len() {
            // Moves the buffer out without a copy.
            return (std::mem::take(&mut self.output), false);
        }
        (self.output.drain(..count).collect(), true)
    }

    /// Up to `count` bytes of responses, without removing them.
    #[must_use]
    pub fn peek(&self, count: usize) -> &[u8] {
        &self.output[..count.min(self.output.len())]
    }

    /// Length of the unread responses, in bytes.
    #[must_use]
    pub fn available(&self) -> usize {
        self.output.len()
    }

    fn handle_fragment(&mut self, fragment: &[u8]) -> Result<(), DecodeError> {
        let mut r = Reader::new(fragment);
        r.skip(2, "RPC version")?;
        let kind = r.u8("RPC type")?;
        let flags = r.u8("RPC flags")?;
        r.skip(8, "RPC header")?;
        let call = r.u32("RPC call id")?;
        match kind {
            BIND => self.handle_bind(&mut r, call, BIND_ACK),
            ALTER_CONTEXT => self.handle_bind(&mut r, call, ALTER_CONTEXT_RESPONSE),
            REQUEST => self.handle_request(&mut r, flags, call),
            _ => Err(r.malformed("RPC type")),
        }
    }

    fn handle_bind(
        &mut self,
        r: &mut Reader<'_>,
        call: u32,
        answer: u8,
    ) -> Result<(), DecodeError> {
        r.skip(8, "bind")?;
        let count = usize::from(r.u8("bind contexts")?);
        r.skip(3, "bind")?;
        if count > CONTEXTS_MAX {
            return Err(r.malformed("bind contexts"));
        }
        let mut results = Vec::new();
        for _ in 0..count {
            r.skip(2, "context id")?;
            let syntaxes = usize::from(r.u8("transfer syntaxes")?);
            r.skip(1, "context")?;
            let interface: [u8; 20] = r.array("abstract syntax")?;
            let offered = r.take(syntaxes * 20, "transfer syntax")?;
            let known = interface[..16] == self.interface.uuid();
            results.push(bind_result(known, offered));
        }
        let mut body = Vec::new();
        let mut w = Writer::new(&mut body);
        w.u16(FRAGMENT_BYTES_MAX as u16);
        w.u16(FRAGMENT_BYTES_MAX as u16);
        w.u32(0x53F0);
        let address = match self.interface {
            RpcInterface::Lsarpc => b"\\PIPE\\lsarpc\0",
            RpcInterface::Srvsvc => b"\\PIPE\\srvsvc\0",
            RpcInterface::Wkssvc => b"\\PIPE\\wkssvc\0",
        };
        w.u16(address.len() as u16);
        w.bytes(address);
        // Aligned relative to the fragment's start, 16 bytes earlier.
        w.align(4);
        w.u8(results.len() as u8);
        w.zeros(3);
        results.iter().for_each(|result| w.bytes(result));
        self.put_fragment(answer, FIRST | LAST, call, &body);
        Ok(())
    }

    fn handle_request(
        &mut self,
        r: &mut Reader<'_>,
        flags: u8,
        call: u32,
    ) -> Result<(), DecodeError> {
        r.skip(4, "allocation hint")?;
        let context = r.u16("context id")?;
        let opnum = r.u16("opnum")?;
        if flags & FIRST != 0 {
            self.stub.clear();
        }
        self.stub.extend_from_slice(r.rest());
        if self.stub.len() > REQUEST_BYTES_MAX {
            return Err(r.malformed("RPC request"));
        }
        if flags & LAST == 0 {
            return Ok(());
        }
        let stub = std::mem::take(&mut self.stub);
        let result = match self.interface {
            RpcInterface::Lsarpc => lsarpc::call(opnum, &stub, &self.facts, &mut self.handles),
            RpcInterface::Srvsvc => srvsvc::call(opnum, &stub, &self.facts),
            RpcInterface::Wkssvc => wkssvc::call(opnum, &stub, &self.facts),
        };
        match result {
            Ok(answer) => self.put_response(call, context, &answer),
            Err(fault) => self.put_fault(call, context, fault.code()),
        }
        Ok(())
    }

    fn put_response(&mut self, call: u32, context: u16, answer: &[u8]) {
        let room = FRAGMENT_BYTES_MAX - HEADER - 8;
        let count = answer.len().div_ceil(room).max(1);
        for at in 0..count {
            let part = &answer[at * room..answer.len().min((at + 1) * room)];
            let mut body = Vec::with_capacity(part.len() + 8);
            let mut w = Writer::new(&mut body);
            w.u32((answer.len() - at * room) as u32);
            w.u16(context);
            w.u16(0);
            w.bytes(part);
            let flags = if at == 0 { FIRST } else { 0 } | if at + 1 == count { LAST } else { 0 };
            self.put_fragment(RESPONSE, flags, call, &body);
        }
    }

    fn put_fault(&mut self, call: u32, context: u16, code: u32) {
        let mut body = Vec::new();
        let mut w = Writer::new(&mut body);
        w.u32(0);
        w.u16(context);
        w.u16(0);
        w.u32(code);
        w.u32(0);
        self.put_fragment(FAULT, FIRST | LAST, call, &body);
    }

    fn put_fragment(&mut self, kind: u8, flags: u8, call: u32, body: &[u8]) {
        let mut w = Writer::new(&mut self.output);
        w.bytes(&[5, 0, kind, flags, 0x10, 0, 0, 0]);
        w.u16((HEADER + body.len()) as u16);
        w.u16(0);
        w.u32(call);
        w.bytes(body);
    }
}

/// Length of the first fragment in `input`, once its header has arrived.
fn fragment_length(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some(header) = input.first_chunk::<HEADER>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes([header[8], header[9]]));
    // Version 5.0, little-endian integers, ASCII, IEEE.
    let known = header[0] == 5 && header[4] == 0x10;
    if known && length >= HEADER {
        Ok(Some(length))
    } else {
        Err(DecodeError { what: "RPC header", at: 0 })
    }
}

/// One result of a bind acknowledgment: result, reason, transfer syntax.
fn bind_result(known: bool, offered: &[u8]) -> [u8; 24] {
    let mut result = [0; 24];
    if offered.chunks_exact(20).any(|s| s[..8] == FEATURES) {
        // Negotiate ack; no features.
        result[0] = 3;
    } else if known && offered.chunks_exact(20).any(|s| s == NDR32) {
        result[4..].copy_from_slice(&NDR32);
    } else {
        // Provider rejection: interface, or else transfer syntax, not supported.
        result[0] = 2;
        result[2] = if known { 2 } else { 1 };
    }
    result
}

/// Reasons for a fault response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RpcFault {
    Handle,
    Opnum,
    Ndr,
}

impl RpcFault {
    fn code(self) -> u32 {
        match self {
            Self::Handle => FAULT_HANDLE,
            Self::Opnum => FAULT_OPNUM,
            Self::Ndr => FAULT_NDR,
        }
    }
}

impl From<DecodeError> for RpcFault {
    fn from(_: DecodeError) -> Self {
        Self::Ndr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> RpcFacts {
        let share = |name: &str, kind| ShareInfo {
            name: name.into(),
            kind,
            remark: "a remark".into(),
            flags: 0,
            is_listed: true,
        };
        RpcFacts {
            server_name: "SRV".into(),
            domain: "WG".into(),
            comment: String::new(),
            shares: vec![share("data", 0), share("IPC$", 0x8000_0003)],
            ..RpcFacts::default()
        }
    }

    fn bind() -> Vec<u8> {
        let mut body = vec![0xB8, 0x10, 0xB8, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0];
        body.extend_from_slice(&RpcInterface::Srvsvc.uuid());
        body.extend_from_slice(&[3, 0, 0, 0]);
        body.extend_from_slice(&NDR32);
        fragment(BIND, &body)
    }

    fn fragment(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![5, 0, kind, 3, 0x10, 0, 0, 0];
        out.extend_from_slice(&((16 + body.len()) as u16).to_le_bytes());
        out.extend_from_slice(&[0, 0, 1, 0, 0, 0]);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn fragmented_bind_is_acknowledged_with_ndr() {
        let mut pipe = Pipe::new(RpcInterface::Srvsvc, facts());
        let bytes = bind();
        for byte in &bytes {
            pipe.write(&[*byte]).unwrap();
        }
        let (answer, more) = pipe.read(4096);
        assert!(!more);
        assert_eq!(answer[2], BIND_ACK);
        assert_eq!(answer[answer.len() - 20..], NDR32);
        assert_eq!(usize::from(u16::from_le_bytes([answer[8], answer[9]])), answer.len());
    }

    #[test]
    fn unknown_opnum_gets_a_fault() {
        let mut pipe = Pipe::new(RpcInterface::Srvsvc, facts());
        pipe.write(&fragment(REQUEST, &[0, 0, 0, 0, 0, 0, 200, 0])).unwrap();
        assert_eq!(pipe.read(4096).0[2], FAULT);
    }

    #[test]
    fn pipe_memory_excludes_the_processed_write() {
        let mut pipe = Pipe::new(RpcInterface::Srvsvc, facts());
        let empty = pipe.memory_bytes();
        let fault = fragment(REQUEST, &[0, 0, 0, 0, 0, 0, 200, 0]);
        let mut bytes = fault.repeat(10_000);
        bytes.extend_from_slice(&fault[..20]);
        pipe.write(&bytes).unwrap();
        assert_eq!(pipe.available(), 10_000 * 32);
        assert!((320_000..700_000).contains(&(pipe.memory_bytes() - empty)));
        assert_eq!(pipe.read(usize::MAX).0.len(), 320_000);
        assert_eq!(pipe.memory_bytes(), empty + 20, "the beginning of a fragment");
    }

    #[test]
    fn disconnected_pipe_refuses_writes_and_holds_no_memory() {
        let mut pipe = Pipe::new(RpcInterface::Srvsvc, facts());
        let empty = pipe.memory_bytes();
        let fault = fragment(REQUEST, &[0, 0, 0, 0, 0, 0, 200, 0]);
        pipe.write(&fault.repeat(OUTPUT_BYTES_MAX / 32)).unwrap();
        assert!(pipe.write(&fault).is_err(), "nobody reads");
        assert!(pipe.is_disconnected() && pipe.write(&bind()).is_err());
        assert_eq!((pipe.available(), pipe.memory_bytes()), (0, empty));
    }

    #[test]
    fn changed_and_truncated_fragments_never_panic() {
        let mut request = vec![0, 0, 0, 0, 0, 0, 15, 0];
        request.extend_from_slice(&[0; 64]);
        for bytes in [bind(), fragment(REQUEST, &request)] {
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7F, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = Pipe::new(RpcInterface::Srvsvc, facts()).write(&changed);
                }
            }
        }
    }
}
