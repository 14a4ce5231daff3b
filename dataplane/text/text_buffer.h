#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "dataplane/text/abi.h"

// Owners of buffers from the Rust side; private to this folder.
namespace janus::text {

class TextBuffer {
 public:
  TextBuffer() = default;
  ~TextBuffer() { janus_text_free(text_); }
  TextBuffer(const TextBuffer&) = delete;
  TextBuffer& operator=(const TextBuffer&) = delete;

  JanusText* out() { return &text_; }
  std::string_view view() const {
    return text_.size == 0
               ? std::string_view()
               : std::string_view(reinterpret_cast<const char*>(text_.data), text_.size);
  }
  std::string str() const { return std::string(view()); }

 private:
  JanusText text_{};
};

inline const uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// The status of a call with this result code and `error`.
inline Status ToStatus(int32_t code, const TextBuffer& error) {
  return code == 0 ? OkStatus() : Status(static_cast<StatusCode>(code), error.str());
}

}  // namespace janus::text
