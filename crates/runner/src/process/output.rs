//! Output of a worker: its messages, and the last part of everything else.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    sync::mpsc::Sender,
};

use mantissa_core::Event;

use super::child::host_peak;
use crate::{
    executor::CellResult,
    message::{MemorySoFar, Message},
    progress::ProgressUpdate,
};

/// Maximum length of a message in bytes. A longer line is split and treated as output.
const MAX_MESSAGE_BYTES: u64 = 16 << 20;

/// Maximum number of bytes of a worker's output that are kept. The last part is kept, which is enough for any backtrace.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Number of lines of output that a reason quotes.
const REASON_LINES: usize = 4;

/// Output of a worker, as received by the reader threads.
pub(super) enum OutputLine {
    Message(Message),
    Other(Vec<u8>),
    /// The worker closed its standard output.
    Closed,
}

/// Messages and output of a worker up to now.
#[derive(Default)]
pub(super) struct WorkerOutput {
    pub(super) final_message: Option<CellResult>,
    pub(super) output: Tail,
    pub(super) memory: MemorySoFar,
    /// Events up to the last message.
    pub(super) events: Vec<Event>,
}

impl WorkerOutput {
    /// Reads the peak memory of a process.
    pub(super) fn poll_memory(&mut self, process: u32) {
        self.memory.host = host_peak(process).or(self.memory.host);
    }

    /// Handles a message; returns a progress update. Only the first final message counts.
    pub(super) fn handle(&mut self, line: OutputLine) -> Option<ProgressUpdate> {
        match line {
            OutputLine::Message(Message::Progress(advance)) => {
                self.memory = self.memory.and(advance.memory);
                return Some(ProgressUpdate {
                    phase: advance.phase,
                    done: advance.done,
                    total: advance.total,
                });
            }
            OutputLine::Message(Message::Happened(events)) => self.events = events,
            OutputLine::Message(Message::Finished(finished)) => {
                self.final_message.get_or_insert(CellResult::Finished(finished));
            }
            OutputLine::Message(Message::Refused(reason)) => {
                self.final_message.get_or_insert(CellResult::Refused(reason));
            }
            OutputLine::Other(line) => self.output.push(&line),
            OutputLine::Closed => {}
        }
        None
    }
}

/// Starts a thread that reads lines until the stream ends and sends each of them, and then `last`.
pub(super) fn spawn_reader<T: Send + 'static>(
    stream: Option<impl Read + Send + 'static>,
    sender: Sender<T>,
    parse_line: impl Fn(Vec<u8>) -> T + Send + 'static,
    last: Option<T>,
) -> std::io::Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let read = move || send_lines(BufReader::new(stream), &sender, parse_line, last);
    std::thread::Builder::new().spawn(read).map(drop)
}

/// Sends each line of a stream, and then `last`. Returns early if the receiver is gone, because the end of the worker has been
/// classified.
pub(super) fn send_lines<T>(
    mut lines: impl BufRead,
    sender: &Sender<T>,
    parse_line: impl Fn(Vec<u8>) -> T,
    last: Option<T>,
) {
    let mut line = vec![];
    let mut next = |line: &mut Vec<u8>| lines.by_ref().take(MAX_MESSAGE_BYTES).read_until(b'\n', line);
    while next(&mut line).is_ok_and(|bytes| bytes > 0) {
        if sender.send(parse_line(std::mem::take(&mut line))).is_err() {
            return;
        }
    }
    let _ = last.map(|last| sender.send(last));
}

pub(super) fn parse_line(line: Vec<u8>) -> OutputLine {
    serde_json::from_slice(&line).map_or(OutputLine::Other(line), OutputLine::Message)
}

/// Last part of the output of a worker without its messages.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) bytes: VecDeque<u8>,
}

impl Tail {
    pub(super) fn push(&mut self, line: &[u8]) {
        self.bytes.extend(line);
        let excess = self.bytes.len().saturating_sub(MAX_OUTPUT_BYTES);
        self.bytes.drain(..excess);
    }

    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn last_lines(&self) -> String {
        last_lines(&self.text())
    }
}

/// Joins the last non-empty lines of the output on one line.
pub(super) fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(REASON_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn output_without_line_breaks_is_read_in_parts() {
        let (sender, receiver) = mpsc::channel();
        let length = 2 * MAX_MESSAGE_BYTES + 1;
        spawn_reader(Some(std::io::repeat(b'x').take(length)), sender, parse_line, None).unwrap();
        let lengths: Vec<_> = receiver
            .into_iter()
            .map(|line| match line {
                OutputLine::Other(line) => line.len() as u64,
                _ => panic!("expected output, not a message"),
            })
            .collect();
        assert_eq!(lengths, [MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES, 1]);
    }

    #[test]
    fn the_tail_keeps_the_last_bytes_and_reports_the_last_lines() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo\n\nthree\nfour\nfive\n");
        assert_eq!(tail.last_lines(), "two; three; four; five");
        tail.push(&vec![b'x'; MAX_OUTPUT_BYTES]);
        assert_eq!(tail.bytes.len(), MAX_OUTPUT_BYTES);
    }

    #[test]
    fn lines_that_are_not_messages_count_as_output() {
        assert!(matches!(parse_line(b"hello\n".to_vec()), OutputLine::Other(_)));
        let progress = br#"{"progress":{"phase":"measure","done":1,"total":2,"memory":{}}}"#;
        assert!(matches!(
            parse_line(progress.to_vec()),
            OutputLine::Message(Message::Progress(_))
        ));
    }
}
