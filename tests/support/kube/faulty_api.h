#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"

namespace janus::control {

// What goes wrong with a call.
struct Fault {
  enum class Kind {
    kRefused,     // with http_status, and nothing is done
    kNotSent,     // no connection, nothing is done
    kReplyLost,   // done, but the connection breaks before the reply
    kNeverCame,   // not done; no reply until the caller's time is up
    kNeverReply,  // done; no reply until the caller's time is up
    // Of a watch, after `events` of them:
    kCut,      // the connection breaks
    kSilent,   // nothing more comes, until the client cuts it
    kEnds,     // the server ends it
    kExpires,  // the server says 410
  };
  Kind kind = Kind::kRefused;
  int http_status = 0;
  int events = 0;

  std::string ToString() const;
};

// Those that can befall a call, and those that can befall a watch.
const std::vector<Fault>& CallFaults();
const std::vector<Fault>& WatchFaults();

struct CallCounts {
  size_t calls = 0;
  size_t failed = 0;  // by a fault
};

// Which calls fail: those numbered [first, first + count), the first call being 0; the faults that
// a kind of call cannot have pass it by.
struct FaultPlan {
  size_t first = 0;
  size_t count = 0;
  Fault fault;
};

// Another ObjectApi, some of whose calls fail. Confined to one thread.
class FaultyApi final : public ObjectApi {
 public:
  // `under` and `timeline` outlive this.
  FaultyApi(ObjectApi& under, std::vector<FaultPlan> plans, const Timeline& timeline)
      : under_(under), plans_(std::move(plans)), timeline_(timeline) {}

  // Verb and object of every call so far: "create leases.coordination.k8s.io chat".
  const std::vector<std::string>& calls() const { return calls_; }
  CallCounts counts() const { return {calls_.size(), failed_}; }
  // From here on every call goes well, and is not counted.
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
  // Notes the call; the fault that befalls it, or null.
  const Fault* Next(std::string call, bool is_watch);
  // Does the call, or not, as its fault says.
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
