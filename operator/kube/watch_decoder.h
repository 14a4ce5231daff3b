#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/function_ref.h"
#include "operator/kube/error.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// Turns the body of a watch, however it was cut on the way, into events: one JSON object per event,
// and a line feed after each (none stands inside, since JSON escapes it). Thread-compatible.
class WatchDecoder {
 public:
  // An event of more bytes is an error: etcd keeps objects below 1.5 MiB, JSON on the wire may
  // need more.
  static constexpr size_t kMaxEventBytes = size_t{8} << 20;

  // `keep`: what of each object, metadata.resourceVersion among it; outlives this; null: all.
  explicit WatchDecoder(const FieldFilter* keep = nullptr, size_t max_event_bytes = kMaxEventBytes)
      : keep_(keep), max_event_bytes_(max_event_bytes) {}

  // The next bytes. Hands over every event they end; kServer means: more bytes, please; kConsumer:
  // `deliver` wants no more. The server's ERROR event is an error here, as ErrorOfStatusObject
  // makes it. DataLoss: bytes that are no event; ResourceExhausted: too long an event. After an
  // error, or kConsumer, it takes no more.
  ApiResult<WatchEnd> Feed(std::string_view bytes, FunctionRef<bool(WatchEvent)> deliver);

  // Whether the stream stopped inside an event: it was cut, not ended.
  bool IsInEvent() const { return !begun_.empty(); }

 private:
  ApiResult<WatchEnd> Take(std::string_view event, FunctionRef<bool(WatchEvent)> deliver) const;

  const FieldFilter* const keep_;
  const size_t max_event_bytes_;
  std::string begun_;  // the beginning of an event
};

}  // namespace janus::control
