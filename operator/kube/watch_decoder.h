#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/function_ref.h"
#include "operator/kube/error.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// Turns the body of a watch, received in pieces of any size, into events. Each event is one JSON
// object and a line feed; JSON escapes line feeds inside. Thread-compatible.
class WatchDecoder {
 public:
  // A longer event is an error. etcd keeps objects below 1.5 MiB; their JSON may be larger.
  static constexpr size_t kMaxEventBytes = size_t{8} << 20;

  // `keep`: the fields to parse, including metadata.resourceVersion; outlives this; null: all.
  explicit WatchDecoder(const FieldFilter* keep = nullptr, size_t max_event_bytes = kMaxEventBytes)
      : keep_(keep), max_event_bytes_(max_event_bytes) {}

  // Adds bytes and delivers every event that they complete. kServer: it needs more bytes.
  // kConsumer: `deliver` returned false. The server's ERROR event becomes an error
  // (ErrorOfStatusObject). DataLoss: not an event; ResourceExhausted: an event is too long. Do not
  // call it again after an error or kConsumer.
  ApiResult<WatchEnd> Feed(std::string_view bytes, FunctionRef<bool(WatchEvent)> deliver);

  // True if the stream stopped inside an event, so the connection was cut.
  bool IsInEvent() const { return !begun_.empty(); }

 private:
  ApiResult<WatchEnd> Take(std::string_view event, FunctionRef<bool(WatchEvent)> deliver) const;

  const FieldFilter* const keep_;
  const size_t max_event_bytes_;
  std::string begun_;  // the incomplete event so far
};

}  // namespace janus::control
