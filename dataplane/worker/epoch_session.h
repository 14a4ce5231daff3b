#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "common/control.h"
#include "common/log.h"
#include "common/mutex.h"
#include "dataplane/comm/handshake/exchange_listener.h"
#include "dataplane/comm/transport/device_slots.h"
#include "dataplane/model/load_weights.h"
#include "dataplane/weights/place_weights.h"
#include "dataplane/worker/instance_state.h"
#include "dataplane/worker/link_book.h"
#include "dataplane/worker/load_pacer.h"
#include "dataplane/worker/settings.h"
#include "kernels/team.h"

namespace janus::dataplane {

struct EpochRequest {
  Topology topology;
  v1::WorkerConfig config;
  std::string epoch_key;  // 16 bytes
};

// The rank of this worker. InvalidArgument: the topology does not list it.
Result<Rank> FindSelf(const WorkerFlags& flags, const Topology& topology);

// InvalidArgument: the key is wrong, the epoch differs from the stamp's, or this worker is not
// listed.
Status CheckEpoch(const WorkerFlags& flags, const Stamp& stamp, const EpochRequest& request);

// The weights of an expert instance: as the host has them, and as the device reads them.
struct ExpertsHere {
  Loaded<ExpertWeights> loaded;
  Placed<ExpertWeights> placed;
};

// One epoch at one worker (docs/design/007). It is made while another runs, then started once.
// Start, Stop and the destructor belong to one thread at a time; statistics is thread-safe.
class EpochSession {
 public:
  // What serves while an epoch is prepared.
  struct Serving {
    const ExpertsHere* experts = nullptr;  // tensors that may be shared; null: none
    std::function<LoadPacer::Busy()> busy = [] { return LoadPacer::Busy(); };  // its counters
  };
  // Connects to the peers, and measures the links to nodes that `links` does not know; blocks.
  // `state` and `listener` outlive it. `progress` is called from
  // this thread; false gives up. Experts are read at a pace that leaves the serving epoch its
  // speed.
  static Result<std::unique_ptr<EpochSession>> Build(
      const WorkerFlags& flags, const InstanceState& state, const EpochRequest& request,
      ExchangeListener& listener, LinkBook& links, const Serving& serving, const Clock& clock,
      const Logger& log, const std::function<bool(const PrepareProgress&)>& progress,
      std::stop_source stop);
  ~EpochSession() { Stop(); }

  const Topology& topology() const { return topology_; }
  Rank rank() const { return rank_; }
  const WaitPolicy& policy() const { return policy_; }
  // Null at attention instances.
  std::shared_ptr<const ExpertsHere> expert_weights() const { return expert_weights_; }

  // Begins to run steps; continues the counts of `before`. If the steps end with an error, the step
  // thread calls `on_loss` and then holds requests until Stop.
  void Start(const InstanceStatistics& before, std::function<void(const Status&)> on_loss);
  // Asks the steps to end; thread-safe.
  void RequestStop() { step_thread_.request_stop(); }
  // Returns when the steps have ended.
  void Stop();

  // Whether the steps have ended without Stop. Thread-safe.
  bool ended() const;
  // Its epoch is lost, and it holds its requests.
  bool holds() const;

  InstanceStatistics statistics() const;

 private:
  EpochSession(ExchangeListener& listener, kernels::Context& context)
      : listener_(listener), context_(context) {}

  // Runs the steps, on their thread.
  Status Run(const std::stop_token& stop);

  ExchangeListener& listener_;
  kernels::Context& context_;
  std::shared_ptr<ExpectedEpoch> expected_;
  Topology topology_;
  Rank rank_{0};
  WaitPolicy policy_;
  AttentionInstance* attention_ = nullptr;             // attention
  std::shared_ptr<const ExpertsHere> expert_weights_;  // experts
  std::unique_ptr<kernels::Team> team_;
  std::unique_ptr<Transport> transport_;
  std::vector<kernels::Buffer> pinned_;        // the transport's payloads
  std::unique_ptr<DeviceSlots> device_slots_;  // null: none; uses the transport's flags
  std::vector<PeerLink> links_;
  ExchangeDevice exchange_device_;
  std::unique_ptr<AttentionExchange> attention_exchange_;
  std::unique_ptr<ExpertExchange> expert_exchange_;
  std::unique_ptr<AttentionEpoch> attention_epoch_;
  std::unique_ptr<ExpertPacer> expert_pacer_;  // of a timed device
  std::unique_ptr<ExpertInstance> experts_;
  std::string timed_;  // likewise, for people
  mutable Mutex mu_;
  bool ended_ JANUS_GUARDED_BY(mu_) = false;
  std::string holding_ JANUS_GUARDED_BY(mu_);
  std::jthread step_thread_;  // destroyed first
};

}  // namespace janus::dataplane
