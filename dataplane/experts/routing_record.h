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

// What an expert instance remembers of routing, for placement and scaling: always how often each
// expert was chosen (popularity), and now and then a whole round, the experts of every row of it.
//
// Every expert instance sees all rows, so a rule says who tells of what: layer l is told of by the
// instance of rank l mod n, and what the instances of a service tell can be added up. Counts are
// kept over epochs, as long as the process lives: who gives a layer to another one keeps what it
// has counted, and the other one counts from there on.
//
// A step counts when it has ended here. Of one that is given up nothing stays; one that was given
// up elsewhere after it had ended here counts again when it is repeated, as do the instance's rows.
//
// Cost, of a step: an increment for each (row, chosen expert) of the layers told of, an addition
// for each (layer told of, expert) at its end, and the copy of one round at most once in
// `Limits::between`. Nothing is allocated but by Enter and Read.
//
// Enter, BeginStep, Add and EndStep belong to the step thread; Read is thread-safe.
class RoutingRecord {
 public:
  struct Limits {
    // Of the sampled rounds together; the oldest give way to the newest.
    size_t ids = size_t{512} << 10;  // 1 MiB
    size_t rounds = 256;
    Seconds between{1};  // from one to the next; the layers told of take turns
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
  // Before the first step of an epoch. The model is the same for life.
  void Enter(const Epoch& epoch);

  void BeginStep();
  // Of a round: the experts of each of its rows, [T, K], in the order of the exchange.
  void Add(const RoundKey& round, std::span<const uint16_t> ids, MonotonicTime now);
  void EndStep();

  // `rounds`: at most so many of the newest ones, oldest first.
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
  std::vector<uint32_t> step_tokens_;  // [layers told of, E], of the step that runs
  std::vector<uint64_t> step_rows_;    // [layers told of]
  bool has_counted_ = false;
  int turn_ = 0;  // the layer that is sampled next
  std::optional<MonotonicTime> sampled_;
  std::vector<uint16_t> taken_;  // the round sampled of the step that runs
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
