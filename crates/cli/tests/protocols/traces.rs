//! Replays the requests of well-known programs against the built server, and compares the
//! statuses, the data and the final state.
//!
//! Each file in `traces/` is the trace of one program. A line is a request with its
//! expected result:
//!
//! ```text
//! NAME = create PATH access=HEX share=rwd|none disposition=WORD options=HEX [attributes=HEX] [+Ctxt] -> STATUS [action]
//! info NAME file|volume|security CLASS -> STATUS [HEX]    (the reply begins with it)
//! set NAME CLASS HEX -> STATUS
//! rename NAME PATH [replace] -> STATUS
//! read NAME OFFSET LENGTH -> STATUS [TEXT]
//! write NAME OFFSET TEXT -> STATUS
//! list NAME CLASS PATTERN -> STATUS [NAME ..]
//! watch NAME filter=HEX -> 103
//! notified NAME -> STATUS [ACTION PATH]
//! flush NAME -> STATUS
//! close NAME -> STATUS
//! disk PATH TEXT | exists PATH [TEXT] | missing PATH      (on the server's disk)
//! ```
//!
//! Lines that begin with `&` are related to the one before and go in its frame.

use crate::support::client::{
    CHANGE_NOTIFY, CLOSE, CREATE, FLUSH, PENDING, QUERY_DIRECTORY, QUERY_INFO, READ, RawFileId,
    RawReply, RawSmbClient, SET_INFO, SUCCESS, WRITE,
};
use crate::support::{ServerProcess, Setup};
use std::collections::HashMap;
use std::path::Path;

const RELATED: RawFileId = [0xFF; 16];
const RENAME_CLASS: u8 = 10;

/// A line, split into words; quotes hold one together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a quote ends"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

fn bytes(texts: &[String]) -> Vec<u8> {
    let text = texts.concat();
    (0..text.len()).step_by(2).map(|at| hex(&text[at..at + 2]) as u8).collect()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// One request of a trace.
struct TraceRequest {
    line: String,
    command: u16,
    body: Vec<u8>,
    /// Name of the resulting open.
    opens: Option<String>,
    /// Name of the open that the request uses.
    about: Option<String>,
    status: u32,
    expected: Vec<String>,
}

/// A trace being replayed.
struct TraceReplay<'a> {
    server: &'a ServerProcess,
    client: RawSmbClient,
    opens: HashMap<String, RawFileId>,
    /// Message ids of the waiting CHANGE_NOTIFYs, by folder.
    watches: HashMap<String, u64>,
    /// CHANGE_NOTIFY replies that arrived between others.
    early: Vec<RawReply>,
}

fn create_body(path: &str, options: &[String]) -> Vec<u8> {
    let value = |key: &str| {
        options.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).unwrap_or("0")
    };
    let share = value("share");
    let shared = [('r', 1), ('w', 2), ('d', 4)].into_iter();
    let share: u32 =
        shared.filter(|(c, _)| share != "none" && share.contains(*c)).map(|(_, bit)| bit).sum();
    let names = ["supersede", "open", "create", "open_if", "overwrite", "overwrite_if"];
    let disposition = names.iter().position(|name| *name == value("disposition")).unwrap() as u32;
    let name = utf16(path);
    let mut contexts = Vec::new();
    let asked: Vec<&str> = options.iter().filter_map(|word| word.strip_prefix('+')).collect();
    for (at, context) in asked.iter().enumerate() {
        let next: u32 = if at + 1 == asked.len() { 0 } else { 24 };
        contexts.extend_from_slice(&next.to_le_bytes());
        contexts.extend_from_slice(&[16, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        contexts.extend_from_slice(context.as_bytes());
        contexts.extend_from_slice(&[0; 4]);
    }
    let padded = name.len().next_multiple_of(8);
    let contexts_at = if contexts.is_empty() { 0 } else { 120 + padded as u32 };
    let mut body = vec![57, 0, 0, 0, 2, 0, 0, 0];
    body.extend_from_slice(&[0; 16]);
    for field in [hex(value("access")), hex(value("attributes")), share, disposition] {
        body.extend_from_slice(&field.to_le_bytes());
    }
    body.extend_from_slice(&hex(value("options")).to_le_bytes());
    body.extend_from_slice(&120u16.to_le_bytes());
    body.extend_from_slice(&(name.len() as u16).to_le_bytes());
    body.extend_from_slice(&contexts_at.to_le_bytes());
    body.extend_from_slice(&(contexts.len() as u32).to_le_bytes());
    body.extend_from_slice(&name);
    body.resize(56 + padded, 0);
    body.extend_from_slice(&contexts);
    // The variable part of CREATE is at least one byte. MS-SMB2 2.2.13.
    body.resize(body.len().max(57), 0);
    body
}

fn query_info_body(kind: &str, class: u8, file: RawFileId) -> Vec<u8> {
    // FileSystem classes are called volume here; 7 of security: owner, group, access list.
    let kinds = ["file", "volume", "security"];
    let number = kinds.iter().position(|name| *name == kind).unwrap() as u8 + 1;
    let (class, additional) = if number == 3 { (0, u32::from(class)) } else { (class, 0) };
    let mut body = vec![41, 0, number, class];
    body.extend_from_slice(&65_536u32.to_le_bytes());
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(&additional.to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&file);
    body
}

fn list_body(class: u8, pattern: &str, file: RawFileId) -> Vec<u8> {
    let pattern = utf16(pattern);
    let mut body = vec![33, 0, class, 0, 0, 0, 0, 0];
    body.extend_from_slice(&file);
    body.extend_from_slice(&96u16.to_le_bytes());
    body.extend_from_slice(&(pattern.len() as u16).to_le_bytes());
    body.extend_from_slice(&65_536u32.to_le_bytes());
    body.extend_from_slice(&pattern);
    body
}

fn rename_data(to: &str, replace: bool) -> Vec<u8> {
    let name = utf16(to);
    let mut data = vec![u8::from(replace), 0, 0, 0, 0, 0, 0, 0];
    data.extend_from_slice(&[0; 8]);
    data.extend_from_slice(&(name.len() as u32).to_le_bytes());
    data.extend_from_slice(&name);
    data
}

impl<'a> TraceReplay<'a> {
    fn request(&self, line: &str, is_related: bool) -> TraceRequest {
        let (asked, expected) = line.split_once(" -> ").expect("a request says what comes of it");
        let mut asked = words(asked);
        let opens = (asked.get(1).is_some_and(|word| word == "=")).then(|| asked[0].clone());
        if opens.is_some() {
            asked.drain(..2);
        }
        let mut expected = words(expected);
        let status = hex(&expected.remove(0));
        let about = opens.is_none().then(|| asked[1].clone());
        let file = match &about {
            Some(_) if is_related => RELATED,
            Some(name) => *self.opens.get(name).unwrap_or_else(|| panic!("{line}: no such open")),
            None => RELATED,
        };
        let number = |at: usize| asked[at].parse::<u64>().unwrap();
        let (command, body) = match asked[0].as_str() {
            "create" => (CREATE, create_body(&asked[1], &asked[2..])),
            "info" => (QUERY_INFO, query_info_body(&asked[2], number(3) as u8, file)),
            "set" => {
                (SET_INFO, RawSmbClient::set_info_body(file, number(2) as u8, &bytes(&asked[3..])))
            }
            "rename" => {
                let data = rename_data(&asked[2], asked.len() > 3);
                (SET_INFO, RawSmbClient::set_info_body(file, RENAME_CLASS, &data))
            }
            "read" => (READ, RawSmbClient::read_body(file, number(2), number(3) as u32)),
            "write" => (WRITE, RawSmbClient::write_body(file, number(2), asked[3].as_bytes())),
            "list" => (QUERY_DIRECTORY, list_body(number(2) as u8, &asked[3], file)),
            "watch" => {
                let filter = hex(asked[2].strip_prefix("filter=").unwrap());
                (CHANGE_NOTIFY, RawSmbClient::change_notify_body(file, filter))
            }
            "flush" => (FLUSH, RawSmbClient::flush_body(file)),
            "close" => (CLOSE, RawSmbClient::close_body(file)),
            other => panic!("{other:?} is not known: {line}"),
        };
        TraceRequest { line: line.to_owned(), command, body, opens, about, status, expected }
    }

    /// Sends one frame and checks its replies.
    fn exchange(&mut self, lines: &[&str]) {
        let requests: Vec<TraceRequest> =
            lines.iter().enumerate().map(|(at, line)| self.request(line, at > 0)).collect();
        let chain: Vec<_> = requests.iter().map(|r| (r.command, r.body.clone())).collect();
        let first_id = self.client.send_chain(&chain);
        let replies = self.replies(first_id, requests.len());
        for (request, reply) in requests.iter().zip(replies) {
            self.check(request, &reply);
        }
    }

    /// The replies to a chain, in whatever frames they come.
    fn replies(&mut self, first_id: u64, count: usize) -> Vec<RawReply> {
        let mut replies = Vec::new();
        while replies.len() < count {
            for reply in self.client.receive_chain().expect("it answers") {
                if reply.message_id >= first_id {
                    replies.push(reply);
                } else {
                    self.early.push(reply);
                }
            }
        }
        replies
    }

    fn check(&mut self, request: &TraceRequest, reply: &RawReply) {
        let line = &request.line;
        assert_eq!(reply.status, request.status, "{line}: {:#x}", reply.status);
        let data = || {
            let (offset, length) = (reply.bytes[66] as usize, u32_at(&reply.bytes, 68) as usize);
            &reply.bytes[offset..offset + length]
        };
        match request.command {
            CREATE if reply.status == SUCCESS => {
                let action = ["superseded", "opened", "created", "overwritten"]
                    [u32_at(&reply.bytes, 68) as usize];
                assert!(request.expected.first().is_none_or(|e| e == action), "{line}: {action}");
                self.opens.insert(request.opens.clone().unwrap(), reply.file_id());
            }
            READ if reply.status == SUCCESS => {
                assert_eq!(String::from_utf8_lossy(reply.data()), request.expected[0], "{line}");
            }
            QUERY_INFO if reply.status == SUCCESS => {
                assert!(data().starts_with(&bytes(&request.expected)), "{line}: {:x?}", data());
            }
            QUERY_DIRECTORY if reply.status == SUCCESS => {
                let mut names = names_of(data());
                names.sort();
                assert_eq!(names, request.expected, "{line}");
            }
            CHANGE_NOTIFY => {
                assert_eq!(reply.status, PENDING);
                self.watches.insert(request.about.clone().unwrap(), reply.message_id);
            }
            _ => {}
        }
    }

    /// The reply to a CHANGE_NOTIFY.
    fn notified(&mut self, line: &str) {
        let (asked, expected) = line.split_once(" -> ").unwrap();
        let (name, expected) = (&words(asked)[1], words(expected));
        let id = self.watches.remove(name).expect("it is watched");
        let reply = match self.early.iter().position(|reply| reply.message_id == id) {
            Some(at) => self.early.remove(at),
            None => self.client.receive().expect("it answers"),
        };
        assert_eq!((reply.message_id, reply.status), (id, hex(&expected[0])), "{line}");
        if let [_, action, path] = &expected[..] {
            let change = &reply.bytes[reply.bytes[66] as usize..];
            assert_eq!(u32_at(change, 4), hex(action), "{line}");
            let length = u32_at(change, 8) as usize;
            assert_eq!(change[12..12 + length], utf16(path), "{line}");
        }
    }

    /// Runs a line that acts on the server's disk.
    fn on_disk(&self, words: &[String]) {
        let path = self.server.data().join(&words[1]);
        match words[0].as_str() {
            "disk" => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &words[2]).unwrap();
            }
            "exists" => {
                assert!(path.exists(), "{} is not there", path.display());
                if let Some(content) = words.get(2) {
                    assert_eq!(&std::fs::read_to_string(&path).unwrap(), content);
                }
            }
            _ => assert!(!path.exists(), "{} is there", path.display()),
        }
    }
}

/// Names in a list of FileIdBothDirectoryInformation. MS-FSCC 2.4.17.
fn names_of(mut entries: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let (next, length) = (u32_at(entries, 0) as usize, u32_at(entries, 60) as usize);
        let units = entries[104..104 + length].chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]]));
        names.push(String::from_utf16(&units.collect::<Vec<_>>()).unwrap());
        if next == 0 {
            return names;
        }
        entries = &entries[next..];
    }
}

fn replay(name: &str) {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name);
    let text = std::fs::read_to_string(text).unwrap();
    let server = Setup::new().start();
    let client = RawSmbClient::ready(&server);
    let mut replay = TraceReplay {
        server: &server,
        client,
        opens: HashMap::new(),
        watches: HashMap::new(),
        early: Vec::new(),
    };
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let mut rest = &lines[..];
    while let [first, after @ ..] = rest {
        let related = after.iter().take_while(|line| line.starts_with('&')).count();
        let frame: Vec<&str> =
            rest[..=related].iter().map(|line| line.trim_start_matches("& ")).collect();
        match words(first)[0].as_str() {
            "disk" | "exists" | "missing" => replay.on_disk(&words(first)),
            "notified" => replay.notified(first),
            _ => replay.exchange(&frame),
        }
        rest = &after[related..];
    }
}

#[test]
fn explorer_opens_a_folder() {
    replay("explorer_opens_a_folder.txt");
}

#[test]
fn office_saves_a_document() {
    replay("office_saves_a_document.txt");
}

#[test]
fn robocopy_copies_a_tree() {
    replay("robocopy_copies_a_tree.txt");
}
