//! Sockets between processes of one user: whole messages, with file descriptors.
//!
//! `SOCK_SEQPACKET` keeps the borders of messages, says when the other side has gone, and carries descriptors. No call here waits,
//! except [`wait`], which has a limit.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag,
    SockType, UnixAddr, bind, connect, getsockopt, listen, recvmsg, sendmsg, shutdown, socket,
};
use nix::unistd::Uid;

use crate::error::{Error, TicketError};
use crate::ticket::folder::{self, failed};
use crate::ticket::source::MOST_MAPPINGS;

/// The most bytes of a message.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// The most descriptors of a message.
const MOST_DESCRIPTORS: usize = MOST_MAPPINGS + 3;
/// How many descriptors the kernel lets a process send at once. There is room for all: nobody could close those that are cut off.
const MOST_SENT: usize = 253;
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 256;
/// How long to wait before a full queue of connections is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// A message that came.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

fn new_socket() -> Result<OwnedFd, Error> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
    made.map_err(|error| failed("making a socket", &error))
}

fn address(path: &Path) -> Result<UnixAddr, Error> {
    UnixAddr::new(path).map_err(|error| failed("naming a socket", &error))
}

/// Listens as a lender. The file appears under its name when somebody listens: one on which nobody does would be taken for a dead
/// lender's.
pub(super) fn listen_as(lender: &[u8; 16]) -> Result<(UnixListener, PathBuf), Error> {
    let (first, path) = (folder::unfinished_path_of(lender)?, folder::path_of(lender)?);
    let socket = new_socket()?;
    let name = address(&first)?;
    bind(socket.as_raw_fd(), &name).map_err(|error| failed("binding a socket", &error))?;
    let listening = Backlog::new(BACKLOG).and_then(|backlog| listen(&socket, backlog));
    let named = listening.map_err(io::Error::from).and_then(|()| fs::rename(&first, &path));
    if let Err(error) = named {
        let _ = fs::remove_file(&first);
        return Err(failed("listening on a socket", &error));
    }
    Ok((UnixListener::from(socket), path))
}

/// Connects to a lender. `None` if nobody listens there.
pub(super) fn connect_to(path: &Path, deadline: Instant) -> Result<Option<OwnedFd>, Error> {
    let name = address(path)?;
    loop {
        let socket = new_socket()?;
        match connect(socket.as_raw_fd(), &name) {
            Ok(()) => return Ok(Some(socket)),
            Err(Errno::ECONNREFUSED | Errno::ENOENT) => return Ok(None),
            // More connections wait than may.
            Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(failed("connecting to the lender", &error)),
        }
    }
}

/// Whether a file is a socket on which nobody listens.
pub(super) fn is_dead(path: &Path) -> bool {
    let tried = new_socket().and_then(|socket| Ok((socket, address(path)?)));
    tried.is_ok_and(|(socket, name)| connect(socket.as_raw_fd(), &name) == Err(Errno::ECONNREFUSED))
}

/// The process at the other end: its id, and a descriptor that becomes readable when it ends; none if it has ended. Processes of other users are refused.
pub(super) fn peer(socket: &impl AsFd) -> Result<(i32, Option<OwnedFd>), Error> {
    let found = getsockopt(socket, PeerCredentials);
    let found = found.map_err(|error| failed("asking who is at the other end", &error))?;
    if found.uid() != Uid::effective().as_raw() {
        let (pid, user) = (found.pid(), found.uid());
        let problem = format!("process {pid} belongs to another user, with id {user}");
        return Err(TicketError::NotPermitted { problem: problem.into() }.into());
    }
    let watched = match getsockopt(socket, PeerPidfd) {
        Err(Errno::ENOPROTOOPT) => open_process(found.pid()),
        found => found,
    };
    match watched {
        Ok(watched) => Ok((found.pid(), Some(watched))),
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => Ok((found.pid(), None)),
        // Without it nobody would know when the process has let go of memory.
        Err(error) => Err(failed("watching the process at the other end", &error)),
    }
}

/// For a kernel that does not give the descriptor of a peer: before Linux 6.5.
fn open_process(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes two numbers, and gives a new descriptor or an error.
    let found = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    own(RawFd::try_from(found).unwrap_or(-1)).ok_or_else(Errno::last)
}

/// Takes over a descriptor that the kernel has just made for us.
fn own(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: it is new, so nobody else closes it.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Ends a connection whose socket is kept.
pub(super) fn shut(socket: &impl AsFd) {
    // Fails if the other side was faster.
    let _ = shutdown(socket.as_fd().as_raw_fd(), Shutdown::Both);
}

/// Sends a message. False if the other side's queue is full.
pub(super) fn send(
    socket: &impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<bool, Errno> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let extra = if raw.is_empty() { &[][..] } else { &rights };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let socket = socket.as_fd().as_raw_fd();
    loop {
        match sendmsg::<UnixAddr>(socket, &[IoSlice::new(bytes)], extra, flags, None) {
            Ok(_) => return Ok(true),
            Err(Errno::EAGAIN) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives a message, if one has come. An empty one says that the other side has closed.
pub(super) fn receive(socket: &impl AsFd, room: &mut [u8]) -> Result<Option<Message>, Errno> {
    let mut extra = cmsg_space!([RawFd; MOST_SENT]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let socket = socket.as_fd().as_raw_fd();
    loop {
        let mut slices = [IoSliceMut::new(room)];
        let came = match recvmsg::<UnixAddr>(socket, &mut slices, Some(&mut extra), flags) {
            Ok(came) => came,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error),
        };
        let cut = came.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
        let bytes = came.bytes;
        // Taken over first: what is refused is closed.
        let mut descriptors = Vec::new();
        for one in came.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmRights(raw) = one {
                descriptors.extend(raw.into_iter().filter_map(own));
            }
        }
        if cut || descriptors.len() > MOST_DESCRIPTORS {
            return Err(Errno::EMSGSIZE);
        }
        return Ok(Some(Message { bytes: room[..bytes].to_vec(), descriptors }));
    }
}

/// Whether a descriptor can be read now.
pub(super) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut places = [PollFd::new(descriptor, PollFlags::POLLIN)];
    poll(&mut places, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// Waits until one of the descriptors can be read, or is closed at the other side. Returns which.
pub(super) fn wait<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    deadline: Instant,
) -> [bool; N] {
    loop {
        let mut places = descriptors.map(|one| PollFd::new(one, PollFlags::POLLIN));
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so that the last millisecond is not spent without a pause.
        let limit = left.as_millis().saturating_add(1);
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let ended = match poll(&mut places, limit) {
            Err(Errno::EINTR) => left.is_zero(),
            _ => true,
        };
        if ended {
            return places.map(|place| place.any() == Some(true));
        }
    }
}
