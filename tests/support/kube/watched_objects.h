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

// The objects of one resource with all that ever happened to them: lists in chunks and watches of
// them, and what goes wrong with either. Confined to the thread that calls it.
//
// resourceVersions are texts without an order: a comparison by size is a mistake.
class WatchedObjects final : public UnimplementedApi {
 public:
  // What a watch does when it has told everything, and what may happen on the way to it.
  enum class Fault {
    kNone,
    kEnd,       // the server ends it properly
    kSilent,    // it was taken, and nothing more comes
    kBreak,     // no answer, or the connection breaks
    kRefuse,    // 500
    kThrottle,  // 429, Retry-After 7 s
    kExpire,    // 410
    kGarble,    // what came is no event, or no list
    kTooLong,   // what comes has more bytes than are taken
  };

  // Called before each call of List ("list", "page": of a continue token) and Watch ("watch",
  // "stream": with initial events): kNone lets it be answered.
  std::function<Fault(const std::string& call)> on_call = [](auto&) { return Fault::kNone; };
  // Called before each event is sent: anything but kNone ends the watch there.
  std::function<Fault()> on_event = [] { return Fault::kNone; };
  // Called when a watch has told everything: may change the objects. kNone: watch on.
  std::function<Fault()> on_quiet = [] { return Fault::kEnd; };
  // Whether a watch with initial events is answered; otherwise it is refused before on_call, as by
  // a server that does not know of it.
  bool streams = false;
  // Whether such a watch says where they end; otherwise it sends a bookmark like any other.
  bool ends_initial_events = true;
  // How often each of the next events is sent: a server that repeats itself.
  int repeat_events = 1;
  // The next watch begins so many events before the version it was asked for: one that forgets how
  // far it was.
  size_t rewind = 0;

  struct Watched {
    std::string resource_version;  // empty: with initial events
    Seconds timeout{0};
    // What its filter makes of {"metadata":{"resourceVersion":"7","x":1},"data":1,"x":1}.
    std::string kept;
  };

  // Creates the object, or changes its `value`.
  void Put(const std::string& name, const std::string& value);
  void Remove(const std::string& name);
  // A bookmark at the newest version, on the watch that runs.
  void Bookmark() { history_.push_back({WatchEventType::kBookmark, BookmarkAt(newest())}); }
  // Versions up to the newest are forgotten: tokens and watches of older ones get 410.
  void Compact() { compacted_ = history_.size(); }

  std::string newest() const { return Version(history_.size()); }
  // As they are: name and value.
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
  // False: the consumer has had enough. `fault`: what ended it before.
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
