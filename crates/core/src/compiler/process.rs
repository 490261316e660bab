//! Runs a compiler: without a shell, without input, and with a time limit.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The result of a run.
pub(super) struct Done {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) report: String,
}

impl Done {
    /// How it ended, for messages.
    pub(super) fn ending(&self) -> String {
        match self.status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("exit status {}", self.status.code().unwrap_or(-1)),
        }
    }
}

/// Environment variables that would change the result.
const MEDDLING: [&str; 8] = [
    "CCC_OVERRIDE_OPTIONS",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "SOURCE_DATE_EPOCH",
    "CLANG_CONFIG_FILE_SYSTEM_DIR",
    "CLANG_CONFIG_FILE_USER_DIR",
];

/// Runs `command` in `folder`, which takes its output; `None` if it was stopped after `limit`.
pub(super) fn run(
    command: &mut Command,
    folder: &Path,
    limit: Duration,
) -> io::Result<Option<Done>> {
    let (output, report) = (folder.join("output"), folder.join("report"));
    for name in MEDDLING {
        command.env_remove(name);
    }
    // Files instead of pipes: a compiler with much output would block until it is read.
    let mut child = command
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(File::create(&report)?)
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let spent = started.elapsed();
        if spent > limit {
            // With its children. It may have ended in the meantime; that is fine.
            if let Ok(id) = i32::try_from(child.id()) {
                let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
            }
            child.wait()?;
            return Ok(None);
        }
        let pause = if spent < Duration::from_millis(500) { 1 } else { 10 };
        thread::sleep(Duration::from_millis(pause));
    };
    let text = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Some(Done { status, output: text(&output)?, report: text(&report)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::folder::Folder;

    fn shell(script: &str, limit: Duration) -> Option<Done> {
        let folder = Folder::new().unwrap();
        run(Command::new("sh").args(["-c", script]), folder.path(), limit).unwrap()
    }

    #[test]
    fn output_report_and_ending_are_the_programs_own() {
        let done = shell("cat; echo out; echo told >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!((done.output.as_str(), done.report.as_str()), ("out\n", "told\n"));
        assert_eq!(done.ending(), "exit status 3");
        let killed = shell("kill -SEGV $$", Duration::from_secs(60)).unwrap();
        assert_eq!(killed.ending(), "ended by signal 11");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_with_what_it_started() {
        let started = Instant::now();
        assert!(shell("sleep 100 & sleep 100", Duration::from_millis(50)).is_none());
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
