//! `anabranch dashboard`.

use crate::admin::Admin;
use anyhow::{Result, bail};
use server::config::AdminAddress;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch dashboard
  ssh -L 4480:127.0.0.1:4480 server anabranch dashboard

What is printed holds the server's token: whoever has it may do everything that the admin
API can do.";

/// Arguments of `dashboard`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
}

/// Prints where the dashboard is. What follows the # is not sent over the network.
pub fn run(args: &Args) -> Result<ExitCode> {
    let address = args.admin.address()?;
    let AdminAddress::Tcp(at) = &address else {
        bail!(
            "browsers do not speak to {address}; give the admin API an address, as 127.0.0.1:4480"
        )
    };
    // Whether the server is there and takes the token.
    args.admin.ask("GET", "/v1/health", None)?;
    match args.admin.token(&address)? {
        Some(token) => outln!("http://{at}/#token={token}"),
        None => outln!("http://{at}/"),
    }
    Ok(ExitCode::SUCCESS)
}
