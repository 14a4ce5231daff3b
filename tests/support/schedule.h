#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/stream.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/random.h"

namespace janus::dataplane {

// Which kernels run, whether the cache is in fp8, and how the exchange compresses and adds.
struct KernelChoice {
  kernels::Device device = kernels::Device::kReference;
  kernels::Isa isa = kernels::Isa::kAvx2;
  // As in LoopbackCluster::Options.
  LoopbackCluster::MakeContext make_context = nullptr;
  Join device_join = nullptr;
  bool fp8_cache = false;
  Compression compression = Compression::kNone;
  int sum_bits = 0;  // of the sum rule FixedPoint; 0: contributions
};
// What tests add by: units of 2^-16. Elements beyond 32 are clamped with 24 bits.
FixedPointSums TestSums(const ModelDescription& model, int bits);
// The vectorised kernels for this machine's best instruction set; the reference without AVX2.
KernelChoice BestCpu();

// One attention and one expert instance of the model.
LoopbackCluster::Options OptionsAlone(const HeldModel& held, const KernelChoice& kernels);

// The result of a request: everything that must not depend on the schedule.
struct Trace {
  std::map<int, uint64_t> logits;  // position -> hash of its logits
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;
  std::map<int, std::vector<uint16_t>> experts;  // of each position that reports them
};

// Requests of at most `kMaxPositions` positions, greedy and sampled, some with changed logits, a
// grammar or experts to report, and the result of each when it
// is computed alone by one attention and one expert instance, without a prefix cache. Some prompts
// begin like that of an earlier request, or are its prompt and answer: its next turn.
inline constexpr int kMaxPositions = 40;
struct RequestPool {
  std::vector<Request> requests;
  std::vector<Trace> alone;
  std::vector<int> parent;  // the earlier request; -1: none. Empty: there are no such requests
};
RequestPool MakeRequestPool(const HeldModel& held, KernelChoice kernels, int size, uint64_t seed);
// For requests of any length.
RequestPool MakeRequestPool(const HeldModel& held, KernelChoice kernels,
                            std::vector<Request> requests);

// Every expert at least once per layer, never twice on one instance, some slots empty; layers
// differ. `slots_of_instance` must have room for all experts.
Placement RandomPlacement(Random& random, const std::vector<int>& slots_of_instance, int layers,
                          int experts);

// One run: which requests, at which times, on which topology.
struct Schedule {
  struct Action {
    enum Kind { kSubmit, kAwait, kCancel, kCancelStream } kind = kSubmit;
    int sequence = 0;
    int tokens = 0;  // kAwait: continues at so many tokens (or at the end of the answer)
  };
  struct SequenceOf {
    int request = 0;    // in the pool
    int attention = 0;  // rank of the instance that gets it
    int given = 0;      // tokens of its answer that are submitted with it: a replay
    RequestKey key;
    bool cancelled = false;
  };
  Topology topology;
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;
  int kv_pages = 0;
  int swap_pages = 64;  // host memory for preempted sequences
  PrefixSharing prefixes = PrefixSharing::kExact;
  int prefix_host_pages = 0;  // host memory for shared prefixes
  int prefix_copies = 0;      // to it and back in a step; 0: as many as fit
  int max_batch = 0;
  int compute_threads = 1;
  uint64_t chunk_seed = 0;
  int most_chunk = 64;  // prompt positions of a step: 1..most_chunk, by chunk_seed and step
  StepDeadlines deadlines;
  double preempt_chance = 0.0;  // per step, to preempt the newest sequence, even with enough room
  std::vector<SequenceOf> sequences;
  std::vector<Action> actions;
};
std::ostream& operator<<(std::ostream& out, const Schedule& schedule);

Schedule RandomSchedule(Random& random, int m, int n, const ModelDescription& model,
                        const RequestPool& pool);

// Runs a schedule. Returns a trace per sequence, how often sequences were preempted, and how many
// positions were computed again.
struct ScheduleRun {
  std::vector<Trace> traces;
  uint64_t preempted = 0;
  uint64_t recomputed = 0;
  uint64_t aborted = 0;         // steps that were given up
  uint64_t cached = 0;          // positions that the prefix cache held
  uint64_t cached_in_host = 0;  // of these, in host memory alone
  uint64_t saved_to_host = 0;   // positions that were copied there
};
ScheduleRun RunSchedule(const Schedule& schedule, const HeldModel& held, const RequestPool& pool,
                        KernelChoice kernels, const LoopbackCluster::WrapExchange& wrap = nullptr,
                        const LoopbackCluster::WrapTransport& wrap_transport = nullptr,
                        const Connect& connect = ConnectLoopback);

// Where a run differs from the requests computed alone; empty: no difference.
std::string Differences(const Schedule& schedule, const ScheduleRun& run, const RequestPool& pool);

}  // namespace janus::dataplane
