//! The C border: buffers, status codes, and the wall that stops panics.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// An error for the other side; the codes are those of common/status.h.
pub struct Failure {
    pub code: i32,
    pub message: String,
}

pub const INVALID_ARGUMENT: i32 = 3;
pub const NOT_FOUND: i32 = 5;
pub const RESOURCE_EXHAUSTED: i32 = 8;
pub const INTERNAL: i32 = 13;

pub fn fail<T>(code: i32, message: impl ToString) -> Result<T, Failure> {
    Err(Failure {
        code,
        message: message.to_string(),
    })
}

/// A `Vec<T>` that was handed out; `free` takes it back.
#[repr(C)]
pub struct Buffer<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

pub type Text = Buffer<u8>;
pub type Ids = Buffer<u32>;

impl<T> Buffer<T> {
    pub fn give(values: Vec<T>) -> Self {
        let mut values = std::mem::ManuallyDrop::new(values);
        Buffer {
            data: values.as_mut_ptr(),
            size: values.len(),
            capacity: values.capacity(),
        }
    }

    /// # Safety
    /// `self` comes from `give` and is freed once, or is zeroed.
    pub unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Vec::from_raw_parts(self.data, self.size, self.capacity));
        }
    }
}

/// # Safety
/// `data` points to `size` values that outlive the call, or `size` is 0.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// # Safety
/// As for `slice`.
pub unsafe fn text<'a>(data: *const u8, size: usize) -> Result<&'a str, Failure> {
    std::str::from_utf8(slice(data, size)).or_else(|e| {
        fail(
            INVALID_ARGUMENT,
            format!("text is not UTF-8: byte {} is invalid", e.valid_up_to()),
        )
    })
}

/// Runs `body`; its result goes to `out`, its failure or panic to `error`.
///
/// # Safety
/// `out` and `error` must be writable; their old content is not freed.
pub unsafe fn guarded<T>(
    out: *mut T,
    error: *mut Text,
    body: impl FnOnce() -> Result<T, Failure>,
) -> i32 {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            out.write(value);
            return 0;
        }
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(|s| s.to_string())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "unknown".into());
            Failure {
                code: INTERNAL,
                message: format!("panic in the text library: {what}"),
            }
        }
    };
    error.write(Buffer::give(failure.message.into_bytes()));
    failure.code
}
