#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dataplane/gateway/answers/event.h"
#include "dataplane/gateway/answers/response.h"
#include "dataplane/gateway/request_error.h"

namespace janus::gateway {

// Writes the answer to one call in the form of its API: as a stream of events, or as one body. It
// receives what each step adds, and keeps what later events or the body repeat. No I/O.
// Thread-compatible.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Of a stream: the events before the first part of an answer. The second call returns nothing.
  virtual std::string Begin(const Usage& /*so_far*/) { return {}; }
  // Takes what a step adds to a choice; its last part has a `finish`. Of a stream: returns the
  // bytes to send now, with those of Begin if it was not called; perhaps none.
  virtual std::string Add(ResponseChoice part, const Usage& so_far) = 0;
  // All choices have finished. Returns the last bytes of the stream, or the body.
  virtual std::string End(const Usage& usage) = 0;
  // Returns the last bytes of a stream that an error ends.
  virtual std::string Fail(const RequestError& error) = 0;
  // Of a stream: bytes that clients skip, for a time without a token.
  virtual std::string_view SignOfLife() const { return kStreamComment; }
  // Whether it keeps the text of an answer that it streams.
  virtual bool keeps_stream() const { return false; }
};

// `tokenizer` must outlive it.
std::unique_ptr<AnswerWriter> NewAnswerWriter(ResponseHead head, const text::Tokenizer& tokenizer);

}  // namespace janus::gateway
