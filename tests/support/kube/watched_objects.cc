#include "tests/support/kube/watched_objects.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/fingerprint.h"
#include "operator/api/json.h"

namespace janus::control {

std::string WatchedObjects::Version(size_t events) {
  return Fingerprint().Mix(uint64_t{events}).Hex();
}

Node WatchedObjects::BookmarkAt(const std::string& version) {
  Node out = Node::Map();
  out.Add("kind", Node::String("ConfigMap"));
  SetAt(out, {"metadata", "resourceVersion"}, Node::String(version));
  return out;
}

void WatchedObjects::Happen(WatchEventType type, Node object) {
  SetAt(object, {"metadata", "resourceVersion"}, Node::String(Version(history_.size() + 1)));
  const std::string name = KeyOf(object).name;
  history_.push_back({type, object});
  if (type == WatchEventType::kDeleted) {
    objects_.erase(name);
  } else {
    objects_[name] = std::move(object);
  }
}

void WatchedObjects::Put(const std::string& name, const std::string& value) {
  const auto found = objects_.find(name);
  const bool is_new = found == objects_.end();
  Node object = is_new ? Node::Map() : found->second;
  if (is_new) {
    object.Add("apiVersion", Node::String("v1"));
    object.Add("kind", Node::String("ConfigMap"));
    SetAt(object, {"metadata", "name"}, Node::String(name));
    SetAt(object, {"metadata", "namespace"}, Node::String("prod"));
    SetAt(object, {"metadata", "uid"}, Node::String("uid-" + std::to_string(++uids_)));
  }
  SetAt(object, {"data", "value"}, Node::String(value));
  Happen(is_new ? WatchEventType::kAdded : WatchEventType::kModified, std::move(object));
}

void WatchedObjects::Remove(const std::string& name) {
  Happen(WatchEventType::kDeleted, objects_.at(name));
}

std::map<std::string, std::string> WatchedObjects::values() const {
  std::map<std::string, std::string> out;
  for (const auto& [name, object] : objects_) out[name] = TextAt(object, {"data", "value"});
  return out;
}

ApiError WatchedObjects::ErrorOf(Fault fault) {
  ApiError error = LocalError(Unavailable("injected"));
  switch (fault) {
    case Fault::kRefuse:
      error.http_status = 500;
      break;
    case Fault::kThrottle:
      error.code = StatusCode::kResourceExhausted;
      error.http_status = 429;
      error.retry_after = Seconds(7);
      break;
    case Fault::kExpire:
      error.code = StatusCode::kOutOfRange;
      error.http_status = 410;
      break;
    case Fault::kGarble:
      error.code = StatusCode::kDataLoss;
      break;
    case Fault::kTooLong:
      error.code = StatusCode::kResourceExhausted;
      break;
    default:
      break;
  }
  return error;
}

ApiResult<ObjectList> WatchedObjects::List(const Resource&, const ListOptions& options,
                                           const CallLimits&) {
  lists_.push_back(options);
  const bool is_first = options.continue_token.empty();
  const Fault fault = on_call(is_first ? "list" : "page");
  if (fault != Fault::kNone) return ErrorOf(fault);
  Snapshot snapshot{history_.size(), objects_};
  if (!is_first) {
    snapshot = continued_.at(options.continue_token);
    if (snapshot.at < compacted_) return ErrorOf(Fault::kExpire);
  }
  ObjectList out;
  out.resource_version = Version(snapshot.at);
  while (!snapshot.objects.empty() && static_cast<int64_t>(out.items.size()) < options.limit) {
    out.items.push_back(std::move(snapshot.objects.extract(snapshot.objects.begin()).mapped()));
  }
  if (!snapshot.objects.empty()) {
    out.continue_token = "token-" + std::to_string(continued_.size());
    continued_[out.continue_token] = std::move(snapshot);
  }
  return out;
}

bool WatchedObjects::TellInitialEvents(FunctionRef<bool(WatchEvent)> deliver,
                                       const std::stop_token& stop, Fault& fault) {
  size_t next = history_.size();
  const Objects there = objects_;
  for (const auto& [name, object] : there) {
    if (stop.stop_requested()) return true;
    fault = on_event();
    if (fault != Fault::kNone) return true;
    if (!deliver({WatchEventType::kAdded, object})) return false;
  }
  for (; next < history_.size(); ++next) {  // changes since then
    if (!deliver(history_[next])) return false;
  }
  if (stop.stop_requested()) return true;
  fault = on_event();
  if (fault != Fault::kNone) return true;
  return deliver({WatchEventType::kBookmark, BookmarkAt(newest()), ends_initial_events});
}

ApiResult<WatchEnd> WatchedObjects::Watch(const Resource&, const WatchOptions& options,
                                          FunctionRef<bool(WatchEvent)> deliver,
                                          const std::stop_token& stop) {
  if (options.initial_events && !streams) {
    ApiError refusal = LocalError(InvalidArgument("sendInitialEvents is forbidden"));
    refusal.http_status = 422;
    return refusal;
  }
  const Node sample =
      *ParseJson(R"({"metadata":{"resourceVersion":"7","x":1},"data":1,"x":1})", "sample");
  const Node kept = options.keep == nullptr ? sample : (*options.keep)(sample);
  watches_.push_back({options.resource_version, options.timeout, WriteJson(kept)});
  Fault fault = on_call(options.initial_events ? "stream" : "watch");
  size_t next = 0;  // of history_, to be sent next
  if (options.initial_events) {
    if (fault == Fault::kNone && !TellInitialEvents(deliver, stop, fault)) {
      return WatchEnd::kConsumer;
    }
    next = history_.size();
  } else {
    while (next <= history_.size() && Version(next) != options.resource_version) ++next;
  }
  JANUS_CHECK(next <= history_.size(), options.resource_version, "was never handed out");
  if (fault == Fault::kNone && next < compacted_) fault = Fault::kExpire;
  next -= std::min(std::exchange(rewind, 0), next - std::min(next, compacted_));
  while (fault == Fault::kNone) {
    if (stop.stop_requested()) return LocalError(Cancelled("stopped"));
    if (next == history_.size()) {
      fault = on_quiet();
      continue;
    }
    fault = on_event();
    if (fault != Fault::kNone) break;
    for (int i = 0; i < repeat_events; ++i) {
      if (!deliver(history_[next])) return WatchEnd::kConsumer;
    }
    ++next;
  }
  if (fault == Fault::kEnd) return WatchEnd::kServer;
  if (fault == Fault::kSilent) return WatchEnd::kSilence;
  return ErrorOf(fault);
}

}  // namespace janus::control
