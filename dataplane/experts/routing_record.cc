#include "dataplane/experts/routing_record.h"

#include <algorithm>

#include "common/check.h"

namespace janus::dataplane {

void RoutingRecord::Enter(const Epoch& epoch) {
  JANUS_CHECK(epoch.instances > 0 && epoch.rank >= 0 && epoch.rank < epoch.instances,
              "an expert instance has a rank");
  epoch_ = epoch;
  const auto layers = static_cast<size_t>(epoch.layers);
  const auto experts = static_cast<size_t>(epoch.experts);
  size_t mine = 0;
  for (int layer = 0; layer < epoch.layers; ++layer) mine += IsMine(layer);
  step_tokens_.assign(mine * experts, 0);
  step_rows_.assign(mine, 0);
  has_counted_ = false;
  turn_ = epoch.rank;
  taken_as_.reset();
  taken_.reserve(std::min(epoch.most_of_round, limits_.ids));
  const MutexLock lock(mu_);
  JANUS_CHECK(tokens_.empty() || (rows_.size() == layers && experts_ == epoch.experts),
              "a worker has one model for life");
  experts_ = epoch.experts;
  top_k_ = epoch.top_k;
  tokens_.resize(layers * experts);
  rows_.resize(layers);
  ids_.resize(limits_.ids);
  samples_.resize(limits_.rounds);
}

void RoutingRecord::BeginStep() {
  taken_as_.reset();
  too_large_now_ = 0;
  if (!std::exchange(has_counted_, false)) return;
  std::fill(step_tokens_.begin(), step_tokens_.end(), 0);
  std::fill(step_rows_.begin(), step_rows_.end(), 0);
}

// Moves to the next layer that this instance reports.
void RoutingRecord::TurnOn() {
  turn_ += epoch_.instances;
  if (turn_ >= epoch_.layers) turn_ = epoch_.rank;
}

void RoutingRecord::Add(const RoundKey& round, std::span<const uint16_t> ids, MonotonicTime now) {
  if (!IsMine(round.layer) || ids.empty()) return;
  has_counted_ = true;
  const size_t at = Mine(round.layer);
  step_rows_[at] += ids.size() / static_cast<size_t>(epoch_.top_k);
  uint32_t* const counts = step_tokens_.data() + at * static_cast<size_t>(epoch_.experts);
  for (const uint16_t id : ids) ++counts[id];

  if (round.layer != turn_ || taken_as_) return;
  if (sampled_ && now < *sampled_ + limits_.between) return;
  sampled_ = now;
  TurnOn();
  if (ids.size() > limits_.ids) {
    ++too_large_now_;
    return;
  }
  taken_.assign(ids.begin(), ids.end());
  taken_as_ = Sample{epoch_.number, round.step, round.layer, round.micro_batch, 0, ids.size()};
}

void RoutingRecord::Keep(const Sample& sample) {
  const auto drop_oldest = [&]() JANUS_REQUIRES(mu_) {
    ids_kept_ -= samples_[oldest_].count;
    oldest_ = (oldest_ + 1) % samples_.size();
    --kept_;
  };
  if (samples_.empty()) return;
  while (kept_ == samples_.size() || ids_kept_ + sample.count > ids_.size()) drop_oldest();
  Sample kept = sample;
  if (kept_ > 0) {
    const Sample& last = samples_[(oldest_ + kept_ - 1) % samples_.size()];
    kept.first = (last.first + last.count) % ids_.size();
  }
  const size_t straight = std::min(kept.count, ids_.size() - kept.first);
  const auto middle = taken_.begin() + static_cast<ptrdiff_t>(straight);
  std::copy(taken_.begin(), middle, ids_.begin() + static_cast<ptrdiff_t>(kept.first));
  std::copy(middle, taken_.end(), ids_.begin());
  samples_[(oldest_ + kept_) % samples_.size()] = kept;
  ++kept_;
  ids_kept_ += kept.count;
}

void RoutingRecord::EndStep() {
  if (!has_counted_) return;
  const auto experts = static_cast<size_t>(epoch_.experts);
  {
    const MutexLock lock(mu_);
    for (size_t i = 0; i < step_rows_.size(); ++i) {
      if (step_rows_[i] == 0) continue;
      const size_t layer =
          i * static_cast<size_t>(epoch_.instances) + static_cast<size_t>(epoch_.rank);
      rows_[layer] += step_rows_[i];
      uint64_t* const to = tokens_.data() + layer * experts;
      const uint32_t* const from = step_tokens_.data() + i * experts;
      for (size_t e = 0; e < experts; ++e) to[e] += from[e];
    }
    if (taken_as_) Keep(*taken_as_);
    too_large_ += too_large_now_;
  }
  BeginStep();
}

RoutingStatistics RoutingRecord::Read(bool popularity, size_t rounds) const {
  RoutingStatistics out;
  const MutexLock lock(mu_);
  const auto experts = static_cast<size_t>(experts_);
  for (size_t layer = 0; popularity && layer < rows_.size(); ++layer) {
    if (rows_[layer] == 0) continue;
    const auto first = tokens_.begin() + static_cast<ptrdiff_t>(layer * experts);
    out.popularity.push_back(
        {static_cast<int>(layer), rows_[layer], {first, first + static_cast<ptrdiff_t>(experts)}});
  }
  out.rounds_too_large = too_large_;
  const size_t count = std::min(rounds, kept_);
  for (size_t i = kept_ - count; i < kept_; ++i) {
    const Sample& sample = samples_[(oldest_ + i) % samples_.size()];
    RoutedRound& round = out.rounds.emplace_back();
    round.epoch = sample.epoch;
    round.step = sample.step;
    round.layer = sample.layer;
    round.micro_batch = sample.micro_batch;
    round.top_k = top_k_;
    round.experts.reserve(sample.count);
    for (size_t at = 0; at < sample.count; ++at) {
      round.experts.push_back(ids_[(sample.first + at) % ids_.size()]);
    }
  }
  return out;
}

}  // namespace janus::dataplane
