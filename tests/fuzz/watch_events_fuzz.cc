// The bytes of a watch: cut into any pieces they give the same events, each with a resourceVersion,
// and each event can be written and read again.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "operator/api/json.h"
#include "operator/kube/watch_decoder.h"

namespace janus::control {
namespace {

constexpr size_t kMaxEventBytes = 4096;

struct Decoded {
  std::vector<std::string> events;
  Status end;
  bool is_in_event = false;
};

Decoded Decode(std::string_view text, size_t piece) {
  Decoded out;
  WatchDecoder decoder(nullptr, kMaxEventBytes);
  const auto deliver = [&](const WatchEvent& event) {
    JANUS_CHECK(!ResourceVersionOf(event.object).empty());
    const std::string written = WriteJson(event.object);
    const Result<Node> again = ParseJson(written, "again");
    JANUS_CHECK(again.ok() && *again == event.object, written);
    out.events.push_back(written);
    return true;
  };
  for (size_t at = 0; at < text.size() && out.end.ok(); at += piece) {
    out.end = decoder.Feed(text.substr(at, piece), deliver).status();
  }
  out.is_in_event = decoder.IsInEvent();
  return out;
}

}  // namespace
}  // namespace janus::control

// The first byte chooses the size of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::control;  // NOLINT
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Decoded whole = Decode(text, std::max<size_t>(text.size(), 1));
  const Decoded pieces = Decode(text, size_t{data[0]} + 1);
  JANUS_CHECK(whole.events == pieces.events, whole.events.size(), pieces.events.size());
  JANUS_CHECK(whole.end == pieces.end, whole.end.ToString(), pieces.end.ToString());
  if (whole.end.ok()) JANUS_CHECK(whole.is_in_event == pieces.is_in_event);
  return 0;
}
