//! Chat templates: minijinja, configured to accept what Hugging Face's Jinja environment accepts.

use std::fmt::Write as _;
use std::io;

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, Output, State};

use crate::border::{fail, Failure, INVALID_ARGUMENT, RESOURCE_EXHAUSTED};
use crate::{python_json, python_percent, python_text};

const NAME: &str = "chat template";

pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    pub fn compile(source: &str) -> Result<Self, Failure> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python_formatter);
        environment.add_filter("tojson", python_json::tojson);
        environment.add_filter("string", python_text::string);
        environment.add_filter("join", python_text::join);
        environment.add_filter("python_percent", python_text::percent);
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<Value, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        // As Jinja does with every source.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = python_percent::rewrite(&without_generation_marks(&source));
        match environment.add_template_owned(NAME, source) {
            Ok(()) => Ok(Template { environment }),
            Err(e) => fail(INVALID_ARGUMENT, describe(&e)),
        }
    }

    pub fn render(
        &self,
        variables: &str,
        unix_seconds: i64,
        fuel: u64,
        max_bytes: usize,
    ) -> Result<String, Failure> {
        let variables: serde_json::Value = match serde_json::from_str(variables) {
            Ok(value) => value,
            Err(e) => return fail(INVALID_ARGUMENT, format!("template variables: {e}")),
        };
        // The copy is cheap, because compiled templates are shared. It gets this call's clock and
        // fuel.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        environment.add_function("strftime_now", move |format: String| {
            strftime(&format, unix_seconds)
        });
        let rendered = environment.get_template(NAME).and_then(|template| {
            let mut out = Bounded {
                bytes: Vec::new(),
                max_bytes,
            };
            template.render_captured_to(Value::from_serialize(&variables), &mut out)?;
            Ok(out.bytes)
        });
        match rendered {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => match e.kind() {
                ErrorKind::OutOfFuel => fail(
                    RESOURCE_EXHAUSTED,
                    format!("chat template: no end after {fuel} instructions"),
                ),
                ErrorKind::WriteFailure => fail(
                    RESOURCE_EXHAUSTED,
                    format!("chat template: its output passes {max_bytes} bytes"),
                ),
                _ => fail(INVALID_ARGUMENT, describe(&e)),
            },
        }
    }
}

struct Bounded {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max_bytes - self.bytes.len() {
            return Err(io::Error::other("output too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text of str() in Python: None, True, 1e+20, ['a'].
fn python_formatter(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    if value.as_str().is_some() || value.is_undefined() {
        return minijinja::escape_formatter(out, state, value);
    }
    Ok(out.write_str(&python_text::str(value))?)
}

/// "chat template: line 3: ...", followed by the causes.
fn describe(error: &Error) -> String {
    let mut text = String::from(NAME);
    if let Some(line) = error.line() {
        let _ = write!(text, ": line {line}");
    }
    let _ = match error.detail() {
        Some(detail) => write!(text, ": {detail}"),
        None => write!(text, ": {}", error.kind()),
    };
    let mut source = std::error::Error::source(error);
    while let Some(reason) = source {
        let _ = write!(text, ": {reason}");
        source = reason.source();
    }
    text
}

/// {% generation %} only marks the answer for training masks; a server treats it as `if true`.
fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let inner = at + 2;
        let Some(length) = rest[inner..].find("%}") else {
            break;
        };
        let tag = &rest[inner..inner + length];
        let word = tag.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        out.push_str(&rest[..inner]);
        match word {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[inner + length..];
    }
    out + rest
}

fn strftime(format: &str, unix_seconds: i64) -> Result<Value, Error> {
    let wrong =
        |what: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {what}"));
    let format = std::ffi::CString::new(format).map_err(|_| wrong("a zero byte in the format"))?;
    let seconds = unix_seconds as libc::time_t;
    let mut buffer = [0u8; 512];
    // SAFETY: both calls write only to their arguments, within the given sizes.
    let length = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut parts).is_null() {
            return Err(wrong("no such time"));
        }
        libc::strftime(
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            format.as_ptr(),
            &parts,
        )
    };
    if length == 0 && !format.as_bytes().is_empty() {
        return Err(wrong("the result is empty or passes 511 bytes"));
    }
    Ok(Value::from(
        String::from_utf8_lossy(&buffer[..length]).into_owned(),
    ))
}
