//! The peers of connected sockets within this machine.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::fd::FromRawFd as _,
};

/// The name of each connected socket's peer, in the notation `socket:[4242]`: connections by TCP,
/// and pairs of local sockets. Sockets of other network namespaces may be missing.
pub fn all() -> HashMap<String, String> {
    let mut all = loopback();
    all.extend(local().unwrap_or_default());
    all
}

fn named(inode: impl std::fmt::Display) -> String {
    format!("socket:[{inode}]")
}

fn loopback() -> HashMap<String, String> {
    let mut by_ends = HashMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, remote, "01", _, _, _, _, _, inode, ..] = fields.as_slice() {
                let ends = ((*local).to_owned(), (*remote).to_owned());
                by_ends.insert(ends, named(inode));
            }
        }
    }
    let all = by_ends.iter().filter_map(|((local, remote), name)| {
        let peer = by_ends.get(&(remote.clone(), local.clone()))?;
        Some((name.clone(), peer.clone()))
    });
    all.collect()
}

/// Numbers of `linux/netlink.h`, `linux/sock_diag.h` and `linux/unix_diag.h`.
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;

/// The length of a request with its header, bytes.
const REQUEST: u32 = 40;

/// The lengths of `nlmsghdr`, `unix_diag_msg` and `rtattr`, bytes.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;

/// Pairs of local sockets, as the kernel lists them to anybody.
fn local() -> Option<HashMap<String, String>> {
    // Without waiting: the kernel answers in the same call, or not at all.
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes only numbers.
    let number = unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_SOCK_DIAG) };
    if number < 0 {
        return None;
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    let mut socket = unsafe { File::from_raw_fd(number) };
    socket.write_all(&request()).ok()?;
    let mut peers = HashMap::new();
    let mut room = vec![0; 64 << 10];
    loop {
        let read = socket.read(&mut room).ok()?;
        if !take(room.get(..read)?, &mut peers)? {
            return Some(pairs(&peers));
        }
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([AF_UNIX, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Takes the inodes of sockets and their peers from an answer. Returns whether more answers follow;
/// `None` if the kernel refuses.
fn take(mut bytes: &[u8], peers: &mut HashMap<u32, u32>) -> Option<bool> {
    while bytes.len() >= HEADER {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        match i32::from(kind) {
            libc::NLMSG_DONE => return Some(false),
            libc::NLMSG_ERROR => return None,
            _ => {}
        }
        let message = bytes.get(HEADER..length)?;
        if let Some((inode, peer)) = peer(message) {
            peers.insert(inode, peer);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(true)
}

/// The inode of a socket and that of its peer. Others may send to a socket for single messages.
fn peer(message: &[u8]) -> Option<(u32, u32)> {
    let is_connected = matches!(
        i32::from(*message.get(1)?),
        libc::SOCK_STREAM | libc::SOCK_SEQPACKET
    );
    let inode = u32::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let mut attributes = message.get(MESSAGE..)?;
    while attributes.len() >= ATTRIBUTE {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]);
        if kind == UNIX_DIAG_PEER {
            let peer = u32::from_ne_bytes(*attributes.get(ATTRIBUTE..)?.first_chunk()?);
            return (is_connected && peer != 0).then_some((inode, peer));
        }
        attributes = attributes.get(length.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
    None
}

/// The sockets that are each other's peers.
fn pairs(peers: &HashMap<u32, u32>) -> HashMap<String, String> {
    let mutual = |(inode, peer): &(&u32, &u32)| peers.get(*peer) == Some(*inode);
    let all = peers.iter().filter(mutual);
    all.map(|(inode, peer)| (named(inode), named(peer)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::{
        fd::AsRawFd as _,
        unix::net::{UnixDatagram, UnixStream},
    };

    use super::*;

    fn name(number: i32) -> String {
        let link = fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
        link.to_str().unwrap().to_owned()
    }

    #[test]
    fn local_sockets_have_peers() {
        let Some(all) = local() else {
            return;
        };
        let (one, other) = UnixStream::pair().unwrap();
        let names = [one.as_raw_fd(), other.as_raw_fd()].map(name);
        assert!(!all.contains_key(&names[0]), "it was not there yet");
        let all = super::all();
        assert_eq!(all.get(&names[0]), Some(&names[1]));
        assert_eq!(all.get(&names[1]), Some(&names[0]));
        // Anybody may send to such a socket.
        let (single, _other) = UnixDatagram::pair().unwrap();
        assert_eq!(super::all().get(&name(single.as_raw_fd())), None);
    }

    #[test]
    fn answers_that_make_no_sense_are_left_out() {
        let mut peers = HashMap::new();
        assert_eq!(take(&[], &mut peers), Some(true));
        assert_eq!(take(&[0xff; HEADER], &mut peers), None);
        assert_eq!(peer(&[1, 1, 0, 0]), None);
        assert_eq!(peer(&[1; MESSAGE]), None);
        let mut message = vec![1, 1, 0, 0, 7, 0, 0, 0];
        message.extend([0; 8]);
        message.extend([8, 0, 2, 0, 9, 0, 0, 0]);
        assert_eq!(peer(&message), Some((7, 9)));
        // An attribute without a length must not be read for ever.
        message.splice(MESSAGE.., [0, 0, 9, 0, 0, 0, 9, 0]);
        assert_eq!(peer(&message), None);
        let both = pairs(&HashMap::from([(1, 2), (2, 1), (3, 1)]));
        assert_eq!(both.len(), 2);
    }
}
