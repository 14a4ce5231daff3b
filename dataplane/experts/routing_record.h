#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/statistics.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// An expert instance's record of routing, for placement and scaling. It counts how often each
// expert was chosen (popularity), and sometimes samples a whole round: the chosen experts of every
// row.
//
// Every expert instance sees all rows, so a rule decides which instance reports what: the instance
// of rank l mod n reports layer l. So the reports of a service's instances can be added up. Counts
// are kept over epochs, as long as the process lives. If another instance takes over a layer, the
// old one keeps its counts and the new one counts from there on.
//
// A step counts when it has ended here. A step that is given up adds nothing. A step that was given
// up elsewhere after it had ended here counts again when it is repeated, as do the instance's rows.
//
// Cost per step: one increment for each (row, chosen expert) of the reported layers, one addition
// for each (reported layer, expert) at its end, and a copy of one round at most once in
// `Limits::between`. Only Enter and Read allocate.
//
// Enter, BeginStep, Add and EndStep belong to the step thread; Read is thread-safe.
class RoutingRecord {
 public:
  struct Limits {
    // Of all sampled rounds together; the newest replace the oldest.
    size_t ids = size_t{512} << 10;  // 1 MiB
    size_t rounds = 256;
    Seconds between{1};  // from one sample to the next; the reported layers take turns
  };

  RoutingRecord() : RoutingRecord(Limits()) {}
  explicit RoutingRecord(const Limits& limits) : limits_(limits) {}

  struct Epoch {
    uint64_t number = 0;
    int layers = 0;   // MoE layers
    int experts = 0;  // E
    int top_k = 0;    // K
    int rank = 0;
    int instances = 0;         // n
    size_t most_of_round = 0;  // (row, expert) pairs
  };
  // Call it before the first step of an epoch. The model never changes.
  void Enter(const Epoch& epoch);

  void BeginStep();
  // Adds a round: the experts of each of its rows, [T, K], in the order of the exchange.
  void Add(const RoundKey& round, std::span<const uint16_t> ids, MonotonicTime now);
  void EndStep();

  // `rounds`: returns at most so many of the newest rounds, oldest first.
  RoutingStatistics Read(bool popularity, size_t rounds) const;

 private:
  // A round within ids_, which is a ring.
  struct Sample {
    uint64_t epoch = 0;
    uint64_t step = 0;
    uint16_t layer = 0;
    uint8_t micro_batch = 0;
    size_t first = 0;
    size_t count = 0;
  };
  bool IsMine(int layer) const { return layer % epoch_.instances == epoch_.rank; }
  size_t Mine(int layer) const { return static_cast<size_t>(layer / epoch_.instances); }
  void TurnOn();
  void Keep(const Sample& sample) JANUS_REQUIRES(mu_);

  const Limits limits_;

  // Confined to the step thread.
  Epoch epoch_;
  std::vector<uint32_t> step_tokens_;  // [reported layers, E], of the running step
  std::vector<uint64_t> step_rows_;    // [reported layers]
  bool has_counted_ = false;
  int turn_ = 0;  // the layer that is sampled next
  std::optional<MonotonicTime> sampled_;
  std::vector<uint16_t> taken_;  // the sampled round of the running step
  std::optional<Sample> taken_as_;
  uint64_t too_large_now_ = 0;

  mutable Mutex mu_;
  int experts_ JANUS_GUARDED_BY(mu_) = 0;
  int top_k_ JANUS_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> tokens_ JANUS_GUARDED_BY(mu_);  // [layers, E]
  std::vector<uint64_t> rows_ JANUS_GUARDED_BY(mu_);    // [layers]
  std::vector<uint16_t> ids_ JANUS_GUARDED_BY(mu_);     // [Limits::ids]
  std::vector<Sample> samples_ JANUS_GUARDED_BY(mu_);   // [Limits::rounds], a ring
  size_t oldest_ JANUS_GUARDED_BY(mu_) = 0;
  size_t kept_ JANUS_GUARDED_BY(mu_) = 0;
  size_t ids_kept_ JANUS_GUARDED_BY(mu_) = 0;
  uint64_t too_large_ JANUS_GUARDED_BY(mu_) = 0;
};

}  // namespace janus::dataplane
