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

// A steady load to be carried.
struct Demand {
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;  // to be computed: without what the prefix cache holds
  double output_tokens_per_second = 0;
  double context = 1;  // mean keys of a sequence that decodes
  double prompt_squared_variation = 1;
  double prompt_tokens_at_percentile = 0;  // 0: the mean
  double least_running = 0;                // sequences there are already
  // What the load and the keys of its sequences rise to, over their means; 1: as independent
  // requests do, a Poisson number of sequences at the target's percentile.
  double burst = 1;
  double key_burst = 1;
  double kv_tokens_per_attention = 0;  // room that was observed; 0: the model's figure
  int pools = 1;                       // it is one pool's share of a demand on so many

  friend bool operator==(const Demand&, const Demand&) = default;
};

// A demand with all its rates and sequences multiplied.
Demand Scaled(const Demand& demand, double factor);
// What each of so many pools gets of a demand on all of them.
Demand ShareOf(const Demand& demand, int pools);

// Tokens that a sequence of it has still to write, on average.
double GrowthOf(const Demand& demand);

// How much to run: pools of m attention and n expert instances each. Of a predictor of the whole
// model a pool is one copy of it: m is its GPUs and n is 0.
struct Counts {
  int m = 0;
  int n = 0;
  int pools = 1;

  int Attention() const { return pools * m; }  // of all pools
  int Experts() const { return pools * n; }
  friend bool operator==(const Counts&, const Counts&) = default;
};

// What a configuration makes of a demand.
struct Prediction {
  Configuration how;
  double cost = 0;           // price of all its GPUs, per unit of time
  double batch = 0;          // mean sequences decoding, all pools
  StepLoad load;             // of a mean step of a pool
  StepTimes times;           // of it, corrected
  double tpot_seconds = 0;   // at the target's percentile; infinite: the load is never carried
  double ttft_seconds = 0;   // at the target's percentile; 0 without a target
  double kv_share = 0;       // of the memory for keys and values, at the percentile
  double batch_share = 0;    // of max_batch_per_attention, at the percentile
  double prefill_share = 0;  // utilisation of the prompt budget

  // The largest of TPOT and TTFT over their targets, and of the shares of memory and batch limit;
  // what is carried keeps <= 1.
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
  // The ways of exchanging that may be chosen; to begin with, what this version serves (IsServed).
  std::vector<ExchangeMode> modes = {ExchangeMode::kDirect};
  std::vector<GateSide> gates = {GateSide::kExperts};
  std::vector<SumRule> sums = {SumRule::kContributions};
  std::vector<WireFormat> wires = {WireFormat::kBf16};
  bool is_random = false;                 // replicas chosen at random instead of by AEBS
  double most_rows_per_attention = 4096;  // tables end there
  // Of the tokens that sequences have still to write: room that admission leaves for them.
  double growth_reserve = 0;
  // Nothing: by the memory of the hardware profiles.
  std::optional<InstanceRoom> room = std::nullopt;
  // Of timed devices. One row of the service is computed in the time of so many of the model's; and
  // all times are divided by so much. Loads and Counts stay those of the service.
  double rows_for_one = 1;
  double times_faster = 1;

  friend bool operator==(const PredictorOptions&, const PredictorOptions&) = default;
};

// Every way that the papers have and a plan knows. Two phases over a single card are left out: over
// every card they are no slower but by a few microseconds, and each way costs a decision time.
PredictorOptions WithAllModes(PredictorOptions options);

// The performance model behind tables, so that a decision can ask it thousands of times. Built once
// for a model, its devices and options; immutable, so thread-safe. A step's terms are read from
// tables over (instances, rows, keys), off by at most 1 % from TimesOfStep (a test holds it).
class Predictor {
 public:
  // InvalidArgument: hardware or options that are none; a model that fits no allowed number of
  // instances, with the bytes.
  static Result<Predictor> Create(const Setting& setting, const PredictorOptions& options);

  // Of copies of the whole model, each run as `how` says (WholeStepSeconds, off by at most 1 %):
  // whatever asks for m and n instances gets m = how.gpus and n = 0. Nothing of it is learned.
  // InvalidArgument: hardware that is none, or the model does not fit.
  static Result<Predictor> CreateWhole(const Setting& setting, const WholeConfiguration& how,
                                       double growth_reserve = 0);
  // How each copy runs; null where attention and experts are separate.
  const WholeConfiguration* Whole() const;

  // TimesOfStep with factors; how.m and how.n within the options.
  StepTimes Step(const Configuration& how, const StepLoad& load,
                 const Corrections& corrections = {}) const;

  // Steady state of one pool of m attention and n expert instances under its demand, in the
  // exchange mode, gate side and number of micro-batches that serve it best. `tail` multiplies the
  // TPOT at the percentile (what was observed over what was predicted); 1: none known.
  Prediction Steady(int m, int n, const Demand& demand, const ScalingPolicy& policy,
                    const Corrections& corrections = {}, double tail = 1) const;

  // Whether that keeps `share` of every target and fits memory and batch limit, judged where the
  // TPOT is just that share of its target: more load never turns no into yes. The cheap question
  // of a search; Steady gives the figures.
  bool Keeps(int m, int n, const Demand& demand, const ScalingPolicy& policy, double share,
             const Corrections& corrections = {}, double tail = 1) const;

  // The same of all pools under the demand on all of them.
  bool Keeps(const Counts& counts, const Demand& demand, const ScalingPolicy& policy, double share,
             const Corrections& corrections = {}, double tail = 1) const;
  Prediction Steady(const Counts& counts, const Demand& demand, const ScalingPolicy& policy,
                    const Corrections& corrections = {}, double tail = 1) const;

  // False only where Keeps is false for every number of attention instances from `fewest` to m;
  // once true, true for every larger m. Keeps itself is not so: with more instances messages and
  // nodes grow, and a step may get longer.
  bool MayKeep(int fewest, int m, int n, const Demand& demand, const ScalingPolicy& policy,
               double share, const Corrections& corrections = {}, double tail = 1) const;

  // Fewest expert instances that hold the model.
  int FewestExperts() const;
  double CostOf(int m, int n) const;  // of a pool
  int GpusOf(int m, int n) const;
  double CostOf(const Counts& counts) const;  // of all pools
  int GpusOf(const Counts& counts) const;
  // Keys that one attention instance has room for beside weights and buffers.
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
