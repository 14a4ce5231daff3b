#include "controllers/observe/world_from.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "common/format.h"
#include "controllers/scaling/arrivals.h"

namespace janus::controllers {
namespace {

// More tokens or requests than any service holds: the number is broken.
constexpr uint64_t kMostHeld = uint64_t{1} << 48;

std::string NameOf(Role role, int rank) {
  return std::string(ToString(role)) + "-" + std::to_string(rank);
}

Status CheckNumbers(const InstanceStatistics& one) {
  const LoadCounts& load = *one.load;
  const std::pair<const char*, double> seconds[] = {
      {"attention_seconds", load.attention_seconds},
      {"exchange_seconds", load.exchange_seconds},
      {"step_seconds", load.step_seconds},
      {"gate_seconds", load.gate_seconds},
      {"aebs_seconds", load.aebs_seconds},
      {"expert_seconds", load.expert_seconds},
      {"oldest_waiting_seconds", load.oldest_waiting_seconds}};
  for (const auto& [name, value] : seconds) {
    if (!(std::isfinite(value) && value >= 0)) {
      return InvalidArgument(Format("%s is %g; want a number of at least 0", name, value));
    }
  }
  const std::pair<const char*, uint64_t> counts[] = {
      {"decoding", load.decoding},
      {"decoding_kv_tokens", load.decoding_kv_tokens},
      {"awaiting", load.awaiting},
      {"waiting_prompt_tokens", load.waiting_prompt_tokens},
      {"kv_tokens_used", one.kv_tokens_used},
      {"kv_tokens_capacity", one.kv_tokens_capacity}};
  for (const auto& [name, value] : counts) {
    if (value > kMostHeld) {
      return InvalidArgument(Format("%s is %llu", name, static_cast<unsigned long long>(value)));
    }
  }
  return OkStatus();
}

Status CheckInstance(const InstanceStatistics& one) {
  if (!one.load) return Unavailable("it does not count its load; its version is too old");
  if (!one.holding.empty()) return Unavailable("it computes nothing: " + one.holding);
  return CheckNumbers(one);
}

// Every member of the epoch has to be there: what one holds or computes is part of the load.
Status CheckInstances(const Look& look) {
  const Statistics& all = look.statistics;
  if (!all.silent.empty()) {
    return Unavailable(all.silent[0].name + " does not answer: " + all.silent[0].why);
  }
  for (const auto& [role, ready] : {std::pair(Role::kAttention, look.attention.ready),
                                    std::pair(Role::kExperts, look.experts.ready)}) {
    for (int rank = 0; rank < ready; ++rank) {
      const auto one = std::ranges::find_if(all.instances, [&](const InstanceStatistics& i) {
        return i.role == role && i.rank.value == rank && i.epoch == all.epoch;
      });
      if (one == all.instances.end()) {
        return Unavailable(NameOf(role, rank) + " tells nothing of epoch " +
                           std::to_string(all.epoch));
      }
      JANUS_RETURN_IF_ERROR(CheckInstance(*one).Annotate(NameOf(role, rank)));
    }
  }
  return OkStatus();
}

Occupancy OccupancyOf(const Statistics& all) {
  Occupancy now;
  double running_keys = 0;
  for (const InstanceStatistics& one : all.instances) {
    if (one.role != Role::kAttention || one.epoch != all.epoch || !one.load) continue;
    const LoadCounts& load = *one.load;
    now.running += static_cast<double>(load.decoding);
    now.waiting += static_cast<double>(load.awaiting);
    now.waiting_prompt_tokens += static_cast<double>(load.waiting_prompt_tokens);
    now.oldest_waiting_seconds = std::max(now.oldest_waiting_seconds, load.oldest_waiting_seconds);
    now.kv_tokens_used += static_cast<double>(one.kv_tokens_used);
    now.kv_tokens_capacity += static_cast<double>(one.kv_tokens_capacity);
    running_keys += static_cast<double>(load.decoding_kv_tokens);
  }
  now.kv_tokens_running = running_keys;
  for (const GatewayCounts& one : all.gateways.gateways) {
    if (!one.is_attached) continue;
    now.waiting += static_cast<double>(one.waiting);
    now.waiting_prompt_tokens += static_cast<double>(one.waiting_prompt_tokens);
    now.oldest_waiting_seconds = std::max(now.oldest_waiting_seconds, one.oldest_waiting_seconds);
  }
  return now;
}

std::vector<ArrivalWindow> ArrivalsOf(const GatewayTotals& totals,
                                      const std::vector<double>& windows) {
  const Recent longest = Over(totals, windows.back());
  const double prompt =
      longest.totals.arrived > 0 ? longest.totals.prompt_tokens / longest.totals.arrived : 0;
  std::vector<ArrivalWindow> out;
  for (const double window : windows) {
    const Recent recent = Over(totals, window);
    const GatewayTotals::Totals& came = recent.totals;
    // What was refused unread is demand, too; its prompts are taken to be like the others.
    out.push_back({recent.seconds, (came.arrived + came.unread) / recent.seconds,
                   (came.prompt_tokens + came.unread * prompt) / recent.seconds});
  }
  if (out.size() > 1) out[0] = ReactedTo(out[0], out[1]);
  return out;
}

Lengths LengthsOf(const GatewayTotals::Totals& came) {
  Lengths lengths;
  if (came.finished > 0) lengths.output_tokens = came.output_tokens / came.finished;
  if (came.prompt_tokens > 0) {
    lengths.prompt_squared_variation = std::max(
        came.prompt_squares * came.arrived / (came.prompt_tokens * came.prompt_tokens) - 1, 0.0);
    lengths.prompt_cached_share =
        std::clamp(came.cached_prompt_tokens / came.prompt_tokens, 0.0, 1.0);
  }
  return lengths;
}

double Count(const LatencyCounts& counts) {
  return static_cast<double>(
      std::accumulate(counts.counts.begin(), counts.counts.end(), uint64_t{0}));
}

std::optional<double> Percentile(const LatencyCounts& counts, double share) {
  const std::optional<Seconds> at = counts.Percentile(share);
  return at ? std::optional(at->count()) : std::nullopt;
}

Observed ObservedOf(const LatencyPairs& pairs, const ObserveOptions& options) {
  Observed observed;
  const LatencyCounts tpot = pairs.Tpot();
  observed.tpot_requests = Count(tpot);
  observed.tpot_seconds = Percentile(tpot, options.tpot.percentile);
  if (!options.ttft) return observed;
  observed.ttft_requests = static_cast<double>(pairs.total());
  observed.ttft_seconds = Percentile(pairs.Ttft(), options.ttft->percentile);
  return observed;
}

Ended EndedOf(const GatewayTotals& totals, const ObserveOptions& options) {
  const auto ttft = options.ttft ? std::optional(Seconds(options.ttft->seconds)) : std::nullopt;
  const double kept = totals.latencies.Within(ttft, Seconds(options.tpot.seconds));
  return {totals.ended, std::min(kept, totals.ended)};
}

Statistics InstancesOf(const Statistics& all) {
  Statistics out;
  out.epoch = all.epoch;
  out.instances = all.instances;
  for (InstanceStatistics& one : out.instances) one.links = {};
  return out;
}

}  // namespace

Result<World> WorldFrom(const Look& look, const ObserveOptions& options, LookHistory& history) {
  if (history.last_time_seconds && look.time_seconds <= *history.last_time_seconds) {
    return InvalidArgument(Format("the look is of %.3f s, and the last one was of %.3f s",
                                  look.time_seconds, *history.last_time_seconds));
  }
  const bool is_first = !history.last_time_seconds;
  history.last_time_seconds = look.time_seconds;
  const Status gateways = Take(look.statistics.gateways, look.time_seconds,
                               options.windows_seconds.back(), history.gateways);
  const Statistics before = std::exchange(history.last, InstancesOf(look.statistics));
  JANUS_RETURN_IF_ERROR(CheckInstances(look));
  JANUS_RETURN_IF_ERROR(gateways);
  if (is_first) return Unavailable("this is the first look; rates need two");

  World world;
  world.time_seconds = look.time_seconds;
  world.arrivals = ArrivalsOf(history.gateways, options.windows_seconds);
  world.lengths = LengthsOf(Over(history.gateways, options.windows_seconds.back()).totals);
  world.now = OccupancyOf(look.statistics);
  world.observed = ObservedOf(history.gateways.latencies, options);
  world.ended = EndedOf(history.gateways, options);
  history.gateways.ended = 0;
  history.gateways.latencies = {};
  world.step = SampleBetween(before, history.last, look.time_seconds, options.warm_up_steps,
                             look.current.micro_batches, 0);
  if (world.step) {
    // Rows of all instances; the step is that of a mean pool.
    world.step->load.decode_rows /= look.current.pools;
    world.step->load.prompt_rows /= look.current.pools;
  }
  world.current = look.current;
  world.attention = look.attention;
  world.experts = look.experts;
  world.in_flight = look.in_flight;
  world.is_paused = look.is_paused;
  world.is_rolling_out = look.is_rolling_out;
  return world;
}

}  // namespace janus::controllers
