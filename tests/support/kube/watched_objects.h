#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "tests/support/kube/unimplemented_api.h"

namespace janus::control {

// The objects of one resource with their whole history: lists in chunks, watches, and faults of
// both. Confined to the thread that calls it.
//
// resourceVersions are texts without an order: comparing them by size is a mistake.
class WatchedObjects final : public UnimplementedApi {
 public:
  // What a watch does after it has sent everything, and the faults that may occur before.
  enum class Fault {
    kNone,
    kEnd,       // the server ends it properly
    kSilent,    // it was accepted, but sends nothing more
    kBreak,     // no answer, or the connection breaks
    kRefuse,    // 500
    kThrottle,  // 429, Retry-After 7 s
    kExpire,    // 410
    kGarble,    // the bytes are no event, or no list
    kTooLong,   // more bytes than the client accepts
  };

  // Called before each call of List ("list", "page": with a continue token) and Watch ("watch",
  // "stream": with initial events). kNone: answer it.
  std::function<Fault(const std::string& call)> on_call = [](auto&) { return Fault::kNone; };
  // Called before each event is sent; anything but kNone ends the watch there.
  std::function<Fault()> on_event = [] { return Fault::kNone; };
  // Called when a watch has sent everything: may change the objects. kNone: continue.
  std::function<Fault()> on_quiet = [] { return Fault::kEnd; };
  // Whether a watch with initial events is answered. Otherwise it is refused before on_call, like
  // by a server that does not know them.
  bool streams = false;
  // Whether such a watch marks the end of initial events; otherwise it sends a normal bookmark.
  bool ends_initial_events = true;
  // How often each of the next events is sent, like by a server that repeats itself.
  int repeat_events = 1;
  // The next watch begins so many events before the requested version, like one that has forgotten
  // its position.
  size_t rewind = 0;

  struct Watched {
    std::string resource_version;  // empty: with initial events
    Seconds timeout{0};
    // The result of its filter for {"metadata":{"resourceVersion":"7","x":1},"data":1,"x":1}.
    std::string kept;
  };

  // Creates the object, or changes its `value`.
  void Put(const std::string& name, const std::string& value);
  void Remove(const std::string& name);
  // A bookmark at the newest version, on the running watch.
  void Bookmark() { history_.push_back({WatchEventType::kBookmark, BookmarkAt(newest())}); }
  // Forgets versions up to the newest: tokens and watches of older ones get 410.
  void Compact() { compacted_ = history_.size(); }

  std::string newest() const { return Version(history_.size()); }
  // The current objects: name and value.
  std::map<std::string, std::string> values() const;
  const Node& Object(const std::string& name) const { return objects_.at(name); }

  const std::vector<ListOptions>& lists() const { return lists_; }
  const std::vector<Watched>& watches() const { return watches_; }

  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override;
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override;

  static ApiError ErrorOf(Fault fault);

 private:
  using Objects = std::map<std::string, Node>;
  struct Snapshot {
    size_t at = 0;
    Objects objects;
  };

  static std::string Version(size_t events);
  static Node BookmarkAt(const std::string& version);
  // False: the consumer has stopped. `fault`: the fault that ended it earlier.
  bool TellInitialEvents(FunctionRef<bool(WatchEvent)> deliver, const std::stop_token& stop,
                         Fault& fault);
  void Happen(WatchEventType type, Node object);

  Objects objects_;
  std::vector<WatchEvent> history_;
  size_t compacted_ = 0;
  int uids_ = 0;
  std::map<std::string, Snapshot> continued_;  // by token
  std::vector<ListOptions> lists_;
  std::vector<Watched> watches_;
};

}  // namespace janus::control
