#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/function_ref.h"
#include "operator/kube/error.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// Turns the body of a watch, however it was cut on the way, into events. Thread-compatible.
class WatchDecoder {
 public:
  // An event of more bytes is an error: etcd keeps objects below 1.5 MiB, JSON on the wire may
  // need more.
  static constexpr size_t kMaxEventBytes = size_t{8} << 20;

  virtual ~WatchDecoder() = default;

  // The next bytes. Hands over every event they end; kServer means: more bytes, please; kConsumer:
  // `deliver` wants no more. The server's ERROR event is an error here, as ErrorOfStatusObject
  // makes it. DataLoss: bytes that are no event; ResourceExhausted: too long an event. After an
  // error, or kConsumer, it takes no more.
  ApiResult<WatchEnd> Feed(std::string_view bytes, FunctionRef<bool(WatchEvent)> deliver);

  // Whether the stream stopped inside an event: it was cut, not ended.
  bool IsInEvent() const { return !begun_.empty(); }

 protected:
  // `keep`: what of each object, metadata.resourceVersion among it; outlives this; null: all.
  WatchDecoder(const FieldFilter* keep, size_t max_event_bytes)
      : keep_(keep), max_event_bytes_(max_event_bytes) {}

  // The first event's frame: its bytes are `size` from `begin` on, and the next one's begin at
  // `next`. Or it goes on behind `bytes`.
  struct Frame {
    size_t begin = 0;
    size_t size = 0;  // as far as known
    size_t next = 0;
    bool is_whole = false;
  };
  // `seen`: so many of `bytes` were in the call before, which found no end.
  virtual Frame FindFrame(std::string_view bytes, size_t seen) const = 0;
  virtual ApiResult<WatchEnd> Take(std::string_view event,
                                   FunctionRef<bool(WatchEvent)> deliver) const = 0;

  // An event as both formats have it.
  static bool IsOfObject(std::string_view type);
  static ApiResult<WatchEnd> Hand(std::string_view type, Node object,
                                  FunctionRef<bool(WatchEvent)> deliver);
  static ApiError Broken(std::string_view why);

  const FieldFilter* const keep_;

 private:
  const size_t max_event_bytes_;
  std::string begun_;  // the beginning of an event
};

// One JSON object per event, and a line feed after each: none stands inside, JSON escapes it.
class JsonWatchDecoder final : public WatchDecoder {
 public:
  explicit JsonWatchDecoder(const FieldFilter* keep = nullptr,
                            size_t max_event_bytes = kMaxEventBytes)
      : WatchDecoder(keep, max_event_bytes) {}

 private:
  Frame FindFrame(std::string_view bytes, size_t seen) const override;
  ApiResult<WatchEnd> Take(std::string_view event,
                           FunctionRef<bool(WatchEvent)> deliver) const override;
};

// Each event after its size, four bytes, the highest first.
class ProtobufWatchDecoder final : public WatchDecoder {
 public:
  explicit ProtobufWatchDecoder(const FieldFilter* keep = nullptr,
                                size_t max_event_bytes = kMaxEventBytes)
      : WatchDecoder(keep, max_event_bytes) {}

 private:
  Frame FindFrame(std::string_view bytes, size_t seen) const override;
  ApiResult<WatchEnd> Take(std::string_view event,
                           FunctionRef<bool(WatchEvent)> deliver) const override;
};

// The one for a body of that Content-Type.
std::unique_ptr<WatchDecoder> MakeWatchDecoder(std::string_view content_type,
                                               const FieldFilter* keep);

}  // namespace janus::control
