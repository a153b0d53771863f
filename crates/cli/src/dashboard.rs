//! `anabranch dashboard`.

use crate::admin::Admin;
use crate::output;
use anyhow::{Result, bail};
use server::config::AdminAddress;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch dashboard
  ssh -L 4480:127.0.0.1:4480 server anabranch dashboard

The printed address contains the admin token, which grants full use of the admin API.
Treat it as a password.";

/// Arguments of `dashboard`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the dashboard's address. Browsers do not send the part behind the # to the server.
pub fn run(args: &Args) -> Result<ExitCode> {
    let address = args.admin.address()?;
    let AdminAddress::Tcp(at) = &address else {
        bail!("a browser cannot open {address}; set the admin API's address, as in 127.0.0.1:4480")
    };
    // Fails early if the server does not run or rejects the token.
    args.admin.ask("GET", "/v1/health", None)?;
    let url = match args.admin.token(&address)? {
        Some(token) => format!("http://{at}/#token={token}"),
        None => format!("http://{at}/"),
    };
    if args.json {
        output::print_json(&serde_json::json!({ "url": url }))?;
    } else {
        outln!("{url}");
    }
    Ok(ExitCode::SUCCESS)
}
