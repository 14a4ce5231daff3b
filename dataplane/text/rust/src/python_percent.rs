//! `'...' % arguments` in a template's source. The engine supports `%` only for numbers. So behind
//! a string literal it becomes a filter: `'...'|python_percent(arguments)`.

/// Returns the source with each such expression rewritten; text outside of tags is unchanged.
pub fn rewrite(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((at, close)) = next_tag(rest) {
        let inner = at + 2;
        let length = tag_length(&rest[inner..], close);
        out.push_str(&rest[..inner]);
        if close == "#}" {
            out.push_str(&rest[inner..inner + length]);
        } else {
            rewrite_expression(&rest[inner..inner + length], &mut out);
        }
        rest = &rest[inner + length..];
    }
    out + rest
}

fn next_tag(text: &str) -> Option<(usize, &'static str)> {
    let at = text
        .match_indices('{')
        .find(|(at, _)| matches!(text.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#')))?
        .0;
    Some(match text.as_bytes()[at + 1] {
        b'%' => (at, "%}"),
        b'{' => (at, "}}"),
        _ => (at, "#}"),
    })
}

/// Length up to the tag's end. Strings within the tag are skipped: they may look like that end.
fn tag_length(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if text.as_bytes()[i..].starts_with(close.as_bytes()) {
            return i;
        }
        i = match bytes[i] {
            b'\'' | b'"' if close != "#}" => end_of_string(bytes, i),
            _ => i + 1,
        };
    }
    bytes.len()
}

/// The index behind the closing quote of the string that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b if b == bytes[at] => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn skip_space(bytes: &[u8], mut i: usize) -> usize {
    while i < bytes.len() && bytes[i].is_ascii_whitespace() {
        i += 1;
    }
    i
}

fn rewrite_expression(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut i = 0;
    let mut copied = 0;
    while i < bytes.len() {
        if bytes[i] != b'\'' && bytes[i] != b'"' {
            i += 1;
            continue;
        }
        i = end_of_string(bytes, i).min(bytes.len());
        let percent = skip_space(bytes, i);
        if bytes.get(percent) != Some(&b'%') {
            continue;
        }
        let begin = skip_space(bytes, percent + 1);
        let end = end_of_operand(bytes, begin);
        if begin == end {
            continue;
        }
        out.push_str(&text[copied..i]);
        out.push_str("|python_percent(");
        rewrite_expression(&text[begin..end], out);
        out.push(')');
        copied = end;
        i = end;
    }
    out.push_str(&text[copied..]);
}

/// A name, number, string or bracket with what follows it directly: .attribute, (arguments),
/// [index], |filter.
fn end_of_operand(bytes: &[u8], begin: usize) -> usize {
    let mut i = begin + usize::from(matches!(bytes.get(begin), Some(b'-' | b'+')));
    while i < bytes.len() {
        i = match bytes[i] {
            b'\'' | b'"' => end_of_string(bytes, i).min(bytes.len()),
            b'(' | b'[' | b'{' => end_of_bracket(bytes, i),
            b'.' | b'|' => skip_space(bytes, i + 1),
            b if b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80 => i + 1,
            _ => break,
        };
        let next = skip_space(bytes, i);
        if matches!(bytes.get(next), Some(b'.' | b'|')) {
            i = next;
        }
    }
    i
}

fn end_of_bracket(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0usize;
    let mut i = at;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => {
                i = end_of_string(bytes, i);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}
