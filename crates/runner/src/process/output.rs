//! Output of a worker: its messages, and the last part of everything else.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    process::Child,
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
const LONGEST_MESSAGE: u64 = 16 << 20;

/// Maximum size of the output that is kept of a worker, in bytes: its last part, which is enough for any backtrace.
const KEPT_OUTPUT: usize = 1 << 20;

/// Number of lines of output in a reason.
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
    pub(super) fn poll_memory(&mut self, worker: &Child) {
        self.memory.host = host_peak(worker).or(self.memory.host);
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

/// Reads lines on a thread until the stream ends, and then sends `last`.
pub(super) fn listen(
    stream: Option<impl Read + Send + 'static>,
    sender: Sender<OutputLine>,
    parse: fn(Vec<u8>) -> OutputLine,
    last: Option<OutputLine>,
) -> std::io::Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let read = move || {
        let mut lines = BufReader::new(stream);
        let mut line = vec![];
        let mut next = |line: &mut Vec<u8>| lines.by_ref().take(LONGEST_MESSAGE).read_until(b'\n', line);
        while next(&mut line).is_ok_and(|bytes| bytes > 0) {
            if sender.send(parse(std::mem::take(&mut line))).is_err() {
                return;
            }
        }
        // The receiver is gone once the worker is classified.
        let _ = last.map(|last| sender.send(last));
    };
    std::thread::Builder::new().spawn(read).map(drop)
}

pub(super) fn parse(line: Vec<u8>) -> OutputLine {
    serde_json::from_slice(&line).map_or(OutputLine::Other(line), OutputLine::Message)
}

/// Last part of the output of a worker without its messages.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) bytes: VecDeque<u8>,
}

impl Tail {
    fn push(&mut self, line: &[u8]) {
        self.bytes.extend(line);
        let excess = self.bytes.len().saturating_sub(KEPT_OUTPUT);
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

/// Returns the last lines of the output as a reason.
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
    fn output_without_a_line_end_is_read_in_parts() {
        let (sender, receiver) = mpsc::channel();
        let length = 2 * LONGEST_MESSAGE + 1;
        listen(Some(std::io::repeat(b'x').take(length)), sender, parse, None).unwrap();
        let lengths: Vec<_> = receiver
            .into_iter()
            .map(|line| match line {
                OutputLine::Other(line) => line.len() as u64,
                _ => panic!("expected output, not a message"),
            })
            .collect();
        assert_eq!(lengths, [LONGEST_MESSAGE, LONGEST_MESSAGE, 1]);
    }

    #[test]
    fn the_reason_is_the_last_lines_and_the_file_keeps_the_end_of_everything() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo\n\nthree\nfour\nfive\n");
        assert_eq!(tail.last_lines(), "two; three; four; five");
        tail.push(&vec![b'x'; KEPT_OUTPUT]);
        assert_eq!(tail.bytes.len(), KEPT_OUTPUT);
    }

    #[test]
    fn a_line_that_is_no_message_is_noise() {
        assert!(matches!(parse(b"hello\n".to_vec()), OutputLine::Other(_)));
        let progress = br#"{"progress":{"phase":"measure","done":1,"total":2,"memory":{}}}"#;
        assert!(matches!(
            parse(progress.to_vec()),
            OutputLine::Message(Message::Progress(_))
        ));
    }
}
