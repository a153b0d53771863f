//! Dispatch from a request's command to its handler: one match, one line a command.

use crate::commands;
use crate::request::context::{HandlerOutcome, Request};
use wire::ntstatus::NtStatus;
use wire::smb::Command;

/// Serves one request.
///
/// # Errors
/// The status of an error response without data.
pub async fn dispatch(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    match request.header.command {
        Command::READ => commands::read::read(request).await,
        Command::WRITE => commands::write::write(request).await,
        Command::CLOSE => commands::close::close(request).await,
        Command::CREATE => Box::pin(commands::create::create(request)).await,
        Command::QUERY_INFO => Box::pin(commands::query_info::query_info(request)).await,
        Command::SET_INFO => Box::pin(commands::set_info::set_info(request)).await,
        Command::QUERY_DIRECTORY => {
            Box::pin(commands::query_directory::query_directory(request)).await
        }
        Command::IOCTL => Box::pin(commands::ioctl::ioctl(request)).await,
        Command::FLUSH => commands::flush::flush(request).await,
        Command::LOCK => commands::lock::lock(request).await,
        Command::ECHO => commands::echo::echo(request),
        Command::CHANGE_NOTIFY => commands::change_notify::change_notify(request).await,
        Command::OPLOCK_BREAK => commands::oplock_break::oplock_break(request),
        Command::TREE_CONNECT => Box::pin(commands::tree_connect::tree_connect(request)).await,
        Command::TREE_DISCONNECT => {
            Box::pin(commands::tree_disconnect::tree_disconnect(request)).await
        }
        Command::LOGOFF => Box::pin(commands::logoff::logoff(request)).await,
        // The connection serves NEGOTIATE and SESSION_SETUP alone in their frame. CANCEL has no
        // response. No other command exists.
        _ => Err(NtStatus::INVALID_PARAMETER),
    }
}
