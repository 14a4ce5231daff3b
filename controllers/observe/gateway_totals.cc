#include "controllers/observe/gateway_totals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "common/format.h"

namespace janus::controllers {
namespace {

using Totals = GatewayTotals::Totals;
using Known = GatewayTotals::Known;

// After which a gateway that no instance tells of is forgotten. Instances tell of one for ten
// minutes after it has gone.
constexpr double kForgotten_s = 3600;
// More in one interval than any service has: the counter is broken.
constexpr double kMostAtOnce = 1e12;

constexpr std::array kSums = {&Totals::arrived,
                              &Totals::unread,
                              &Totals::prompt_tokens,
                              &Totals::prompt_squares,
                              &Totals::cached_prompt_tokens,
                              &Totals::finished,
                              &Totals::output_tokens};

// `to` plus a share of `more`.
void Add(const Totals& more, double share, Totals& to) {
  for (double Totals::*const sum : kSums) to.*sum += share * more.*sum;
}

struct Difference {
  Totals totals;
  double ended = 0;
  LatencyPairs latencies;
};

struct Counter {
  const char* name;
  uint64_t GatewayCounts::*of;
  double most;  // in one interval
};
constexpr Counter kCounters[] = {
    {"arrived", &GatewayCounts::arrived, kMostAtOnce},
    {"unread", &GatewayCounts::unread, kMostAtOnce},
    {"prompt_tokens", &GatewayCounts::prompt_tokens, kMostAtOnce},
    // Prompts have up to 2^20 tokens or so.
    {"prompt_squares", &GatewayCounts::prompt_squares, kMostAtOnce * 1e6},
    {"cached_prompt_tokens", &GatewayCounts::cached_prompt_tokens, kMostAtOnce},
    {"refused", &GatewayCounts::refused, kMostAtOnce},
    {"failed", &GatewayCounts::failed, kMostAtOnce},
    {"finished", &GatewayCounts::finished, kMostAtOnce},
    {"output_tokens", &GatewayCounts::output_tokens, kMostAtOnce},
};

// What of a report cannot be, whatever came before; empty: nothing.
std::string Unsound(const GatewayCounts& now) {
  for (const auto& [name, value] :
       {std::pair("age_seconds", now.age_seconds),
        std::pair("oldest_waiting_seconds", now.oldest_waiting_seconds)}) {
    if (!(std::isfinite(value) && value >= 0)) return Format("%s is %g", name, value);
  }
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  if (static_cast<double>(std::max(now.waiting, now.waiting_prompt_tokens)) > kMostAtOnce) {
    return Format("waiting is %llu with %llu prompt tokens", number(now.waiting),
                  number(now.waiting_prompt_tokens));
  }
  if (now.latencies.total() != now.finished) {
    return Format("it has latencies of %llu requests, and %llu finished",
                  number(now.latencies.total()), number(now.finished));
  }
  return "";
}

Result<Difference> Between(const GatewayCounts& before, const GatewayCounts& now) {
  for (const Counter& counter : kCounters) {
    const uint64_t then = before.*counter.of;
    const uint64_t value = now.*counter.of;
    if (value < then || static_cast<double>(value - then) > counter.most) {
      return InvalidArgument(Format("%s went from %llu to %llu", counter.name,
                                    static_cast<unsigned long long>(then),
                                    static_cast<unsigned long long>(value)));
    }
  }
  std::optional<LatencyPairs> latencies = now.latencies.Since(before.latencies);
  if (!latencies) return InvalidArgument("its latencies went back");
  const auto grown = [&](uint64_t GatewayCounts::*of) {
    return static_cast<double>(now.*of - before.*of);
  };
  Difference out;
  out.totals = {grown(&GatewayCounts::arrived),
                grown(&GatewayCounts::unread),
                grown(&GatewayCounts::prompt_tokens),
                grown(&GatewayCounts::prompt_squares),
                grown(&GatewayCounts::cached_prompt_tokens),
                grown(&GatewayCounts::finished),
                grown(&GatewayCounts::output_tokens)};
  out.ended = static_cast<double>(now.ended() - before.ended());
  out.latencies = *std::move(latencies);
  return out;
}

Totals At(const std::vector<GatewayTotals::Sample>& samples, double time) {
  const auto after =
      std::ranges::lower_bound(samples, time, {}, &GatewayTotals::Sample::time_seconds);
  if (after == samples.end()) return samples.back().totals;
  if (after == samples.begin()) return samples.front().totals;
  const auto& before = *(after - 1);
  const double share = (time - before.time_seconds) / (after->time_seconds - before.time_seconds);
  Totals out = before.totals;
  Add(after->totals, share, out);
  Add(before.totals, -share, out);
  return out;
}

// What was counted from `since` until now, at an even rate.
void AddEvenly(const Totals& more, double since, double now,
               std::vector<GatewayTotals::Sample>& samples) {
  for (GatewayTotals::Sample& sample : samples) {
    if (sample.time_seconds <= since) continue;
    const double share =
        sample.time_seconds < now ? (sample.time_seconds - since) / (now - since) : 1;
    Add(more, share, sample.totals);
  }
}

// Where a gateway's count began, as far as it is known. Nothing: it is not.
std::optional<Known> Base(const GatewayCounts& now, double time, const GatewayTotals& totals) {
  if (const auto before = totals.known.find(now.gateway_id); before != totals.known.end()) {
    return before->second;
  }
  const double began = time - now.age_seconds;
  if (began < totals.first_time_seconds) return std::nullopt;
  Known zero;
  zero.time_seconds = began;
  return zero;
}

// A place for this look among the samples, with the totals of the one before.
void Append(double time, double keep_seconds, std::vector<GatewayTotals::Sample>& samples) {
  const Totals totals = samples.empty() ? Totals() : samples.back().totals;
  // Looks that come faster than the windows need take each other's place: every second sample is at
  // least so much later, and four are at the ends.
  const double least = 2 * keep_seconds / static_cast<double>(GatewayTotals::kMostSamples - 4);
  if (samples.size() >= 2 && time - samples[samples.size() - 2].time_seconds < least) {
    samples.pop_back();
  }
  samples.push_back({time, totals});
  // One before the longest window stays, to know what came since its begin.
  while (samples.size() > 2 && samples[1].time_seconds <= time - keep_seconds) {
    samples.erase(samples.begin());
  }
}

void Forget(double time, std::map<std::string, Known>& known) {
  std::erase_if(known,
                [&](const auto& one) { return time - one.second.time_seconds > kForgotten_s; });
  while (known.size() > GatewayTotals::kMostKnown) {
    known.erase(std::ranges::min_element(known, {},
                                         [](const auto& one) { return one.second.time_seconds; }));
  }
}

// One gateway of a look.
Status TakeOne(const GatewayCounts& now, double time, bool is_first, GatewayTotals& totals) {
  if (now.reports == 0) {
    if (!now.is_attached) return OkStatus();
    return Unavailable(
        "it has not reported what it counts, as gateways of older versions never do");
  }
  if (std::string unsound = Unsound(now); !unsound.empty()) return InvalidArgument(unsound);
  const std::optional<Known> base = Base(now, time, totals);
  if (base && base->counts.reports > now.reports) return OkStatus();  // an older report
  Known& known = totals.known[now.gateway_id];
  known = {now, time};
  if (!base) {
    if (is_first || !now.is_attached) return OkStatus();
    return Unavailable(
        Format("it has counted for %.0f s and is seen for the first time", now.age_seconds));
  }
  if (base->is_broken) return Unavailable("its counts are sound again, and need a second look");
  Result<Difference> more = Between(base->counts, now);
  if (!more.ok()) {
    known.is_broken = true;
    return more.status();
  }
  AddEvenly(more->totals, base->time_seconds, time, totals.samples);
  totals.ended += more->ended;
  totals.latencies += more->latencies;
  return OkStatus();
}

}  // namespace

Status Take(const GatewayReports& reports, double time_seconds, double keep_seconds,
            GatewayTotals& totals) {
  const bool is_first = totals.samples.empty();
  if (is_first) totals.first_time_seconds = time_seconds;
  Append(time_seconds, keep_seconds, totals.samples);
  Status first;
  bool is_any = false;
  for (const GatewayCounts& one : reports.gateways) {
    is_any = is_any || one.is_attached;
    Status taken = TakeOne(one, time_seconds, is_first, totals);
    if (first.ok() && !taken.ok()) first = taken.Annotate("gateway " + one.gateway_id);
  }
  Forget(time_seconds, totals.known);
  if (!first.ok()) return first;
  if (reports.left_out > 0) {
    return Unavailable(
        Format("%llu gateways are more than an instance keeps the counts of (%zu)",
               static_cast<unsigned long long>(reports.left_out + reports.gateways.size()),
               GatewayReports::kMost));
  }
  if (!is_any) {
    return Unavailable(
        "no gateway is attached to an attention instance, so what arrives is not known");
  }
  return OkStatus();
}

Recent Over(const GatewayTotals& totals, double seconds) {
  const double now = totals.samples.back().time_seconds;
  const double begin = std::max(now - seconds, totals.samples.front().time_seconds);
  Recent out{now - begin, totals.samples.back().totals};
  Add(At(totals.samples, begin), -1, out.totals);
  // Sums of rounded shares may differ by less than a request although nothing came.
  for (double Totals::*const sum : kSums) out.totals.*sum = std::max(out.totals.*sum, 0.0);
  return out;
}

}  // namespace janus::controllers
