#include "controllers/simulate/observer.h"

#include <algorithm>
#include <cmath>

#include "controllers/scaling/demand.h"

namespace janus::controllers {
namespace {

constexpr double kReactedTo_s = 60;

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
  world.arrivals = {arrivals_.Over(now, kReactedTo_s),
                    arrivals_.Over(now, RecentArrivals::kLongest_s)};
  const Recorder::Recent recent = recorder.TakeRecent();
  if (recent.finished > 0) {
    // A long memory: which requests finish within one interval is chance.
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
  if (fleet.committed().is_separate) LookAtService(fleet, now, world);
  World calm = world;
  calm.arrivals = {world.arrivals.back()};
  calm.now.waiting = 0;
  seen.demand = DemandOf(calm, scaling_, output_tokens_);
  return seen;
}

void Observer::LookAtUnits(const Fleet& fleet, double now, Observation& seen) {
  double oldest = now;
  Occupancy& all = seen.world.now;
  const bool is_separate = fleet.committed().is_separate;
  for (const Fleet::Member& member : fleet.members()) {
    const Unit::Load load = member.unit->Now();
    const auto room = static_cast<double>(member.unit->shape().kv_tokens);
    all.running += static_cast<double>(load.running);
    all.waiting += static_cast<double>(load.waiting);
    all.waiting_prompt_tokens += static_cast<double>(load.waiting_tokens);
    all.kv_tokens_used += static_cast<double>(load.kv_tokens);
    all.kv_tokens_capacity += room;
    if (load.waiting > 0) oldest = std::min(oldest, load.oldest_arrival);
    if (is_separate || member.is_draining || member.ready_at > now) continue;
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
}

// Means over the steps since the last look. Kernels are timed each by itself; the exchange is what
// an attention instance waits beyond the experts' time, which only tells with one micro-batch.
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
  sample.seconds = TimesOfStep(truth_->setting(), how, sample.load);
  if (how.micro_batches > 1) sample.seconds.exchange = 0;
  sample.seconds.step = (after.busy_seconds - before.busy_seconds) / steps;
  return sample;
}

// What the workers of a separated service report.
void Observer::LookAtService(const Fleet& fleet, double now, World& world) {
  const Configuration& how = fleet.committed().how;
  world.current = how;
  world.attention.ready = how.m;
  world.experts.ready = how.n;
  const bool has_changed = !(how == seen_how_);
  const double age = now - fleet.changed_at();
  if (has_changed && seen_how_.n > 0 && fleet.changed_at() > 0) {
    grew_m_ = how.m > seen_how_.m;
    grew_n_ = how.n > seen_how_.n;
    if (grew_m_) world.attention.start_seconds = {fleet.last_start_seconds()};
    if (grew_n_) world.experts.start_seconds = {fleet.last_start_seconds()};
  }
  if (grew_m_) world.attention.youngest_ready_seconds = age;
  if (grew_n_) world.experts.youngest_ready_seconds = age;
  if (fleet.pending()) {
    const Configuration& wanted = fleet.pending()->how;
    world.attention.starting = std::max(wanted.m - how.m, 0);
    world.experts.starting = std::max(wanted.n - how.n, 0);
    world.in_flight = InFlight{wanted.m, wanted.n, fleet.pending_since()};
  }
  const Fleet::Member& service = fleet.members().front();
  const Unit::Counters& counters = service.unit->counters();
  Unit::Counters& before = counters_[service.id];
  // Another topology in between: its steps would be taken for this one's.
  if (counters.steps > before.steps && !has_changed) {
    world.step = Measure(how, before, counters, now);
    world.step->is_warm = fleet.changed_at() == 0 || age > machinery_.warm_up_s;
  }
  before = counters;
  seen_how_ = how;
}

}  // namespace janus::controllers
