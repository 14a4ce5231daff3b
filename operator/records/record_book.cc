#include "operator/records/record_book.h"

#include <utility>

namespace janus::control {

ServiceRecords& RecordBook::RecordsOf(const ObjectKey& key, const std::string& uid) {
  ServiceRecords& of = services_[key];
  if (of.uid != uid) of = ServiceRecords{uid, {}, {}, {}, {}, {}};
  return of;
}

void RecordBook::Add(const ObjectKey& key, const std::string& uid, TickRecord record,
                     const std::string& emulated) {
  const MutexLock lock(mu_);
  ServiceRecords& of = RecordsOf(key, uid);
  of.emulated = emulated;
  of.held.reset();
  ++of.decided[{std::string(NameOf(record.summary.action)), record.summary.reason}];
  auto& ticks = of.ticks;
  if (!ticks.empty() && ticks.back()->decision.verb == controllers::Verb::kHold) {
    TickRecord thinner = *ticks.back();
    thinner.decision.candidates.clear();
    ticks.back() = std::make_shared<const TickRecord>(std::move(thinner));
  }
  if (!ticks.empty() && *ticks.back()->setting == *record.setting) {
    record.setting = ticks.back()->setting;
  }
  const WallTime oldest = record.time - kKept;
  ticks.push_back(std::make_shared<const TickRecord>(std::move(record)));
  while (ticks.size() > kMost || ticks.front()->time < oldest) ticks.pop_front();
}

void RecordBook::Add(const ObjectKey& key, const std::string& uid, PlacementRecord record) {
  const MutexLock lock(mu_);
  RecordsOf(key, uid).placement = std::make_shared<const PlacementRecord>(std::move(record));
}

void RecordBook::Add(const ObjectKey& key, StepRecord record) {
  const MutexLock lock(mu_);
  StepRecord& of = steps_[key][record.pool];
  const auto step_of = [](const StepRecord& one) {
    const StepTrace& any = one.statistics->traces.front();
    return std::pair(any.epoch, any.step);
  };
  // Members tell of their last step again and again.
  if (of.statistics != nullptr && step_of(of) == step_of(record)) record.time = of.time;
  of = std::move(record);
}

std::optional<StepRecord> RecordBook::StepOf(const ObjectKey& key, int pool) const {
  const MutexLock lock(mu_);
  const auto found = steps_.find(key);
  if (found == steps_.end()) return std::nullopt;
  const auto of_pool = pool == 0 ? found->second.begin() : found->second.find(pool);
  if (of_pool == found->second.end()) return std::nullopt;
  return of_pool->second;
}

std::vector<int> RecordBook::PoolsWithSteps(const ObjectKey& key) const {
  const MutexLock lock(mu_);
  std::vector<int> out;
  const auto found = steps_.find(key);
  if (found == steps_.end()) return out;
  for (const auto& [pool, step] : found->second) out.push_back(pool);
  return out;
}

void RecordBook::AddHold(const ObjectKey& key, const std::string& uid, DecisionRecord hold,
                         const std::string& emulated) {
  const MutexLock lock(mu_);
  ServiceRecords& of = RecordsOf(key, uid);
  of.emulated = emulated;
  ++of.decided[{std::string(NameOf(hold.action)), hold.reason}];
  of.held = std::move(hold);
}

void RecordBook::EndHold(const ObjectKey& key) {
  const MutexLock lock(mu_);
  const auto found = services_.find(key);
  if (found != services_.end()) found->second.held.reset();
}

std::vector<RecordedFigures> RecordBook::Figures() const {
  const MutexLock lock(mu_);
  std::vector<RecordedFigures> out;
  for (const auto& [key, of] : services_) {
    RecordedFigures figures{key, of.decided, std::nullopt, std::nullopt};
    if (!of.ticks.empty() && of.ticks.back()->decision.error.count > 0) {
      figures.model_error = of.ticks.back()->decision.error.corrected_median;
    }
    if (of.placement != nullptr && of.placement->busiest_before > 0) {
      figures.busiest = {of.placement->busiest_before, of.placement->busiest_after};
    }
    out.push_back(std::move(figures));
  }
  return out;
}

void RecordBook::Forget(const ObjectKey& key) {
  const MutexLock lock(mu_);
  services_.erase(key);
  steps_.erase(key);
}

void RecordBook::ForgetAll() {
  const MutexLock lock(mu_);
  services_.clear();
  steps_.clear();
}

std::vector<ObjectKey> RecordBook::Services() const {
  const MutexLock lock(mu_);
  std::vector<ObjectKey> out;
  for (const auto& [key, of] : services_) out.push_back(key);
  return out;
}

std::vector<ObjectKey> RecordBook::ServicesWithSteps() const {
  const MutexLock lock(mu_);
  std::vector<ObjectKey> out;
  for (const auto& [key, of] : steps_) out.push_back(key);
  return out;
}

std::optional<ServiceRecords> RecordBook::Of(const ObjectKey& key) const {
  const MutexLock lock(mu_);
  const auto found = services_.find(key);
  if (found == services_.end()) return std::nullopt;
  return found->second;
}

}  // namespace janus::control
