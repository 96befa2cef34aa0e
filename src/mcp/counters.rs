//! What was seen on the wire, in numbers.

use serde::{Deserialize, Serialize};

/// Counts of one server's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that we sent.
    pub frames_out: u64,
    /// Bytes that we sent.
    pub bytes_out: u64,
    /// Well-formed frames that the server sent.
    pub frames_in: u64,
    /// Bytes that the server sent, bad ones included.
    pub bytes_in: u64,
    /// Lines that are no JSON (banners, half lines).
    pub not_json: u64,
    /// JSON that is no JSON-RPC 2.0 message.
    pub wrong_shape: u64,
    /// Replies to requests that we never sent, or a second reply to one.
    pub unknown_ids: u64,
    /// Replies that came after we had given up on them.
    pub late_replies: u64,
    /// Lines longer than the limit, thrown away unread.
    pub over_long: u64,
    /// Notifications.
    pub notifications: u64,
    /// Requests of the server: pings, which were answered.
    pub pings: u64,
    /// Requests of the server for what we don't offer, refused with "method not found".
    pub refused: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
}

impl Counters {
    /// Frames that no well-behaved server sends.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.not_json + self.wrong_shape + self.unknown_ids + self.over_long
    }
}
