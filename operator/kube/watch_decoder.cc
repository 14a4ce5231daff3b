#include "operator/kube/watch_decoder.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "operator/api/json.h"

namespace janus::control {
namespace {

std::optional<WatchEventType> TypeOf(std::string_view name) {
  if (name == "ADDED") return WatchEventType::kAdded;
  if (name == "MODIFIED") return WatchEventType::kModified;
  if (name == "DELETED") return WatchEventType::kDeleted;
  if (name == "BOOKMARK") return WatchEventType::kBookmark;
  return std::nullopt;
}

// True if the bookmark's annotation marks the end of the initial events.
bool EndsInitialEvents(const Node& bookmark) {
  return TextAt(bookmark, {"metadata", "annotations", "k8s.io/initial-events-end"}) == "true";
}

// True if the event has an object of the resource; other events have a Status, or only a version.
bool IsOfObject(std::string_view type) {
  return type == "ADDED" || type == "MODIFIED" || type == "DELETED";
}

ApiError Broken(std::string_view why) {
  return LocalError(DataLoss("the watch sent no event: " + std::string(why)));
}

}  // namespace

ApiResult<WatchEnd> WatchDecoder::Feed(std::string_view bytes,
                                       FunctionRef<bool(WatchEvent)> deliver) {
  const size_t seen = begun_.size();
  std::string joined;
  if (seen != 0) {
    begun_ += bytes;
    joined = std::exchange(begun_, std::string());
    bytes = joined;
  }
  for (size_t known = seen;; known = 0) {
    const size_t end = bytes.find('\n', known);
    const bool is_whole = end != bytes.npos;
    if ((is_whole ? end : bytes.size()) > max_event_bytes_) {
      return LocalError(ResourceExhausted("the watch sent an event of more than " +
                                          std::to_string(max_event_bytes_) + " bytes"));
    }
    if (!is_whole) {
      // Move the joined buffer, so that an event in many pieces is copied only once.
      if (bytes.size() == joined.size()) {
        begun_ = std::move(joined);
      } else {
        begun_ = bytes;
      }
      return WatchEnd::kServer;
    }
    ApiResult<WatchEnd> taken = Take(bytes.substr(0, end), deliver);
    if (!taken.ok() || *taken == WatchEnd::kConsumer) return taken;
    bytes.remove_prefix(end + 1);
  }
}

ApiResult<WatchEnd> WatchDecoder::Take(std::string_view event,
                                       FunctionRef<bool(WatchEvent)> deliver) const {
  if (event.find_first_not_of(" \t\r") == event.npos) return WatchEnd::kServer;
  Result<Node> read = ParseJson(event, "event", {"object", keep_});
  // `keep_` would drop the content of these events; they are small and rare, so parse all of it.
  if (read.ok() && keep_ != nullptr && !IsOfObject(TextAt(*read, {"type"}))) {
    read = ParseJson(event, "event");
  }
  if (!read.ok()) return Broken(read.status().message());
  const std::string type(TextAt(*read, {"type"}));
  Node* const object = const_cast<Node*>(std::as_const(*read).Find("object"));
  if (object == nullptr || object->kind != Node::Kind::kMap) return Broken("it has no object");
  if (type == "ERROR") return ErrorOfStatusObject(*object);
  const std::optional<WatchEventType> known = TypeOf(type);
  if (!known) return Broken("of type '" + type.substr(0, 64) + "'");
  if (ResourceVersionOf(*object).empty()) return Broken("its object has no resourceVersion");
  const bool ends_initial_events =
      *known == WatchEventType::kBookmark && EndsInitialEvents(*object);
  return deliver({*known, std::move(*object), ends_initial_events}) ? WatchEnd::kServer
                                                                    : WatchEnd::kConsumer;
}

}  // namespace janus::control
