//! Tickets that cannot be made or claimed.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::error::codes::{self, Code};
use crate::error::hint::TicketHint;

/// A ticket cannot be made or claimed, or the process that lent the memory is gone.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TicketError {
    /// Bytes that are not a ticket.
    #[error("these {bytes} bytes are not a ticket: {problem}")]
    Malformed {
        /// How many bytes there are.
        bytes: usize,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// The lender does not know the ticket, or knows it with other contents.
    #[error("the lender, process {lender}, never gave this ticket")]
    Forged {
        /// The lender's process id.
        lender: i32,
    },
    /// A ticket of another release.
    #[error("the ticket has version {found}, and this gpulend reads version {wanted}")]
    Version {
        /// The version of the ticket.
        found: u16,
        /// The version that is understood.
        wanted: u16,
    },
    /// The offer has ended.
    #[error(
        "the ticket has expired: its time is over, it was withdrawn, or all its claims were made"
    )]
    Expired,
    /// The process that made the ticket has ended.
    #[error("the process that made the ticket has gone, or cannot be reached from here: {problem}")]
    LenderGone {
        /// How that was found out.
        problem: Box<str>,
    },
    /// The lender ended before the work that makes the bytes valid.
    #[error("process {lender}, which lent this memory, ended before it had written the bytes")]
    LenderLost {
        /// The lender's process id.
        lender: i32,
    },
    /// A ticket of another machine.
    #[error("the ticket was made on another machine, or before this one was started again")]
    WrongMachine,
    /// The memory is on a device that this process does not see.
    #[error("the memory is on the device with UUID {wanted}; this process sees {found}")]
    DeviceNotVisible {
        /// The UUID of the memory's device.
        wanted: Box<str>,
        /// The UUIDs of the devices that are visible, in words.
        found: Box<str>,
    },
    /// No other process can open the memory.
    #[error("other processes cannot open this memory: {reason}")]
    NotShareable {
        /// Why not.
        reason: &'static str,
    },
    /// Another user's socket or folder.
    #[error("{problem}")]
    NotPermitted {
        /// Whose what.
        problem: Box<str>,
    },
    /// As many offers, claims or connections as there may be.
    #[error("the lender has {count} {what} already, and no more are allowed")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        count: usize,
    },
    /// A call of the operating system failed.
    #[error("{what} failed: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        reason: Box<str>,
    },
}

impl TicketError {
    /// Its row in the table of codes.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Malformed { .. } => codes::NOT_A_TICKET,
            Self::Forged { .. } => codes::FORGED_TICKET,
            Self::Version { .. } => codes::TICKET_VERSION,
            Self::Expired => codes::TICKET_EXPIRED,
            Self::LenderGone { .. } => codes::LENDER_GONE,
            Self::LenderLost { .. } => codes::LENDER_LOST,
            Self::WrongMachine => codes::WRONG_MACHINE,
            Self::DeviceNotVisible { .. } => codes::DEVICE_NOT_VISIBLE,
            Self::NotShareable { .. } => codes::NOT_SHAREABLE,
            Self::NotPermitted { .. } => codes::NOT_PERMITTED,
            Self::TooMany { .. } => codes::TOO_MANY_TICKETS,
            Self::System { .. } => codes::TICKET_SYSTEM,
        }
    }

    /// How to put the call right.
    #[must_use]
    pub const fn hint(&self) -> Option<TicketHint> {
        Some(match self {
            Self::Malformed { .. } | Self::Forged { .. } => TicketHint::WholeTicket,
            Self::Version { .. } => TicketHint::SameRelease,
            Self::Expired => TicketHint::NewTicket,
            Self::LenderGone { .. } => TicketHint::KeepLender,
            Self::LenderLost { .. } => TicketHint::DropLost,
            Self::WrongMachine => TicketHint::CarryBytes,
            Self::DeviceNotVisible { .. } => TicketHint::ShowDevice,
            Self::NotShareable { .. } => TicketHint::MakeShareable,
            Self::NotPermitted { .. } => TicketHint::SameUser,
            Self::TooMany { .. } => TicketHint::FewerTickets,
            Self::System { .. } => return None,
        })
    }
}
