#include "operator/kube/watch_decoder.h"

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

bool IsOfObject(std::string_view type) {
  return type == "ADDED" || type == "MODIFIED" || type == "DELETED";
}

// The bookmark that says so carries it as an annotation.
bool EndsInitialEvents(const Node& bookmark) {
  return TextAt(bookmark, {"metadata", "annotations", "k8s.io/initial-events-end"}) == "true";
}

ApiError Broken(std::string what) {
  return LocalError(DataLoss("the watch sent no event: " + std::move(what)));
}

}  // namespace

ApiResult<WatchEnd> WatchDecoder::Feed(std::string_view bytes,
                                       FunctionRef<bool(WatchEvent)> deliver) {
  for (;;) {
    const size_t end = bytes.find('\n');
    const size_t taken = end == bytes.npos ? bytes.size() : end;
    if (line_.size() + taken > max_event_bytes_) {
      return LocalError(ResourceExhausted("the watch sent an event of more than " +
                                          std::to_string(max_event_bytes_) + " bytes"));
    }
    if (end == bytes.npos) {
      line_ += bytes;
      return WatchEnd::kServer;
    }
    std::string_view line = bytes.substr(0, end);
    std::string joined;
    if (!line_.empty()) {
      joined = std::exchange(line_, std::string());
      joined += line;
      line = joined;
    }
    bytes.remove_prefix(end + 1);
    ApiResult<WatchEnd> taken_line = Take(line, deliver);
    if (!taken_line.ok() || *taken_line == WatchEnd::kConsumer) return taken_line;
  }
}

ApiResult<WatchEnd> WatchDecoder::Take(std::string_view line,
                                       FunctionRef<bool(WatchEvent)> deliver) {
  if (line.find_first_not_of(" \t\r") == line.npos) return WatchEnd::kServer;
  Result<Node> read = ParseJson(line, "event", {"object", keep_});
  // What these say lies beside what is kept of objects; they are small, and few.
  if (read.ok() && keep_ != nullptr && !IsOfObject(TextAt(*read, {"type"}))) {
    read = ParseJson(line, "event");
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
