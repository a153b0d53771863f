//! Connection options, and the kinds of connections that are compared.

use crate::session::{EncryptArg, SessionArgs, SignArg};
use clap::ValueEnum;
use client::SmbOptions;
use std::net::SocketAddr;

/// Kinds of connections that are compared in one call.
const ARMS_MAX: usize = 32;

/// Arguments about the connection. Of those with several values all are compared, in turns.
#[derive(Debug, clap::Args)]
pub struct BenchConnectionArgs {
    /// Channels of an SMB session, at most as many as the server's interfaces support; several
    /// numbers, as in 1,4, are compared [default: 4]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    channels: Vec<usize>,
    /// Connections of an NFS session; several numbers are compared [default: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    nconnect: Vec<usize>,
    /// Version of NFS
    #[arg(long, value_name = "VERSION", default_value = "4.1")]
    nfs_version: NfsVersionArg,
    #[command(flatten)]
    session: SessionArgs,
    /// Signing; "off" still signs if the server requires it; several are compared
    #[arg(long, value_name = "HOW", default_value = "off", value_delimiter = ',')]
    sign: Vec<SignArg>,
    /// Encryption; "off" still encrypts if the server requires it; several are compared
    #[arg(long, value_name = "HOW", default_value = "off", value_delimiter = ',')]
    encrypt: Vec<EncryptArg>,
    /// Metadata cache of an Anabranch server: switched by its admin API before each load, and
    /// restored at the end; on,off compares both
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    metadata_cache: Vec<SwitchArg>,
    /// Address of the Anabranch server's admin API, for --metadata-cache
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4480")]
    server_admin: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SwitchArg {
    On,
    Off,
}

/// One kind of connection.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The settings that differ from the other kinds; empty if there is one kind.
    pub label: String,
    /// Options of SMB.
    pub options: SmbOptions,
    /// Connections of NFS, and the minor version.
    pub nconnect: usize,
    /// See [`Arm::nconnect`].
    pub minor_version: u32,
    /// Whether the server's metadata cache is switched on or off for it.
    pub metadata_cache: Option<bool>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum NfsVersionArg {
    #[value(name = "4.1")]
    Nfs41,
    #[value(name = "4.2")]
    Nfs42,
}

impl BenchConnectionArgs {
    /// All kinds that are asked for, in the order of the arguments; `by_default` are the numbers
    /// of connections if none is named.
    pub fn arms(&self, is_nfs: bool, by_default: Option<&[usize]>) -> Result<Vec<Arm>, String> {
        let named = if is_nfs { &self.nconnect } else { &self.channels };
        let fallback = by_default.unwrap_or(if is_nfs { &[1] } else { &[4] });
        let numbers = if named.is_empty() { fallback } else { named };
        let what = if is_nfs { "nconnect" } else { "channels" };
        let caches: Vec<Option<SwitchArg>> = match &self.metadata_cache[..] {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        let mut arms = Vec::new();
        for number in numbers {
            for sign in &self.sign {
                for encrypt in &self.encrypt {
                    for cache in &caches {
                        let mut parts = Vec::new();
                        if numbers.len() > 1 {
                            parts.push(format!("{what} {number}"));
                        }
                        if self.sign.len() > 1 {
                            parts.push(format!("sign {}", name_of(sign)));
                        }
                        if self.encrypt.len() > 1 {
                            parts.push(format!("encrypt {}", name_of(encrypt)));
                        }
                        if let (Some(cache), true) = (cache, caches.len() > 1) {
                            parts.push(format!("cache {}", name_of(cache)));
                        }
                        arms.push(Arm {
                            label: parts.join(", "),
                            options: self.session.options(*number, *sign, *encrypt),
                            nconnect: *number,
                            minor_version: self.minor_version(),
                            metadata_cache: cache.map(|cache| cache == SwitchArg::On),
                        });
                    }
                }
            }
        }
        if is_nfs && self.sign.len().max(self.encrypt.len()) > 1 {
            return Err("NFS has no signing or encryption to compare".into());
        }
        if arms.len() > ARMS_MAX {
            return Err(format!("at most {ARMS_MAX} kinds of connections are compared"));
        }
        Ok(arms)
    }

    /// Address of the Anabranch server's admin API.
    pub fn server_admin(&self) -> SocketAddr {
        self.server_admin
    }

    fn minor_version(&self) -> u32 {
        match self.nfs_version {
            NfsVersionArg::Nfs41 => 1,
            NfsVersionArg::Nfs42 => 2,
        }
    }
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct BenchCommandLine {
        #[command(flatten)]
        connection: BenchConnectionArgs,
    }

    fn labels(line: &str, is_nfs: bool) -> Vec<String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let line = BenchCommandLine::try_parse_from(words).expect("it is one");
        let arms = line.connection.arms(is_nfs, None).expect("it fits");
        arms.into_iter().map(|arm| arm.label).collect()
    }

    #[test]
    fn connection_kinds_combine_options_and_label_differences() {
        assert_eq!(labels("", false), [""]);
        assert_eq!(labels("--channels 1,4", false), ["channels 1", "channels 4"]);
        assert_eq!(labels("--nconnect 1,4,16", true).len(), 3);
        assert_eq!(
            labels("--sign off,gmac,cmac --encrypt off,gcm", false)[2],
            "sign gmac, encrypt off"
        );
        assert_eq!(labels("--metadata-cache on,off", true), ["cache on", "cache off"]);
        assert_eq!(labels("--metadata-cache off", false), [""]);
        assert_eq!(labels("--channels 2 --sign off,gmac,cmac --encrypt off,gcm", false).len(), 6);
    }
}
