#include "controllers/scaling/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/prompt_share.h"
#include "controllers/halving.h"
#include "controllers/plan/terms.h"
#include "controllers/replicas/default_slots.h"
#include "controllers/scaling/curve.h"
#include "controllers/scaling/whole_table.h"

namespace janus::controllers {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// z such that a normal variable stays below mean + z deviations with this probability (Abramowitz
// and Stegun 26.2.23, error below 4.5e-4).
double NormalQuantile(double probability) {
  const double upper = std::min(probability, 1 - probability);
  const double t = std::sqrt(-2 * std::log(std::max(upper, 1e-12)));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                           (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return probability < 0.5 ? -z : z;
}

struct Variant {
  int micro_batches = 1;
  ExchangeMode mode = ExchangeMode::kDirect;
  GateSide gate = GateSide::kExperts;
  SumRule sum = SumRule::kContributions;
  WireFormat wire = WireFormat::kBf16;
};

std::vector<Variant> VariantsOf(const PredictorOptions& options) {
  std::vector<Variant> variants;
  for (int b = options.min_micro_batches; b <= options.max_micro_batches; ++b) {
    for (const ExchangeMode mode : options.modes) {
      for (const GateSide gate : options.gates) {
        for (const SumRule sum : options.sums) {
          for (const WireFormat wire : options.wires)
            variants.push_back({b, mode, gate, sum, wire});
        }
      }
    }
  }
  return variants;
}

// The GPUs of one instance of each role.
Configuration OfWidths(const PredictorOptions& options) {
  Configuration how;
  how.tp_attention = options.tp_attention;
  how.tp_experts = options.tp_experts;
  return how;
}

// Sequences that decode at a TPOT: arrivals stay for the time of their outputs (Little's law). At
// the percentile there are as many as the load was seen to rise to, and at least as many as
// independent requests give: a Poisson number exceeds its mean by z deviations. The larger margin
// of the two is used. Pools share the sequences evenly: the Poisson number is for all pools.
struct Rows {
  double mean = 0;
  double high = 0;
  double of_keys = 0;  // rows that, with mean keys, need the room for keys at the percentile
};
Rows RowsAt(const Demand& demand, double tpot, double z) {
  const double mean = demand.output_tokens_per_second * tpot;
  const double poisson = mean + std::max(z, 0.0) * std::sqrt(mean / demand.pools);
  return {std::max(mean, demand.least_running),
          std::max({mean * demand.burst, poisson, demand.least_running}),
          std::max({mean * demand.key_burst, poisson, demand.least_running})};
}

double MeanPrompt(const Demand& demand) {
  return demand.requests_per_second > 0
             ? demand.prompt_tokens_per_second / demand.requests_per_second
             : 0;
}

// Prompt rows that arrive within a TPOT during a burst.
double PromptRowsAt(const Demand& demand, double tpot) {
  return demand.prompt_tokens_per_second * demand.burst * tpot;
}

StepLoad LoadAt(const Demand& demand, double decode_rows, double prompt_rows) {
  return {decode_rows, std::max(demand.context, 1.0), prompt_rows, MeanPrompt(demand) / 2};
}

}  // namespace

// Attention of a layer is exactly linear in its decode rows after the projections of all rows are
// subtracted. Two curves over keys and one over rows therefore give it without approximating its
// form.
struct Predictor::Tables {
  Setting setting;
  PredictorOptions options;
  std::vector<Variant> variants;
  int fewest_experts = 0;
  int most_slots = 0;  // of a layer that the hardware's memory holds on an instance
  double kv_tokens = 0;
  double prompt_key_seconds = 0;
  std::vector<double> busiest;  // [m] BusiestKeysFactor less 1, for one row each
  Curve projections;            // of all rows
  Curve keys_per_row;           // over the mean keys: seconds per decode row
  Curve keys_fixed;             // over the mean keys: seconds per call
  Curve shared;
  Curve dense;
  Curve head;
  std::vector<Curve> experts;       // [n - 1], over the rows of a round
  std::optional<WholeTable> whole;  // if set, it replaces all of these: copies of the whole model

  Tables(const Setting& s, const PredictorOptions& o)
      : setting(s),
        options(o),
        variants(VariantsOf(o)),
        most_slots(SlotsPerInstance(s, OfWidths(o))),
        prompt_key_seconds(PromptKeySeconds(s, o.tp_attention)),
        projections(16, kDoublings, [&](double rows) { return Projections(rows); }),
        keys_per_row(8, kDoublings,
                     [&](double keys) { return OverKeys(2, keys) - OverKeys(1, keys); }),
        keys_fixed(8, kDoublings,
                   [&](double keys) { return 2 * OverKeys(1, keys) - OverKeys(2, keys); }),
        shared(16, kDoublings, [&](double rows) { return SharedSeconds(s, o.tp_attention, rows); }),
        dense(16, kDoublings,
              [&](double rows) {
                return s.model.dense_layers > 0 ? DenseFeedForwardSeconds(s, o.tp_attention, rows)
                                                : 0;
              }),
        head(16, kDoublings,
             [&](double rows) { return OutputHeadSeconds(s, o.tp_attention, rows); }) {
    for (int m = 0; m <= o.max_attention; ++m) {
      busiest.push_back(BusiestKeysFactor(s, m, 1) - 1);
    }
    for (int n = 1; n <= o.max_experts; ++n) {
      const Configuration how = Of(1, n, {});
      experts.emplace_back(16, kDoublings,
                           [&](double rows) { return ExpertSeconds(s, how, rows, nullptr); });
    }
  }

  double Projections(double rows) const {
    return AttentionSeconds(setting, options.tp_attention, {0, 1, rows, 0});
  }
  double OverKeys(double rows, double keys) const {
    return AttentionSeconds(setting, options.tp_attention, {rows, keys, 0, 0}) - Projections(rows);
  }

  // Of a layer, as services get them.
  int SlotsOf(int n) const {
    if (options.room && options.room->slots > 0) return options.room->slots;
    const int most = options.room ? options.room->most_slots : most_slots;
    return SlotsByDefault(setting.model.experts, std::max(n, 1), most);
  }

  Configuration Of(int m, int n, const Variant& variant) const {
    Configuration how;
    how.m = m;
    how.n = n;
    how.slots = SlotsOf(n);
    how.tp_attention = options.tp_attention;
    how.tp_experts = options.tp_experts;
    how.is_random = options.is_random;
    how.micro_batches = variant.micro_batches;
    how.mode = variant.mode;
    how.gate = variant.gate;
    how.sum = variant.sum;
    how.sum_bits = options.sum_bits;
    how.wire = variant.wire;
    return how;
  }

  // One layer's attention without shared experts, for d decode rows and p prompt rows of an
  // instance.
  double Attention(double d, double keys, double p, double prompt_keys) const {
    return projections(d + p) + d * keys_per_row(keys) + keys_fixed(keys) +
           p * prompt_keys * prompt_key_seconds;
  }

  // The parts of a step that are the same for every exchange mode, with corrections.
  struct Modules {
    LayerTimes layer;  // without out, back and layer
    double dense = 0;
    double rows = 0;  // of a micro-batch
    Parts parts;
  };
  Modules ModulesOf(int m, int n, int b, const StepLoad& load, const Corrections& c,
                    bool of_busiest = true) const {
    const bool decodes = load.decode_rows > 0 || load.prompt_rows == 0;
    const double for_one = options.rows_for_one;
    Modules modules;
    modules.parts = PartsOf(load, m, b);
    const double parts = m * modules.parts.of_one;  // over which attention's rows are spread
    const double decode_rows = std::max(load.decode_rows / parts, 1.0);
    const double d = decodes ? for_one * decode_rows : 0;
    const double p = for_one * load.prompt_rows / parts;
    const double deviations = of_busiest ? busiest[static_cast<size_t>(m)] : 0;
    const double keys = load.context * (1 + deviations / std::sqrt(decode_rows));
    modules.rows = for_one * (load.decode_rows + load.prompt_rows) / modules.parts.of_all;
    const double attention = c.attention / options.times_faster;
    modules.layer.attention = attention * Attention(d, keys, p, load.prompt_keys);
    modules.layer.shared = attention * shared(d + p);
    modules.layer.experts =
        c.experts / options.times_faster * experts[static_cast<size_t>(n - 1)](modules.rows);
    const double all_d = decodes ? for_one * std::max(load.decode_rows / m, 1.0) : 0;
    const double all_p = for_one * load.prompt_rows / m;
    const double dense_layers = setting.model.dense_layers;
    modules.dense = head(all_d);
    if (dense_layers > 0) {
      modules.dense += dense_layers * (Attention(all_d, load.context, all_p, load.prompt_keys) +
                                       dense(all_d + all_p));
    }
    modules.dense *= attention;
    return modules;
  }

  StepTimes Compose(const Modules& modules, const Configuration& how, const Corrections& c) const {
    LayerTimes layer = modules.layer;
    const ExchangeTimes exchange = TimesOfExchange(setting, how, modules.rows);
    const double of_exchange = c.exchange / options.times_faster;
    layer.out = of_exchange * exchange.out;
    layer.back = of_exchange * exchange.back;
    const double layers = setting.model.layers;
    const double rounds = layers * modules.parts.of_all;
    return {layers * modules.parts.of_one * (layer.attention + layer.shared) + modules.dense,
            rounds * layer.experts, rounds * (layer.out + layer.back),
            c.step * (layers * ComposeLayer(layer, modules.parts) + modules.dense)};
  }

  StepTimes Step(const Configuration& how, const StepLoad& load, const Corrections& c) const {
    if (whole) return whole->Step(load, c);
    return Compose(ModulesOf(how.m, how.n, how.micro_batches, load, c), how, c);
  }

  // The variant with the shortest step for this load; ties go to the first.
  // `split`: only with so many micro-batches; 0: any.
  std::pair<Variant, double> BestVariant(int m, int n, const StepLoad& load, const Corrections& c,
                                         int split = 0) const {
    if (whole) return {variants[0], whole->Step(load, c).step};
    std::pair<Variant, double> best = {variants[0], kInfinite};
    Modules modules;
    int of = 0;
    double without_exchange = 0;
    for (const Variant& variant : variants) {
      if (split > 0 && variant.micro_batches != split) continue;
      if (variant.micro_batches != of) {
        of = variant.micro_batches;
        modules = ModulesOf(m, n, of, load, c);
        without_exchange =
            c.step *
            (setting.model.layers * ComposeLayer(modules.layer, modules.parts) + modules.dense);
      }
      if (without_exchange >= best.second) continue;
      const double step = Compose(modules, Of(m, n, variant), c).step;
      if (step < best.second) best = {variant, step};
    }
    return best;
  }

  double Shortest(int m, int n, const StepLoad& load, const Corrections& c, int split = 0) const {
    return BestVariant(m, n, load, c, split).second;
  }

  // A lower bound for the step over all numbers of attention instances from `fewest` to m: rows are
  // shared as for m, keys are the mean, and the exchange is LeastExchange's.
  double LeastStep(int fewest, int m, int n, const StepLoad& load, const Corrections& c) const {
    if (whole) return whole->Step(load, c).step;
    double least = kInfinite;
    Modules modules;
    int of = 0;
    for (const Variant& variant : variants) {
      if (variant.micro_batches != of) {
        of = variant.micro_batches;
        modules = ModulesOf(m, n, of, load, c, false);
      }
      LayerTimes layer = modules.layer;
      const ExchangeTimes exchange =
          LeastExchange(setting, Of(m, n, variant), fewest, modules.rows);
      const double of_exchange = c.exchange / options.times_faster;
      layer.out = of_exchange * exchange.out;
      layer.back = of_exchange * exchange.back;
      least = std::min(least, c.step * (setting.model.layers * ComposeLayer(layer, modules.parts) +
                                        modules.dense));
    }
    return least;
  }

  double KvTokens(const Demand& demand) const {
    return demand.kv_tokens_per_attention > 0 ? demand.kv_tokens_per_attention : kv_tokens;
  }

  // The keys that a sequence takes, with room for it to grow.
  double KeysOfOne(const Demand& demand) const {
    return demand.context + options.growth_reserve * GrowthOf(demand);
  }

  // The units that compute prompts, each a different one.
  double Servers(int m) const { return whole ? whole->how().DataParallel() : m; }
};

namespace {

// Prompt rows that fit into a step of `budget` seconds beside the decode rows.
template <class StepSeconds>
double PromptRowsWithin(double budget, double most, const StepSeconds& step_seconds) {
  if (step_seconds(0.0) >= budget) return 0;
  if (step_seconds(most) <= budget) return most;
  return Halve({0, most}, 12, [&](double rows) { return step_seconds(rows) > budget; }).low;
}

// How long workers let a step with prompts take. If decoding alone takes nearly as long, they give
// prompts a tenth of its time. That is left out here: more load would bring prompts more.
double PromptStep(const ScalingPolicy& policy) {
  return kPromptShareOfTpot * policy.tpot.seconds;
}

// The queue for first tokens if a step of `budget` seconds takes `prompt_rows`.
PromptLoad QueueOf(const Demand& demand, double servers, double prompt_rows, double budget,
                   double tpot) {
  return {demand.requests_per_second * demand.burst,
          MeanPrompt(demand),
          demand.prompt_squared_variation,
          std::max(demand.prompt_tokens_at_percentile, MeanPrompt(demand)),
          servers,
          prompt_rows / servers / budget,
          tpot};
}

// The fewest prompt rows of a step, at most `most`, with which the first token comes in time;
// infinite: even `most` is too few. Much cheaper than computing how many rows fit.
template <class IsInTime>
double PromptRowsNeeded(double most, const IsInTime& is_in_time) {
  if (is_in_time(0.0)) return 0;
  if (!is_in_time(most)) return kInfinite;
  return Halve({0, most}, 16, is_in_time).high;
}

// The TPOT, at most `limit`, that is consistent with the load it causes; step_at(limit) <= limit.
// The halvings are the same for every load, so that more load never gives a lower TPOT.
template <class StepAt>
double SteadyTpot(double limit, const StepAt& step_at) {
  return Halve({0, limit}, 12, [&](double tpot) { return step_at(tpot) <= tpot; }).high;
}

}  // namespace

PredictorOptions WithAllModes(PredictorOptions options) {
  options.modes = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseParallel};
  options.sum_bits = 24;  // by this model never slower than 32
  options.gates = {GateSide::kExperts, GateSide::kAttention};
  options.sums = {SumRule::kContributions, SumRule::kFixedPoint};
  options.wires = {WireFormat::kFp8};  // by this model never slower than bf16
  return options;
}

Demand Scaled(const Demand& demand, double factor) {
  Demand scaled = demand;
  scaled.requests_per_second *= factor;
  scaled.prompt_tokens_per_second *= factor;
  scaled.output_tokens_per_second *= factor;
  scaled.least_running *= factor;
  return scaled;
}

double GrowthOf(const Demand& demand) {
  return demand.requests_per_second > 0
             ? demand.output_tokens_per_second / demand.requests_per_second / 2
             : 0;
}

Demand ShareOf(const Demand& demand, int pools) {
  if (pools <= 1) return demand;
  Demand share = Scaled(demand, 1.0 / pools);
  share.pools = pools;
  return share;
}

Predictor::Predictor(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

Result<Predictor> Predictor::Create(const Setting& setting, const PredictorOptions& options) {
  JANUS_RETURN_IF_ERROR(Validate(setting.attention.hardware));
  JANUS_RETURN_IF_ERROR(Validate(setting.experts.hardware));
  const auto at_least_one = [](const char* name, int value) {
    return value >= 1 ? OkStatus()
                      : InvalidArgument(std::string("predictor: ") + name + " is " +
                                        std::to_string(value) + "; want at least 1");
  };
  JANUS_RETURN_IF_ERROR(at_least_one("max_attention", options.max_attention));
  JANUS_RETURN_IF_ERROR(at_least_one("max_experts", options.max_experts));
  JANUS_RETURN_IF_ERROR(at_least_one("tp_attention", options.tp_attention));
  JANUS_RETURN_IF_ERROR(at_least_one("tp_experts", options.tp_experts));
  JANUS_RETURN_IF_ERROR(at_least_one("min_micro_batches", options.min_micro_batches));
  JANUS_RETURN_IF_ERROR(at_least_one("max_micro_batches", options.max_micro_batches));
  if (VariantsOf(options).empty()) {
    return InvalidArgument("predictor: no exchange mode is allowed with any gate side");
  }
  if (options.room) {
    const InstanceRoom& room = *options.room;
    if (room.fewest_experts < 1 || room.fewest_experts > options.max_experts) {
      return InvalidArgument("predictor: " + setting.model.name + " needs " +
                             std::to_string(room.fewest_experts) + " expert instances and " +
                             std::to_string(options.max_experts) +
                             " are allowed; allow more of them");
    }
    auto tables = std::make_shared<Tables>(setting, options);
    tables->fewest_experts = room.fewest_experts;
    tables->kv_tokens = room.kv_tokens;
    return Predictor(std::move(tables));
  }
  Configuration how;
  how.tp_attention = options.tp_attention;
  how.tp_experts = options.tp_experts;
  Setting empty = setting;  // without keys and values
  empty.context = 0;
  const MemoryUse one = MemoryOf(empty, how, kBufferRows);
  const double room = setting.memory_share * setting.attention.hardware.memory_bytes;
  if (one.attention_bytes >= room) {
    return InvalidArgument("predictor: " + setting.model.name + " does not fit: an attention GPU " +
                           "would hold " + std::to_string(one.attention_bytes / 1e9) +
                           " GB of weights and buffers of the " + std::to_string(room / 1e9) +
                           " GB it may give; allow a wider tensor-parallel group");
  }
  const auto holds = [&](int n) {
    how.n = n;
    return MemoryOf(empty, how, kBufferRows).fits_experts;
  };
  int fewest = 1;
  while (fewest < options.max_experts && !holds(fewest)) ++fewest;
  if (!holds(fewest)) {
    return InvalidArgument(
        "predictor: " + setting.model.name + " does not fit: an expert GPU " + "would hold " +
        std::to_string(MemoryOf(empty, how, kBufferRows).expert_bytes / 1e9) + " GB with all " +
        std::to_string(options.max_experts) + " instances; allow more of them");
  }
  auto tables = std::make_shared<Tables>(setting, options);
  tables->fewest_experts = fewest;
  how.n = fewest;
  tables->kv_tokens = KvTokensOfOne(setting, how) / options.rows_for_one;
  return Predictor(std::move(tables));
}

Result<Predictor> Predictor::CreateWhole(const Setting& setting, const WholeConfiguration& how,
                                         double growth_reserve) {
  JANUS_RETURN_IF_ERROR(Validate(setting.attention.hardware));
  const double room = WholeKvTokens(setting, how);
  if (room <= 0) {
    return InvalidArgument("predictor: " + setting.model.name + " does not fit " +
                           std::to_string(how.gpus) + " GPUs (" + NameOf(how) +
                           "); allow more of them");
  }
  PredictorOptions options;
  options.max_attention = how.gpus;
  options.max_experts = 0;
  options.max_micro_batches = 1;
  options.modes = {ExchangeMode::kDirect};
  options.gates = {GateSide::kExperts};
  options.growth_reserve = growth_reserve;
  auto tables = std::make_shared<Tables>(setting, options);
  tables->whole.emplace(setting, how);
  tables->kv_tokens = room / how.gpus;
  return Predictor(std::move(tables));
}

const WholeConfiguration* Predictor::Whole() const {
  return tables_->whole ? &tables_->whole->how() : nullptr;
}

StepTimes Predictor::Step(const Configuration& how, const StepLoad& load,
                          const Corrections& corrections) const {
  return tables_->Step(how, load, corrections);
}

bool Predictor::Keeps(int m, int n, const Demand& demand, const ScalingPolicy& policy, double share,
                      const Corrections& corrections, double tail) const {
  if (n < tables_->fewest_experts) return false;
  const double z = NormalQuantile(policy.tpot.percentile);
  const double limit = share * policy.tpot.seconds;
  const auto load_at = [&](double tpot) {
    return LoadAt(demand, RowsAt(demand, tpot, z).high, PromptRowsAt(demand, tpot));
  };
  const auto step_at = [&](double tpot) {
    return tail * tables_->Shortest(m, n, load_at(tpot), corrections);
  };
  double tpot = limit;
  if (!(step_at(tpot) <= tpot)) return false;
  const double most_keys = m * tables_->KvTokens(demand);
  const double most_rows = static_cast<double>(m) * policy.max_batch_per_attention;
  const auto fits = [&] {
    const Rows rows = RowsAt(demand, tpot, z);
    return rows.high <= most_rows * share &&
           rows.of_keys * tables_->KeysOfOne(demand) <= most_keys * share;
  };
  const auto is_in_time = [&] {
    if (!policy.ttft) return true;
    const double step = PromptStep(policy);
    const double needed =
        PromptRowsNeeded(m * tables_->options.most_rows_per_attention, [&](double prompts) {
          return TimeToFirstToken(QueueOf(demand, tables_->Servers(m), prompts, step, tpot),
                                  policy.ttft->percentile) <= share * policy.ttft->seconds;
        });
    if (needed == 0) return true;
    if (needed == kInfinite) return false;
    const double rows = RowsAt(demand, tpot, z).high;
    return tables_->Shortest(m, n, LoadAt(demand, rows, needed), corrections) <= step;
  };
  // Memory, batch limit and first token are judged at the actual TPOT, which is below the limit. At
  // the limit they are all worse: what is kept there needs no search.
  if (fits() && is_in_time()) return true;
  tpot = SteadyTpot(limit, step_at);
  return fits() && is_in_time();
}

bool Predictor::MayKeep(int fewest, int m, int n, const Demand& demand, const ScalingPolicy& policy,
                        double share, const Corrections& corrections, double tail) const {
  if (n < tables_->fewest_experts) return false;
  const double z = NormalQuantile(policy.tpot.percentile);
  const double limit = share * policy.tpot.seconds;
  const auto step_at = [&](double tpot) {
    const StepLoad load = LoadAt(demand, RowsAt(demand, tpot, z).high, PromptRowsAt(demand, tpot));
    return tail * tables_->LeastStep(fewest, m, n, load, corrections);
  };
  if (!(step_at(limit) <= limit)) return false;
  const auto fits = [&](double tpot) {
    const Rows rows = RowsAt(demand, tpot, z);
    return rows.high <= static_cast<double>(m) * policy.max_batch_per_attention * share &&
           rows.of_keys * tables_->KeysOfOne(demand) <= m * tables_->KvTokens(demand) * share;
  };
  return fits(limit) || fits(SteadyTpot(limit, step_at));
}

Prediction Predictor::Steady(int m, int n, const Demand& demand, const ScalingPolicy& policy,
                             const Corrections& corrections, double tail, int split) const {
  const double z = NormalQuantile(policy.tpot.percentile);
  const double target = policy.tpot.seconds;
  const auto load_at = [&](double tpot) {
    return LoadAt(demand, RowsAt(demand, tpot, z).high, PromptRowsAt(demand, tpot));
  };
  Prediction result;
  result.cost = CostOf(m, n);
  const auto step_at = [&](double tpot) {
    return tail * tables_->Shortest(m, n, load_at(tpot), corrections, split);
  };
  // The TPOT that is consistent with the load it causes, by bisection up to 16 times the target.
  double low = 0;
  double high = target;
  while (high < 16 * target && step_at(high) > high) {
    low = high;
    high *= 2;
  }
  const bool is_carried = step_at(high) <= high;
  if (is_carried) {
    high = Halve({low, high}, 16, [&](double tpot) { return step_at(tpot) <= tpot; }).high;
  }
  const Rows rows = RowsAt(demand, high, z);
  result.how =
      tables_->Of(m, n, tables_->BestVariant(m, n, load_at(high), corrections, split).first);
  result.batch = rows.mean;
  result.load = LoadAt(demand, rows.mean, demand.prompt_tokens_per_second * high);
  result.times = tables_->Step(result.how, result.load, corrections);
  result.tpot_seconds = is_carried ? high : kInfinite;
  result.kv_share = rows.of_keys * tables_->KeysOfOne(demand) / (m * tables_->KvTokens(demand));
  result.batch_share = rows.high / m / policy.max_batch_per_attention;
  const double prompt_step = PromptStep(policy);
  const double prompts =
      PromptRowsWithin(prompt_step, m * tables_->options.most_rows_per_attention, [&](double p) {
        return tables_->Shortest(m, n, LoadAt(demand, rows.high, p), corrections, split);
      });
  const PromptLoad queue = QueueOf(demand, tables_->Servers(m), prompts, prompt_step, high);
  result.prefill_share = PrefillUtilisation(queue);
  result.pressure = std::max({result.tpot_seconds / target, result.kv_share, result.batch_share});
  if (policy.ttft) {
    result.ttft_seconds = is_carried ? TimeToFirstToken(queue, policy.ttft->percentile) : kInfinite;
    result.pressure = std::max(result.pressure, result.ttft_seconds / policy.ttft->seconds);
  }
  if (n < tables_->fewest_experts) result.pressure = kInfinite;
  return result;
}

int Predictor::FewestExperts() const {
  return tables_->fewest_experts;
}

bool Predictor::Keeps(const Counts& c, const Demand& demand, const ScalingPolicy& policy,
                      double share, const Corrections& corrections, double tail) const {
  return Keeps(c.m, c.n, ShareOf(demand, c.pools), policy, share, corrections, tail);
}

Prediction Predictor::Steady(const Counts& c, const Demand& demand, const ScalingPolicy& policy,
                             const Corrections& corrections, double tail, int split) const {
  Prediction result = Steady(c.m, c.n, ShareOf(demand, c.pools), policy, corrections, tail, split);
  result.how.pools = c.pools;
  result.cost *= c.pools;
  result.batch *= c.pools;
  return result;
}

double Predictor::CostOf(const Counts& c) const {
  return c.pools * CostOf(c.m, c.n);
}

int Predictor::GpusOf(const Counts& c) const {
  return c.pools * GpusOf(c.m, c.n);
}

double Predictor::CostOf(int m, int n) const {
  const Setting& s = tables_->setting;
  return m * tables_->options.tp_attention * s.attention.hardware.price +
         n * tables_->options.tp_experts * s.experts.hardware.price;
}

int Predictor::GpusOf(int m, int n) const {
  return m * tables_->options.tp_attention + n * tables_->options.tp_experts;
}

double Predictor::KvTokensPerAttention() const {
  return tables_->kv_tokens;
}

int Predictor::SlotsPerExpert(int n) const {
  return tables_->SlotsOf(n);
}

std::string NameOf(const Predictor& predictor, const Counts& counts) {
  if (predictor.Whole() != nullptr) {
    return std::to_string(counts.pools) + " x " + std::to_string(counts.m) + " GPUs";
  }
  Configuration how;
  how.m = counts.m;
  how.n = counts.n;
  how.pools = counts.pools;
  return NameOf(how);
}

const Setting& Predictor::setting() const {
  return tables_->setting;
}

const PredictorOptions& Predictor::options() const {
  return tables_->options;
}

}  // namespace janus::controllers
