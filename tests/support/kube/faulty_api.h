#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"

namespace janus::control {

// A fault of a call.
struct Fault {
  enum class Kind {
    kRefused,     // with http_status, and nothing is done
    kNotSent,     // no connection, nothing is done
    kReplyLost,   // done, but the connection breaks before the reply
    kNeverCame,   // not done; no reply until the caller's time is up
    kNeverReply,  // done; no reply until the caller's time is up
    // Of a watch, after `events` events:
    kCut,      // the connection breaks
    kSilent,   // no further event, until the client cuts the watch
    kEnds,     // the server ends it
    kExpires,  // the server sends 410
  };
  Kind kind = Kind::kRefused;
  int http_status = 0;
  int events = 0;

  std::string ToString() const;
};

// The faults of calls, and those of watches.
const std::vector<Fault>& CallFaults();
const std::vector<Fault>& WatchFaults();

struct CallCounts {
  size_t calls = 0;
  size_t failed = 0;  // by a fault
};

// The calls that fail are [first, first + count), counted from 0. Faults that a kind of call cannot
// have do not affect it.
struct FaultPlan {
  size_t first = 0;
  size_t count = 0;
  Fault fault;
};

// Another ObjectApi that fails some calls. Confined to one thread.
class FaultyApi final : public ObjectApi {
 public:
  // `under` and `timeline` outlive this.
  FaultyApi(ObjectApi& under, std::vector<FaultPlan> plans, const Timeline& timeline)
      : under_(under), plans_(std::move(plans)), timeline_(timeline) {}

  // Verb and object of every call so far: "create leases.coordination.k8s.io chat".
  const std::vector<std::string>& calls() const { return calls_; }
  CallCounts counts() const { return {calls_.size(), failed_}; }
  // From here on every call succeeds, and is not counted.
  void Heal() { is_healed_ = true; }

  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override;
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override;
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override;
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override;
  ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                         const DeleteOptions& options, const CallLimits& limits) override;
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override;

 private:
  // Records the call; returns its fault, or null.
  const Fault* Next(std::string call, bool is_watch);
  // Does the call, or not, depending on its fault.
  template <class T, class Act>
  ApiResult<T> Call(std::string call, bool writes, const CallLimits& limits, const Act& act);

  ObjectApi& under_;
  const std::vector<FaultPlan> plans_;
  const Timeline& timeline_;
  std::vector<std::string> calls_;
  size_t failed_ = 0;
  bool is_healed_ = false;
};

}  // namespace janus::control
