#include "controllers/simulate/observer.h"

#include <algorithm>
#include <cmath>

#include "controllers/scaling/arrivals.h"
#include "controllers/scaling/demand.h"

namespace janus::controllers {
namespace {

void Sum(const Unit::Counters& one, Unit::Counters& all) {
  all.steps += one.steps;
  all.decode_tokens += one.decode_tokens;
  all.prompt_tokens += one.prompt_tokens;
  all.decode_keys += one.decode_keys;
  all.busy_seconds += one.busy_seconds;
}

}  // namespace

void RecentArrivals::Roll(double now) {
  while (buckets_.back().begin + kBucket_s <= now) {
    const double begin = std::max(buckets_.back().begin + kBucket_s,
                                  std::floor((now - kLongest_s) / kBucket_s) * kBucket_s);
    buckets_.push_back({begin, 0, 0, 0, 0});
  }
  while (buckets_.front().begin + kBucket_s <= now - kLongest_s) buckets_.pop_front();
}

void RecentArrivals::Add(const SimulatedRequest& request) {
  Roll(request.arrival);
  Bucket& bucket = buckets_.back();
  const double weight = request.weight;
  const double prompt = request.input;
  bucket.requests += weight;
  bucket.prompt += weight * prompt;
  bucket.prompt_squares += weight * prompt * prompt;
  bucket.cached += weight * request.cached;
}

ArrivalWindow RecentArrivals::Over(double now, double seconds) {
  Roll(now);
  double requests = 0, prompt = 0;
  double since = now;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    if (bucket->begin + kBucket_s / 2 < now - seconds) break;
    requests += bucket->requests;
    prompt += bucket->prompt;
    since = bucket->begin;
  }
  const double covered = std::max(now - since, 1.0);
  return {covered, requests / covered, prompt / covered};
}

double RecentArrivals::PromptSquaredVariation() const {
  double requests = 0, prompt = 0, squares = 0;
  for (const Bucket& bucket : buckets_) {
    requests += bucket.requests;
    prompt += bucket.prompt;
    squares += bucket.prompt_squares;
  }
  return requests > 0 ? std::max(squares * requests / (prompt * prompt) - 1, 0.0) : 1;
}

double RecentArrivals::CachedShare() const {
  double prompt = 0, cached = 0;
  for (const Bucket& bucket : buckets_) {
    prompt += bucket.prompt;
    cached += bucket.cached;
  }
  return prompt > 0 ? cached / prompt : 0;
}

Observer::Observer(const ShapeBook* truth, const Machinery& machinery, const ScalingPolicy& scaling)
    : truth_(truth), machinery_(machinery), scaling_(scaling) {}

Observation Observer::Look(const Fleet& fleet, Recorder& recorder, const Wish& wished, double now) {
  Observation seen;
  seen.wished = wished;
  seen.starting = fleet.CountStarting();
  World& world = seen.world;
  world.time_seconds = now;
  const std::vector<double> windows = ArrivalWindows(scaling_);
  const ArrivalWindow minute = arrivals_.Over(now, windows[1]);
  world.arrivals = {ReactedTo(arrivals_.Over(now, windows[0]), minute), minute,
                    arrivals_.Over(now, RecentArrivals::kLongest_s)};
  const Recorder::Recent recent = recorder.TakeRecent();
  if (recent.finished > 0) {
    // A long memory: within one interval it is chance which requests finish.
    const double mean = recent.output_tokens / recent.finished;
    const double share = std::min(1.0, (now - last_look_) / RecentArrivals::kLongest_s);
    output_tokens_ = output_tokens_ == 0 ? mean : output_tokens_ + share * (mean - output_tokens_);
  }
  last_look_ = now;
  world.lengths.output_tokens = output_tokens_;
  world.lengths.prompt_squared_variation = arrivals_.PromptSquaredVariation();
  world.lengths.prompt_cached_share = arrivals_.CachedShare();
  world.observed.tpot_requests = static_cast<double>(recent.tpot_groups);
  world.observed.ttft_requests = static_cast<double>(recent.ttft_groups);
  world.ended = recent.ended;
  if (recent.tpot_groups > 0) world.observed.tpot_seconds = recent.tpot;
  if (recent.ttft_groups > 0) world.observed.ttft_seconds = recent.ttft;
  LookAtUnits(fleet, now, seen);
  if (fleet.committed().is_separate) {
    LookAtService(fleet, now, world);
  } else {
    LookAtCopies(fleet, now, world);
  }
  World minutes = world;
  minutes.arrivals = {world.arrivals.back()};
  seen.demand = ArrivingDemand(minutes, output_tokens_);
  return seen;
}

void Observer::LookAtUnits(const Fleet& fleet, double now, Observation& seen) {
  double oldest = now;
  Occupancy& all = seen.world.now;
  const bool is_separate = fleet.committed().is_separate;
  double running_keys = 0;
  for (const Fleet::Member& member : fleet.members()) {
    // Load on draining instances does not count for those that stay.
    if (member.is_draining || member.ready_at > now) continue;
    const Unit::Load load = member.unit->Now();
    const auto room = static_cast<double>(member.unit->shape().kv_tokens);
    all.running += static_cast<double>(load.running);
    all.waiting += static_cast<double>(load.waiting);
    all.waiting_prompt_tokens += static_cast<double>(load.waiting_tokens);
    all.kv_tokens_used += static_cast<double>(load.kv_tokens);
    running_keys += static_cast<double>(load.running_kv_tokens);
    all.kv_tokens_capacity += room;
    if (load.waiting > 0) oldest = std::min(oldest, load.oldest_arrival);
    if (is_separate) continue;
    const Unit::Counters& counters = member.unit->counters();
    Unit::Counters& before = counters_[member.id];
    const int64_t steps = counters.steps - before.steps;
    const double busy = counters.busy_seconds - before.busy_seconds;
    before = counters;
    seen.instances.push_back({static_cast<double>(load.kv_tokens) / room,
                              static_cast<double>(load.queued),
                              steps > 0 ? busy / static_cast<double>(steps) : 0});
  }
  all.oldest_waiting_seconds = now - oldest;
  all.kv_tokens_running = running_keys;
}

// Means over the steps since the last observation. Kernels are timed separately. The exchange is
// the time that an attention instance waits beyond the experts' time, which is measurable only with
// one micro-batch.
StepSample Observer::Measure(const Configuration& how, const Unit::Counters& before,
                             const Unit::Counters& after, double now) const {
  const auto steps = static_cast<double>(after.steps - before.steps);
  const auto decoded = static_cast<double>(after.decode_tokens - before.decode_tokens);
  const auto prompts = static_cast<double>(after.prompt_tokens - before.prompt_tokens);
  StepSample sample;
  sample.time_seconds = now;
  sample.steps = steps;
  sample.load = {decoded / steps,
                 decoded > 0 ? (after.decode_keys - before.decode_keys) / decoded : 1,
                 prompts / steps, truth_->prompt_keys()};
  sample.seconds = truth_->TimesOf(how, sample.load);
  if (how.micro_batches > 1) sample.seconds.exchange = 0;
  sample.seconds.step = (after.busy_seconds - before.busy_seconds) / steps;
  return sample;
}

// What the workers of a separated service report.
void Observer::LookAtService(const Fleet& fleet, double now, World& world) {
  const Configuration& how = fleet.committed().how;
  world.current = how;
  world.attention.ready = how.pools * how.m;
  world.experts.ready = how.pools * how.n;
  const bool has_changed = !(how == seen_how_);
  const double age = now - fleet.changed_at();
  if (has_changed && seen_how_.n > 0 && fleet.changed_at() > 0) {
    grew_m_ = how.pools * how.m > seen_how_.pools * seen_how_.m;
    grew_n_ = how.pools * how.n > seen_how_.pools * seen_how_.n;
    if (grew_m_) world.attention.start_seconds = {fleet.last_start_seconds()};
    if (grew_n_) world.experts.start_seconds = {fleet.last_start_seconds()};
  }
  if (grew_m_) world.attention.youngest_ready_seconds = age;
  if (grew_n_) world.experts.youngest_ready_seconds = age;
  if (!fleet.pending().empty()) {
    const Configuration& wanted = fleet.pending().back().wish.how;
    world.attention.starting = std::max(wanted.pools * wanted.m - world.attention.ready, 0);
    world.experts.starting = std::max(wanted.pools * wanted.n - world.experts.ready, 0);
    world.in_flight = InFlight{wanted.m, wanted.n, fleet.pending().back().since, wanted.pools};
  }
  // Over all pools: means over their steps.
  Unit::Counters before, after;
  for (const Fleet::Member& pool : fleet.members()) {
    if (pool.is_draining) continue;
    const Unit::Counters& counters = pool.unit->counters();
    Unit::Counters& last = counters_[pool.id];
    Sum(last, before);
    Sum(counters, after);
    last = counters;
  }
  // Steps of another topology must not count for this one.
  if (after.steps > before.steps && !has_changed) {
    world.step = Measure(how, before, after, now);
    world.step->is_warm = fleet.changed_at() == 0 || age > machinery_.warm_up_s;
  }
  seen_how_ = how;
}

// What a decision about copies of the whole model knows of them.
void Observer::LookAtCopies(const Fleet& fleet, double now, World& world) {
  const WholeConfiguration& whole = fleet.committed().whole;
  int ready = 0;
  double asked_at = 0;
  for (const Fleet::Member& member : fleet.members()) {
    if (member.is_draining || !(member.whole == whole)) continue;
    if (member.ready_at <= now) {
      ++ready;
    } else {
      asked_at = member.ready_at - machinery_.start_s;
    }
  }
  const int starting = fleet.CountStarting();
  world.current.m = whole.gpus;
  world.current.n = 0;
  world.current.pools = std::max(ready, 1);
  world.attention.ready = ready * whole.gpus;
  world.attention.starting = starting * whole.gpus;
  if (ready > copies_ && copies_ > 0) {
    grew_at_ = now;
    world.attention.start_seconds = {machinery_.start_s};
  }
  world.attention.youngest_ready_seconds = now - grew_at_;
  copies_ = ready;
  if (starting > 0) {
    world.in_flight = InFlight{whole.gpus, 0, asked_at, fleet.committed().units};
  }
}

}  // namespace janus::controllers
