// What comes out of a watch in protobuf: however it is cut into pieces the same events are handed
// over, each with a resourceVersion, each can be written as JSON and read again, and what a filter
// keeps of each is what it would keep of the whole.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "operator/kube/watch_decoder.h"

namespace janus::control {
namespace {

constexpr size_t kMaxEventBytes = size_t{64} << 10;

struct Decoded {
  std::vector<std::string> events;
  Status end;
  bool is_in_event = false;
};

// Trees of more values than the reader of JSON takes, or deeper, are not to be had from so few
// bytes.
Decoded Decode(std::string_view bytes, size_t piece, const FieldFilter& filter, bool is_kept_here) {
  Decoded out;
  ProtobufWatchDecoder decoder(is_kept_here ? nullptr : &filter, kMaxEventBytes);
  const auto deliver = [&](const WatchEvent& event) {
    JANUS_CHECK(!ResourceVersionOf(event.object).empty());
    const std::string written = WriteJson(event.object);
    const Result<Node> again = ParseJson(written, "again");
    JANUS_CHECK(again.ok() && *again == event.object, written);
    const bool is_all = event.type == WatchEventType::kBookmark;
    out.events.push_back(is_all || !is_kept_here ? written : WriteJson(filter(event.object)));
    return true;
  };
  for (size_t at = 0; at < bytes.size() && out.end.ok(); at += piece) {
    out.end = decoder.Feed(bytes.substr(at, piece), deliver).status();
  }
  out.is_in_event = decoder.IsInEvent();
  return out;
}

}  // namespace
}  // namespace janus::control

// The first byte says into pieces of how many bytes the rest is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::control;  // NOLINT
  if (size == 0) return 0;
  static const FieldFilter kFilter({"metadata.resourceVersion", "metadata.labels", "spec.nodeName",
                                    "spec.volumes.emptyDir", "status.conditions.type", "data"});
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t all = std::max<size_t>(bytes.size(), 1);
  const Decoded whole = Decode(bytes, all, kFilter, true);
  const Decoded pieces = Decode(bytes, size_t{data[0]} + 1, kFilter, true);
  JANUS_CHECK(whole.events == pieces.events, whole.events.size(), pieces.events.size());
  JANUS_CHECK(whole.end == pieces.end, whole.end.ToString(), pieces.end.ToString());
  if (whole.end.ok()) JANUS_CHECK(whole.is_in_event == pieces.is_in_event);
  // What is not kept is not judged: of a broken one more may be read.
  const Decoded kept = Decode(bytes, all, kFilter, false);
  JANUS_CHECK(kept.events.size() >= whole.events.size());
  for (size_t i = 0; i < whole.events.size(); ++i) {
    JANUS_CHECK(kept.events[i] == whole.events[i], kept.events[i], whole.events[i]);
  }
  return 0;
}
