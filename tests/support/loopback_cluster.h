#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/engine/emission_thread.h"
#include "dataplane/experts/expert_instance.h"
#include "dataplane/weights/place_weights.h"
#include "kernels/device/context.h"
#include "tests/support/networks.h"
#include "tests/support/random.h"
#include "tests/support/steered_attention.h"

namespace janus::dataplane {

// m attention and n expert instances in one process, each on its own thread, over LoopbackTransport
// by default; or one of them in each process. They are the workers' classes, connected as in the
// workers.
//
// Submit and Await are for one test thread.
class LoopbackCluster {
 public:
  // Puts a double around each attention instance's exchange.
  using WrapExchange =
      std::function<std::unique_ptr<AttentionExchange>(std::unique_ptr<AttentionExchange>)>;

  // Puts a double around any member's transport.
  using WrapTransport =
      std::function<std::unique_ptr<Transport>(PeerId self, std::unique_ptr<Transport>)>;

  using MakeContext = std::function<std::unique_ptr<kernels::Context>()>;

  struct Options {
    Topology topology;  // attention and experts need no addresses here
    // With either of them nothing is exchanged in place.
    Compression compression = Compression::kNone;
    FixedPointSums sums;
    // Memory for swapping is pinned beside a device, and an emulated device writes all of it.
    AttentionOptions attention = [] {
      AttentionOptions small;
      small.swap_bytes = int64_t{1} << 24;
      return small;
    }();
    AttentionSteering steering;  // for each attention instance
    AttentionPace pace;          // the experts use its deadlines too
    ExpertOptions experts;
    kernels::Device device = kernels::Device::kReference;
    kernels::Isa isa = kernels::Isa::kAvx2;
    int compute_threads = 1;
    // Makes a separate device for each instance, which computes and has its weights there; null:
    // the host, by `device` and `isa`.
    MakeContext make_context;
    bool weights_are_placed = false;  // the weights are in these devices' memory already
    // Connects members with peers that may read memory of their devices; null: uses `connect`, and
    // everything goes through host memory.
    Join device_join = nullptr;
    Connect connect = ConnectLoopback;
    WrapExchange wrap_exchange;    // null: none
    WrapTransport wrap_transport;  // null: none
    // Of each instance; null: none.
    std::function<std::unique_ptr<AttentionPacer>()> make_attention_pacer;
    std::function<std::unique_ptr<ExpertPacer>()> make_expert_pacer;
    const Clock* clock = nullptr;  // for all instances; null: the machine's
    std::set<int> idle;            // attention ranks that are connected but not run
    bool without_experts = false;  // no expert instances: the wrapped exchange does their work
    // The one member in this process, over shared memory. The others are separate processes, and
    // connect at listeners, by member index. Null: all are in this process.
    std::optional<PeerId> only;
    std::vector<std::string> listeners;
  };

  // expert_weights: by rank. All weights must outlive the cluster.
  LoopbackCluster(Options options, const ModelDescription& model,
                  const AttentionWeights& attention_weights,
                  std::vector<const ExpertWeights*> expert_weights);
  // Stops and joins. Aborts if a step loop has ended with an error, unless Stop was called.
  ~LoopbackCluster();

  // Stops and joins. Returns the first error of any step loop, for tests that provoke one.
  Status Stop();

  // For instances in this process, like all functions below.
  AttentionInstance& attention(int rank) {
    return *attention_[static_cast<size_t>(rank)]->instance;
  }
  ExpertInstance& experts(int rank) { return *experts_[static_cast<size_t>(rank)]->instance; }

  // The outcome of a request: tokens in order, then the finish reason.
  struct Outcome {
    std::vector<int32_t> tokens;
    std::vector<TokenEvent> events;
    FinishReason finish = FinishReason::kNone;
    Status error;
  };
  // Waits until the request has ended, or has `tokens` tokens. After 50 s, or if a step loop has
  // failed, the outcome is an error.
  Outcome Await(const RequestKey& key, int tokens = INT32_MAX);

  // The device of one instance.
  kernels::Context& attention_context(int rank) {
    return *attention_[static_cast<size_t>(rank)]->context;
  }
  kernels::Context& expert_context(int rank) {
    return *experts_[static_cast<size_t>(rank)]->context;
  }

  // Why a member with a device in this process does not exchange in place although `device_join` is
  // given; empty: all do.
  std::string InPlaceRefusal() const;

  // The first error of any step loop so far.
  Status failure() const;

 private:
  class Sink;
  struct AttentionWorker {
    std::unique_ptr<kernels::Context> context;
    std::unique_ptr<kernels::Uploader> uploader;
    Placed<AttentionWeights> weights;
    std::unique_ptr<kernels::Team> team;
    std::unique_ptr<Transport> transport;
    std::vector<kernels::Buffer> pinned;
    std::unique_ptr<DeviceSlots> device_slots;
    std::unique_ptr<AttentionExchange> exchange;
    std::unique_ptr<AttentionPacer> pacer;
    std::unique_ptr<AttentionInstance> instance;
    std::unique_ptr<AttentionEpoch> epoch;
    std::jthread thread;
  };
  struct ExpertWorker {
    std::unique_ptr<kernels::Context> context;
    std::unique_ptr<kernels::Uploader> uploader;
    Placed<ExpertWeights> weights;
    std::unique_ptr<kernels::Team> team;
    std::unique_ptr<Transport> transport;
    std::vector<kernels::Buffer> pinned;
    std::unique_ptr<DeviceSlots> device_slots;
    std::unique_ptr<ExpertExchange> exchange;
    std::unique_ptr<ExpertPacer> pacer;
    std::unique_ptr<ExpertInstance> instance;
    std::jthread thread;
  };

  void Failed(const Status& status);

  bool stopped_ = false;
  std::shared_ptr<void> network_;  // kept alive for the transports
  SystemClock clock_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<EmissionThread> emission_;
  mutable Mutex mu_;
  Status failure_ JANUS_GUARDED_BY(mu_);
  // By rank; null: in another process.
  std::vector<std::unique_ptr<AttentionWorker>> attention_;
  std::vector<std::unique_ptr<ExpertWorker>> experts_;
};

// A topology of m x n with `slots` per expert instance (uneven allowed) and experts dealt in turn;
// replicas fill the remaining slots.
Topology MakeTopology(int m, const std::vector<int>& slots, int layers, int experts,
                      int micro_batches = 1, int max_rows = 64);

// Puts the instances into nodes of random sizes and into memory domains, and draws one of the
// exchange modes and the side of the gate.
void DrawExchange(Random& random, Topology& topology);
// Puts `each` instances after another into a node; the last may have fewer.
void GroupIntoNodes(Topology& topology, int attention_each, int experts_each);

}  // namespace janus::dataplane
