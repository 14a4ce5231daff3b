#include "operator/kube/watch_decoder.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "operator/api/json.h"
#include "operator/kube/protobuf_object.h"

namespace janus::control {
namespace {

std::optional<WatchEventType> TypeOf(std::string_view name) {
  if (name == "ADDED") return WatchEventType::kAdded;
  if (name == "MODIFIED") return WatchEventType::kModified;
  if (name == "DELETED") return WatchEventType::kDeleted;
  if (name == "BOOKMARK") return WatchEventType::kBookmark;
  return std::nullopt;
}

// The bookmark that says so carries it as an annotation.
bool EndsInitialEvents(const Node& bookmark) {
  return TextAt(bookmark, {"metadata", "annotations", "k8s.io/initial-events-end"}) == "true";
}

}  // namespace

ApiError WatchDecoder::Broken(std::string_view why) {
  return LocalError(DataLoss("the watch sent no event: " + std::string(why)));
}

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
    const Frame frame = FindFrame(bytes, known);
    if (frame.size > max_event_bytes_) {
      return LocalError(ResourceExhausted("the watch sent an event of more than " +
                                          std::to_string(max_event_bytes_) + " bytes"));
    }
    if (!frame.is_whole) {
      // What was joined stays where it is, so that an event in many pieces is copied once.
      if (bytes.size() == joined.size()) {
        begun_ = std::move(joined);
      } else {
        begun_ = bytes;
      }
      return WatchEnd::kServer;
    }
    ApiResult<WatchEnd> taken = Take(bytes.substr(frame.begin, frame.size), deliver);
    if (!taken.ok() || *taken == WatchEnd::kConsumer) return taken;
    bytes.remove_prefix(frame.next);
  }
}

bool WatchDecoder::IsOfObject(std::string_view type) {
  return type == "ADDED" || type == "MODIFIED" || type == "DELETED";
}

ApiResult<WatchEnd> WatchDecoder::Hand(std::string_view type, Node object,
                                       FunctionRef<bool(WatchEvent)> deliver) {
  if (type == "ERROR") return ErrorOfStatusObject(object);
  const std::optional<WatchEventType> known = TypeOf(type);
  if (!known) return Broken("of type '" + std::string(type.substr(0, 64)) + "'");
  if (ResourceVersionOf(object).empty()) return Broken("its object has no resourceVersion");
  const bool ends_initial_events = *known == WatchEventType::kBookmark && EndsInitialEvents(object);
  return deliver({*known, std::move(object), ends_initial_events}) ? WatchEnd::kServer
                                                                   : WatchEnd::kConsumer;
}

WatchDecoder::Frame JsonWatchDecoder::FindFrame(std::string_view bytes, size_t seen) const {
  const size_t end = bytes.find('\n', seen);
  if (end == bytes.npos) return {0, bytes.size(), 0, false};
  return {0, end, end + 1, true};
}

ApiResult<WatchEnd> JsonWatchDecoder::Take(std::string_view event,
                                           FunctionRef<bool(WatchEvent)> deliver) const {
  if (event.find_first_not_of(" \t\r") == event.npos) return WatchEnd::kServer;
  Result<Node> read = ParseJson(event, "event", {"object", keep_});
  // What these say lies beside what is kept of objects; they are small, and few.
  if (read.ok() && keep_ != nullptr && !IsOfObject(TextAt(*read, {"type"}))) {
    read = ParseJson(event, "event");
  }
  if (!read.ok()) return Broken(read.status().message());
  const std::string type(TextAt(*read, {"type"}));
  Node* const object = const_cast<Node*>(std::as_const(*read).Find("object"));
  if (object == nullptr || object->kind != Node::Kind::kMap) return Broken("it has no object");
  return Hand(type, std::move(*object), deliver);
}

WatchDecoder::Frame ProtobufWatchDecoder::FindFrame(std::string_view bytes, size_t /*seen*/) const {
  constexpr size_t kHead = 4;
  if (bytes.size() < kHead) return {};
  size_t size = 0;
  for (size_t i = 0; i < kHead; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
  return {kHead, size, kHead + size, bytes.size() - kHead >= size};
}

ApiResult<WatchEnd> ProtobufWatchDecoder::Take(std::string_view event,
                                               FunctionRef<bool(WatchEvent)> deliver) const {
  const Result<ProtobufWatchEvent> read = ReadProtobufWatchEvent(event);
  if (!read.ok()) return Broken(read.status().message());
  // What the others say lies beside what is kept of objects.
  Result<Node> object =
      ReadProtobufObject(read->object, "object", IsOfObject(read->type) ? keep_ : nullptr);
  if (!object.ok()) return Broken(object.status().message());
  return Hand(read->type, *std::move(object), deliver);
}

std::unique_ptr<WatchDecoder> MakeWatchDecoder(std::string_view content_type,
                                               const FieldFilter* keep) {
  if (IsProtobufMediaType(content_type)) return std::make_unique<ProtobufWatchDecoder>(keep);
  return std::make_unique<JsonWatchDecoder>(keep);
}

}  // namespace janus::control
