#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/plan/prefill.h"
#include "controllers/plan/whole.h"
#include "controllers/scaling/policy.h"

namespace janus::controllers {

// A steady load.
struct Demand {
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;  // to compute: without tokens in the prefix cache
  double output_tokens_per_second = 0;
  double context = 1;  // mean keys of a decoding sequence
  double prompt_squared_variation = 1;
  double prompt_tokens_at_percentile = 0;  // 0: the mean
  double least_running = 0;                // sequences that are running already
  // The rise of the load, and of the keys of its sequences, over their means. 1: as for independent
  // requests, a Poisson number of sequences at the target's percentile.
  double burst = 1;
  double key_burst = 1;
  double kv_tokens_per_attention = 0;  // observed room; 0: use the model's figure
  int pools = 1;                       // this demand is the share of one of so many pools

  friend bool operator==(const Demand&, const Demand&) = default;
};

// A demand with all its rates and sequences multiplied.
Demand Scaled(const Demand& demand, double factor);
// The share of each pool if `pools` pools have the demand.
Demand ShareOf(const Demand& demand, int pools);

// Mean tokens that a sequence still has to generate.
double GrowthOf(const Demand& demand);

// How much to run: pools of m attention and n expert instances each. For a predictor of the whole
// model, a pool is one copy: m is its GPUs, and n is 0.
struct Counts {
  int m = 0;
  int n = 0;
  int pools = 1;

  int Attention() const { return pools * m; }  // of all pools
  int Experts() const { return pools * n; }
  friend bool operator==(const Counts&, const Counts&) = default;
};

// A configuration under a demand.
struct Prediction {
  Configuration how;
  double cost = 0;           // price of all its GPUs, per unit of time
  double batch = 0;          // mean sequences decoding, over all pools
  StepLoad load;             // of a mean step of a pool
  StepTimes times;           // of that step, with corrections
  double tpot_seconds = 0;   // at the target's percentile; infinite: overloaded
  double ttft_seconds = 0;   // at the target's percentile; 0: no target
  double kv_share = 0;       // of the memory for keys and values, at the percentile
  double batch_share = 0;    // of max_batch_per_attention, at the percentile
  double prefill_share = 0;  // utilisation of the prompt budget

  // The largest of: TPOT and TTFT over their targets, and the shares of memory and batch limit. At
  // most 1 if the load is carried.
  double pressure = 0;
};

// What instances hold, where more is known of it than the data sheets say: by the plan of a service
// whose workers have reported their memory.
struct InstanceRoom {
  double kv_tokens = 0;    // keys of one attention instance
  int slots = 0;           // of a layer on each expert instance; 0: as SlotsByDefault has it
  int most_slots = 0;      // that an expert instance has memory for
  int fewest_experts = 1;  // instances that hold the model

  friend bool operator==(const InstanceRoom&, const InstanceRoom&) = default;
};

struct PredictorOptions {
  int max_attention = 128;  // instances that may be asked for
  int max_experts = 256;
  int tp_attention = 1;
  int tp_experts = 1;
  int min_micro_batches = 1;
  int max_micro_batches = 2;
  // The exchanges that may be chosen. The defaults are those of a service on GPUs whose spec says
  // nothing of its exchange, in pods of several instances (IsServed). Two phases over a single card
  // are left out: over every card they take at most a few microseconds more, and each exchange
  // makes a decision slower.
  std::vector<ExchangeMode> modes = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseParallel};
  std::vector<GateSide> gates = {GateSide::kExperts};
  std::vector<SumRule> sums = {SumRule::kContributions};
  int sum_bits = 32;  // of an element of a sum, with FixedPoint; 24 or 32
  std::vector<WireFormat> wires = {WireFormat::kBf16};
  bool is_random = false;                 // random replicas instead of AEBS
  double most_rows_per_attention = 4096;  // tables end there
  // Share of the tokens still to be generated for which admission keeps room.
  double growth_reserve = 0;
  // Nothing: by the memory of the hardware profiles.
  std::optional<InstanceRoom> room = std::nullopt;
  // Of timed devices. One row of the service is computed in the time of so many of the model's; and
  // all times are divided by so much. Loads and Counts stay those of the service.
  double rows_for_one = 1;
  double times_faster = 1;

  friend bool operator==(const PredictorOptions&, const PredictorOptions&) = default;
};

// All exchanges of the papers and of a plan: also the gate on attention, sums of 24 bits, and fp8.
PredictorOptions WithAllModes(PredictorOptions options);

// The performance model in tables, so that a decision can query it thousands of times. Built once
// for a model, its devices and options; immutable, and so thread-safe. A step's terms come from
// tables over (instances, rows, keys) and differ by at most 1 % from TimesOfStep (a test checks
// this).
class Predictor {
 public:
  // InvalidArgument: invalid hardware or options, or a model that fits no allowed number of
  // instances, with the bytes.
  static Result<Predictor> Create(const Setting& setting, const PredictorOptions& options);

  // For copies of the whole model, each run as `how` says (WholeStepSeconds, within 1 %): every m
  // is how.gpus, and every n is 0. Nothing is learned for it. InvalidArgument: invalid hardware, or
  // the model does not fit.
  static Result<Predictor> CreateWhole(const Setting& setting, const WholeConfiguration& how,
                                       double growth_reserve = 0);
  // The configuration of each copy; null if attention and experts are separate.
  const WholeConfiguration* Whole() const;

  // TimesOfStep with factors. how.m and how.n must be within the options.
  StepTimes Step(const Configuration& how, const StepLoad& load,
                 const Corrections& corrections = {}) const;

  // Steady state of one pool of m attention and n expert instances under its demand, with the
  // exchange mode, gate side and number of micro-batches that serve it best. `tail` multiplies the
  // TPOT at the percentile (observed over predicted); 1: not known. `split`: with so many
  // micro-batches only, within the options; 0: with any.
  Prediction Steady(int m, int n, const Demand& demand, const ScalingPolicy& policy,
                    const Corrections& corrections = {}, double tail = 1, int split = 0) const;

  // Whether these counts keep `share` of every target and fit memory and batch limit. Judged at a
  // TPOT of exactly that share of its target: more load never turns false into true. This is the
  // cheap question of a search; Steady gives the figures.
  bool Keeps(int m, int n, const Demand& demand, const ScalingPolicy& policy, double share,
             const Corrections& corrections = {}, double tail = 1) const;

  // The same for all pools, under the demand on all of them.
  bool Keeps(const Counts& counts, const Demand& demand, const ScalingPolicy& policy, double share,
             const Corrections& corrections = {}, double tail = 1) const;
  Prediction Steady(const Counts& counts, const Demand& demand, const ScalingPolicy& policy,
                    const Corrections& corrections = {}, double tail = 1, int split = 0) const;

  // False only if Keeps is false for every number of attention instances from `fewest` to m. Once
  // true, it is true for every larger m. Keeps itself is not monotonic: with more instances there
  // are more messages and nodes, and a step may get longer.
  bool MayKeep(int fewest, int m, int n, const Demand& demand, const ScalingPolicy& policy,
               double share, const Corrections& corrections = {}, double tail = 1) const;

  // Fewest expert instances that hold the model.
  int FewestExperts() const;
  double CostOf(int m, int n) const;  // of a pool
  int GpusOf(int m, int n) const;
  double CostOf(const Counts& counts) const;  // of all pools
  int GpusOf(const Counts& counts) const;
  // Keys for which one attention instance has room beside weights and buffers.
  double KvTokensPerAttention() const;
  // Slots of a layer on each of n expert instances.
  int SlotsPerExpert(int n) const;

  const Setting& setting() const;
  const PredictorOptions& options() const;

 private:
  struct Tables;
  explicit Predictor(std::shared_ptr<const Tables> tables);
  std::shared_ptr<const Tables> tables_;
};

// "12A12E", "4 x 12A12E"; of copies of the whole model "3 x 16 GPUs".
std::string NameOf(const Predictor& predictor, const Counts& counts);

}  // namespace janus::controllers
