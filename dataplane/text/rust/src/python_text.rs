//! Python's str() and repr() of a template's values, and its `%` for strings.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::python_json::python_float;

/// str(value): how Jinja prints it.
pub fn str(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_string(),
        None => repr(value),
    }
}

/// repr(value): how a list prints its elements.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Value) {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&python_float(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => write_items(out, value),
        ValueKind::Map => write_entries(out, value),
        _ => out.push_str(&value.to_string()),
    }
}

fn write_items(out: &mut String, value: &Value) {
    out.push('[');
    for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(out, &item);
    }
    out.push(']');
}

fn write_entries(out: &mut String, value: &Value) {
    out.push('{');
    for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(out, &key);
        out.push_str(": ");
        write_repr(out, &value.get_item(&key).unwrap_or_default());
    }
    out.push('}');
}

/// Single quotes, unless the text has single quotes and no double ones.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                let _ = match code {
                    0..=0xFF => write!(out, "\\x{code:02x}"),
                    0x100..=0xFFFF => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// str.isprintable() for assigned characters: no control, format, private or space character but '
/// '.
fn is_printable(c: char) -> bool {
    let is_format = matches!(c as u32,
        0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xE0001..=0xE007F);
    let is_private = matches!(c as u32, 0xE000..=0xF8FF | 0xF0000..=0x10FFFF);
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_format || is_private)
}

/// {{ value | string }}
pub fn string(value: Value) -> String {
    str(&value)
}

/// {{ values | join(separator, attribute=name) }}
pub fn join(values: Value, separator: Option<String>, args: Kwargs) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => separator,
        None => args.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let attribute = args.get::<Option<Value>>("attribute")?;
    args.assert_all_used()?;
    let mut out = String::new();
    if values.is_undefined() || values.is_none() {
        return Ok(out);
    }
    for (i, item) in values.try_iter()?.enumerate() {
        if i > 0 {
            out.push_str(&separator);
        }
        match &attribute {
            Some(name) => out.push_str(&str(&item.get_item(name)?)),
            None => out.push_str(&str(&item)),
        }
    }
    Ok(out)
}

/// format % arguments: the source's `%` behind a string is rewritten to this (python_percent).
pub fn percent(format: String, arguments: Value) -> Result<String, Error> {
    let wrong = |what: String| Error::new(ErrorKind::InvalidOperation, format!("'%': {what}"));
    let is_map = arguments.kind() == ValueKind::Map;
    let mut rest: std::vec::IntoIter<Value> = if arguments.kind() == ValueKind::Seq {
        arguments.try_iter()?.collect::<Vec<_>>().into_iter()
    } else {
        vec![arguments.clone()].into_iter()
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut value = None;
        if chars.peek() == Some(&'(') {
            chars.next();
            let name: String = chars.by_ref().take_while(|c| *c != ')').collect();
            value = Some(arguments.get_attr(&name)?);
        }
        let mut take_while = |allowed: fn(char) -> bool| {
            let mut text = String::new();
            while let Some(c) = chars.next_if(|c| allowed(*c)) {
                text.push(c);
            }
            text
        };
        let flags = take_while(|c| "-+ 0#".contains(c));
        let width = take_while(|c| c.is_ascii_digit());
        let precision = take_while(|c| c == '.' || c.is_ascii_digit());
        let Some(kind) = chars.next() else {
            return Err(wrong("incomplete format".into()));
        };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = value.or_else(|| rest.next()) else {
            return Err(wrong("not enough arguments for format string".into()));
        };
        let text = converted(kind, &value, &flags, &precision)?;
        pad(&mut out, &text, &flags, width.parse().unwrap_or(0), kind);
    }
    if !is_map && rest.next().is_some() {
        return Err(wrong(
            "not all arguments converted during string formatting".into(),
        ));
    }
    Ok(out)
}

fn converted(kind: char, value: &Value, flags: &str, precision: &str) -> Result<String, Error> {
    let wrong = |what: String| Error::new(ErrorKind::InvalidOperation, format!("'%': {what}"));
    let places = precision.strip_prefix('.').map(|p| p.parse().unwrap_or(0usize));
    let sign = |negative: bool| match () {
        () if negative => "-",
        () if flags.contains('+') => "+",
        () if flags.contains(' ') => " ",
        () => "",
    };
    match kind {
        's' | 'r' => {
            let text = if kind == 's' { str(value) } else { repr(value) };
            Ok(match places {
                Some(most) => text.chars().take(most).collect(),
                None => text,
            })
        }
        'd' | 'i' | 'u' | 'x' | 'X' => {
            let number = match i128::try_from(value.clone()) {
                Ok(number) => number,
                Err(_) => f64::try_from(value.clone())
                    .map_err(|_| wrong(format!("%{kind} format: a real number is required")))?
                    .trunc() as i128,
            };
            let digits = number.unsigned_abs();
            Ok(match kind {
                'x' => format!("{}{digits:x}", sign(number < 0)),
                'X' => format!("{}{digits:X}", sign(number < 0)),
                _ => format!("{}{digits}", sign(number < 0)),
            })
        }
        'f' | 'F' => {
            let number = f64::try_from(value.clone())
                .map_err(|_| wrong(format!("%{kind} format: a real number is required")))?;
            Ok(format!(
                "{}{:.*}",
                sign(number.is_sign_negative()),
                places.unwrap_or(6).min(100),
                number.abs()
            ))
        }
        other => Err(wrong(format!("unsupported format character '{other}'"))),
    }
}

fn pad(out: &mut String, text: &str, flags: &str, width: usize, kind: char) {
    let missing = width.min(1000).saturating_sub(text.chars().count());
    if flags.contains('-') {
        out.push_str(text);
        out.extend(std::iter::repeat(' ').take(missing));
    } else if flags.contains('0') && kind != 's' && kind != 'r' {
        let digits = text.find(|c: char| c.is_ascii_hexdigit()).unwrap_or(0);
        out.push_str(&text[..digits]);
        out.extend(std::iter::repeat('0').take(missing));
        out.push_str(&text[digits..]);
    } else {
        out.extend(std::iter::repeat(' ').take(missing));
        out.push_str(text);
    }
}
