#include "controllers/scaling/demand.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {
namespace {

// The expected context counts as this many sequences, so that a few running ones do not distort the
// mean.
constexpr double kPriorSequences = 8;
// With a decision per second this is more than eight minutes.
constexpr size_t kMostSamples = 512;

// Tokens of a prompt. The last one is always computed here: its step gives the first output token.
constexpr double kLastToken = 1.5;

// The keys of a decoding sequence. If they are not counted separately, waiting requests may hold
// keys, too; after a preemption nearly all keys are theirs. The estimate is then the larger of an
// even share of the keys and what the lengths of decoding sequences explain.
double ContextOf(const World& world, double prompt, double output) {
  const double expected = prompt + output / 2;
  const double used = world.now.kv_tokens_used;
  const double running = world.now.running;
  const double even = running > 0 ? used * running / (running + world.now.waiting) : 0;
  const double keys =
      world.now.kv_tokens_running.value_or(std::max(even, std::min(used, running * expected)));
  return std::max((keys + kPriorSequences * expected) / (running + kPriorSequences), 1.0);
}

// 0: not known.
double MeasuredStep(const World& world) {
  const bool is_measured = world.step && world.step->seconds.step > 0;
  return is_measured ? world.step->seconds.step : world.observed.tpot_seconds.value_or(0);
}

double StepSeconds(const World& world, const ScalingPolicy& policy) {
  return std::min(MeasuredStep(world), policy.tpot.seconds);
}

// Not what decisions react to: these have only the intervals that exceed the minute, and a load
// that is watched by them alone looks like bursts.
double ArrivingPerMinute(const World& world) {
  return world.arrivals[world.arrivals.size() > 1 ? 1 : 0].requests_per_second;
}

// The load that the TPOTs of requests of `life` seconds follow. Sequences follow arrivals, weighted
// by the share that still runs. A request's TPOT is a mean over its life, so its load is averaged
// once more. Samples are oldest first, at even intervals.
double LoadOver(double life, const Memory::Sample& now, const std::vector<Memory::Sample>& before) {
  if (life <= 0) return now.load;
  double load = now.load;
  double weights = 1;
  double intervals = static_cast<double>(before.size());
  for (const Memory::Sample& sample : before) {
    const double weight =
        std::exp((sample.time_seconds - now.time_seconds) / life) * (1 + intervals);
    intervals -= 1;
    load += weight * sample.load;
    weights += weight;
  }
  return load / weights;
}

// Of requests that arrive evenly during a start, the share that would also end during it.
double ShareThatEnds(double start, double life) {
  if (life <= 0) return 1;
  const double lives = start / life;
  return lives > 0 ? 1 - (1 - std::exp(-lives)) / lives : 0;
}

int BinOf(const ForecastPolicy& policy, double time) {
  const double share = std::fmod(time, policy.season_seconds) / policy.season_seconds;
  return std::min(static_cast<int>(share * policy.bins), policy.bins - 1);
}

template <class Pick>
Demand Combine(const std::vector<Memory::Sample>& samples, double from_seconds, const Demand& now,
               const Pick& pick) {
  Demand all = now;
  double keys = now.context * now.output_tokens_per_second;
  for (const Memory::Sample& sample : samples) {
    if (sample.time_seconds < from_seconds) continue;
    const Demand& one = sample.demand;
    all.requests_per_second = pick(all.requests_per_second, one.requests_per_second);
    all.prompt_tokens_per_second = pick(all.prompt_tokens_per_second, one.prompt_tokens_per_second);
    all.output_tokens_per_second = pick(all.output_tokens_per_second, one.output_tokens_per_second);
    all.least_running = pick(all.least_running, one.least_running);
    keys = pick(keys, one.context * one.output_tokens_per_second);
  }
  if (all.output_tokens_per_second > 0) {
    all.context = std::max(keys / all.output_tokens_per_second, 1.0);
  }
  return all;
}

// The latest sample that is old enough and had been preceded by `known_seconds` of the service.
const Memory::Sample* LatestBefore(const Memory& memory, double time_seconds,
                                   double known_seconds) {
  const auto after =
      std::ranges::upper_bound(memory.samples, time_seconds, {}, &Memory::Sample::time_seconds);
  if (after == memory.samples.begin()) return nullptr;
  const Memory::Sample& sample = *(after - 1);
  const bool is_whole = sample.time_seconds - memory.first_time_seconds >= known_seconds;
  return is_whole ? &sample : nullptr;
}

// Sets the means over the last `window_seconds`.
void SetLevels(std::vector<Memory::Sample>& samples, double window_seconds) {
  Memory::Sample& now = samples.back();
  double load = 0, keys = 0, count = 0;
  for (const Memory::Sample& sample : samples) {
    if (sample.time_seconds <= now.time_seconds - window_seconds) continue;
    load += sample.load;
    keys += sample.keys;
    count += 1;
  }
  now.level = load / count;
  now.key_level = keys / count;
}

// More caution must not leave less room, even if too little is known yet about the larger share.
double RoomOf(const BurstHistory& history, const ErrorBudget& budget, const ScalingPolicy& policy) {
  const double room = BurstAt(history, ShareWithRoom(budget, policy), policy.most_burst);
  const double usual = BurstAt(history, policy.tpot.percentile, policy.most_burst);
  return budget.caution > 0 ? std::max(room, usual) : std::min(room, usual);
}

// A move leaves memory free up to the aim, and a burst finds that room, too: it is not asked for
// twice. For the load this does not hold, as a TPOT is not proportional to it.
double KeyRoomOf(const Memory& memory, const ErrorBudget& budget, const ScalingPolicy& policy) {
  return std::max(RoomOf(memory.key_bursts, budget, policy) * AimOf(budget, policy), 1.0);
}

}  // namespace

Demand ArrivingDemand(const World& world, double output_tokens) {
  Demand demand;
  if (world.arrivals.empty()) return demand;
  const ArrivalWindow& window = world.arrivals.front();
  const double computed = std::clamp(1 - world.lengths.prompt_cached_share, 0.0, 1.0);
  const double requests = window.requests_per_second;
  const double prompt = requests > 0 ? window.prompt_tokens_per_second / requests : 0;
  demand.requests_per_second = requests;
  demand.prompt_tokens_per_second = computed * window.prompt_tokens_per_second;
  demand.output_tokens_per_second = requests * output_tokens;
  demand.context = ContextOf(world, prompt, output_tokens);
  demand.prompt_squared_variation = world.lengths.prompt_squared_variation;
  demand.prompt_tokens_at_percentile = computed * world.lengths.prompt_tokens_at_percentile;
  demand.least_running = world.now.running;
  if (world.attention.ready > 0) {
    demand.kv_tokens_per_attention = world.now.kv_tokens_capacity / world.attention.ready;
  }
  return demand;
}

bool ComputesPrompts(const World& world) {
  if (world.arrivals.empty()) return false;
  const ArrivalWindow& window = world.arrivals.front();
  const double computed = 1 - std::min(world.lengths.prompt_cached_share, 1.0);
  return computed * window.prompt_tokens_per_second > kLastToken * window.requests_per_second;
}

double LifeSeconds(const World& world, const ScalingPolicy& policy, double output_tokens) {
  if (world.arrivals.empty() || ComputesPrompts(world)) return 0;
  return output_tokens * StepSeconds(world, policy);
}

double LevelSeconds(const ScalingPolicy& policy) {
  return 600 / policy.times_faster;
}

double LearnsLengthsFor(const World& world, const ScalingPolicy& policy, double output_tokens) {
  // Few requests are longer than ten times the mean.
  constexpr double kLives = 10;
  return std::min(kLives * output_tokens * StepSeconds(world, policy), LevelSeconds(policy));
}

double EndingPerSecond(const World& world, double output_tokens) {
  const double life = output_tokens * MeasuredStep(world);
  return life > 0 ? world.now.running / life : 0;
}

Demand WhenReady(const World& world, const ScalingPolicy& policy, double output_tokens,
                 const UntilReady& until) {
  const Demand demand = ArrivingDemand(world, output_tokens);
  const double arriving = demand.output_tokens_per_second;
  const double life = LifeSeconds(world, policy, output_tokens);
  double factor = until.growth;
  if (life > 0 && arriving > 0) {
    const double stays = std::exp(-until.start_seconds / life);
    const double running = world.now.running / StepSeconds(world, policy);
    factor = stays * running / arriving + 1 - stays +
             (until.growth - 1) * ShareThatEnds(until.start_seconds, life);
  }
  Demand then = Scaled(demand, factor);
  then.least_running = demand.least_running;
  return then;
}

double BacklogOf(const World& world, const ScalingPolicy& policy) {
  // A tenth of the target: a request that waits the whole target misses it, and a tolerated queue
  // grows.
  constexpr double kShare = 0.1;
  const double target = policy.ttft ? policy.ttft->seconds : 1 / policy.times_faster;
  const double patience = kShare * target;
  const double usual = world.arrivals.front().requests_per_second * patience;
  return std::max(world.now.waiting - usual - 2 * std::sqrt(usual) - 2, 0.0);
}

Demand WithBacklog(Demand demand, const World& world, const ScalingPolicy& policy,
                   double output_tokens, const UntilReady& until) {
  if (world.arrivals.empty()) return demand;
  double backlog = BacklogOf(world, policy);
  if (backlog <= 0) return demand;
  // In the m-large trace a burst rarely lasts for a whole start.
  constexpr double kLasts = 0.5;
  const double life = LifeSeconds(world, policy, output_tokens);
  const double start = until.start_seconds;
  // Arrivals that would still run then are part of the demand already.
  const double more = (world.arrivals.front().requests_per_second - until.served_per_second) *
                      start * ShareThatEnds(start, life);
  backlog = std::max(backlog + (more > 0 ? kLasts : 1.0) * more, 0.0);
  const double rate = backlog / std::max({policy.recovery_seconds, life, start});
  demand.requests_per_second += rate;
  demand.prompt_tokens_per_second += rate * world.now.waiting_prompt_tokens / world.now.waiting;
  demand.output_tokens_per_second += rate * output_tokens;
  return demand;
}

Demand PeakSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                 const Demand& now) {
  return Combine(samples, from_seconds, now, [](double a, double b) { return std::max(a, b); });
}

Demand LeastSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                  const Demand& now) {
  return Combine(samples, from_seconds, now, [](double a, double b) { return std::min(a, b); });
}

void RememberLoad(const World& world, const Demand& now, const ScalingPolicy& policy,
                  double start_seconds, double window_seconds, Memory& memory) {
  const double time = world.time_seconds;
  Memory::Sample sample;
  sample.time_seconds = time;
  sample.demand = now;
  // Waiting requests are not part of the load: they come from an overload, and would ask for room
  // for another one.
  sample.load = ArrivingPerMinute(world) * memory.output_tokens;
  // Divided by the step, as sequences stay longer if steps are longer. Without a measured step: the
  // keys that the load implies.
  const bool is_measured = world.step && world.step->seconds.step > 0;
  sample.keys =
      now.context * (is_measured ? world.now.running / world.step->seconds.step : sample.load);
  const double learns = LearnsLengthsFor(world, policy, memory.output_tokens);
  const double level_seconds = LevelSeconds(policy);
  sample.over_life =
      LoadOver(LifeSeconds(world, policy, memory.output_tokens), sample, memory.samples);
  const double elapsed = memory.samples.empty() ? 0 : time - memory.samples.back().time_seconds;
  const double kept = std::max({window_seconds, level_seconds, 2 * start_seconds});
  std::erase_if(memory.samples,
                [&](const Memory::Sample& s) { return s.time_seconds < time - kept; });
  if (memory.samples.size() >= kMostSamples) memory.samples.erase(memory.samples.begin());
  memory.samples.push_back(sample);
  SetLevels(memory.samples, level_seconds);
  // The present level is that around the middle of its window. The time in which lengths are
  // learned does not count.
  const Memory::Sample* const middle =
      LatestBefore(memory, time - level_seconds / 2, level_seconds / 2 + learns);
  if (middle == nullptr) return;
  const auto see = [&](BurstHistory& bursts, double load, double level) {
    if (level > 0) bursts = Seen(std::move(bursts), load / level, elapsed * policy.times_faster);
  };
  see(memory.bursts, middle->over_life, memory.samples.back().level);
  see(memory.key_bursts, middle->keys, memory.samples.back().key_level);
}

Demand WithRoom(const Demand& demand, double since_seconds, const Memory& memory,
                const ErrorBudget& budget, const ScalingPolicy& policy) {
  const double tokens = demand.output_tokens_per_second;
  if (policy.most_burst <= 1 || memory.samples.empty() || tokens <= 0) return demand;
  double level = memory.samples.back().level;
  double key_level = memory.samples.back().key_level;
  for (const Memory::Sample& sample : memory.samples) {
    if (sample.time_seconds < since_seconds) continue;
    level = std::max(level, sample.level);
    key_level = std::max(key_level, sample.key_level);
  }
  const double burst = RoomOf(memory.bursts, budget, policy);
  Demand with = Scaled(demand, std::max(level / tokens, 1 / burst));
  with.least_running = demand.least_running;
  with.burst = burst;
  with.key_burst = KeyRoomOf(memory, budget, policy);
  // Keys have a level of their own. When a load falls, its long sequences stay: their context times
  // the level of the load would be keys that were never there.
  const double keys = std::max(key_level, demand.context * tokens / with.key_burst);
  with.context = std::max(keys / with.output_tokens_per_second, 1.0);
  return with;
}

Memory::Forecast Observe(Memory::Forecast forecast, const ForecastPolicy& policy,
                         double time_seconds, double elapsed_seconds, double rate) {
  if (policy.kind == ForecastKind::kNone) return forecast;
  if (elapsed_seconds <= 0) {
    forecast.level = rate;
  } else {
    const double level = forecast.level;
    const double new_share = 1 - std::exp(-elapsed_seconds / 60);
    const double trend_share = 1 - std::exp(-elapsed_seconds / 300);
    forecast.level =
        new_share * rate + (1 - new_share) * (level + forecast.trend * elapsed_seconds);
    forecast.trend = trend_share * (forecast.level - level) / elapsed_seconds +
                     (1 - trend_share) * forecast.trend;
  }
  if (policy.kind != ForecastKind::kSeasonal) return forecast;
  forecast.season.resize(static_cast<size_t>(policy.bins), 0);
  const int bin = BinOf(policy, time_seconds);
  if (bin != forecast.bin && forecast.bin >= 0 && forecast.bin < policy.bins &&
      forecast.bin_samples > 0) {
    double& kept = forecast.season[static_cast<size_t>(forecast.bin)];
    const double mean = forecast.bin_sum / forecast.bin_samples;
    kept = kept > 0 ? (kept + mean) / 2 : mean;
    forecast.bin_sum = forecast.bin_samples = 0;
  }
  forecast.bin = bin;
  forecast.bin_sum += rate;
  forecast.bin_samples += 1;
  return forecast;
}

double GrowthWithin(const Memory::Forecast& forecast, const ForecastPolicy& policy,
                    double time_seconds, double rate, double horizon_seconds) {
  if (policy.kind == ForecastKind::kNone || rate <= 0) return 1;
  constexpr double kMost = 4;
  if (policy.kind == ForecastKind::kSeasonal &&
      static_cast<int>(forecast.season.size()) == policy.bins) {
    const double width = policy.season_seconds / policy.bins;
    const int first = BinOf(policy, time_seconds);
    const double now = forecast.season[static_cast<size_t>(first)];
    double most = now;
    const int ahead = std::min(static_cast<int>(std::ceil(horizon_seconds / width)), policy.bins);
    for (int i = 1; i <= ahead; ++i) {
      most = std::max(most, forecast.season[static_cast<size_t>((first + i) % policy.bins)]);
    }
    if (now > 0) return std::clamp(most / now, 1.0, kMost);
  }
  // A trend is extrapolated for at most ten minutes.
  const double at = forecast.level + forecast.trend * std::min(horizon_seconds, 600.0);
  return std::clamp(at / rate, 1.0, kMost);
}

}  // namespace janus::controllers
