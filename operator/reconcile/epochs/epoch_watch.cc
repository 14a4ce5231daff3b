#include "operator/reconcile/epochs/epoch_watch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "common/timed_device.h"
#include "operator/reconcile/epochs/imbalance.h"
#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {
namespace {

// Within this time the relay reports members that did not answer.
constexpr std::chrono::seconds kAnswer{10};

// Of each expert instance, once in kCountEvery. Placement needs no routing of a single instance.
constexpr uint32_t kRoundsOfInstance = 24;
constexpr uint32_t kMostRounds = 1024;
// For people. All layers of a small service, some of a large one: about 80 KB in an answer.
constexpr uint32_t kMostSpans = 16'384;

uint32_t RoundsToAsk(const TopologyRecord& record) {
  const auto experts = static_cast<uint32_t>(
      std::ranges::count(record.instances, Role::kExperts, &TopologyInstance::role));
  return experts < 2 ? 0 : std::min(experts * kRoundsOfInstance, kMostRounds);
}

}  // namespace

void EpochWatch::Forget() {
  question_.reset();
  sentinels_ = {};
  answers_best_.reset();
  is_urgent_ = false;
  epoch_ = 0;
  why_lost_.clear();
  silent_since_.clear();
  has_answer_ = false;
  unanswered_since_.reset();
  why_unanswered_.clear();
  serves_.clear();
  counted_.reset();
  loads_.clear();
  imbalance_.reset();
  tokens_per_second_.reset();
  tpot_ = ttft_ = Latency();
  statistics_.reset();
  is_void_ = false;
}

EpochWatch::Answers EpochWatch::answers(MonotonicTime now) const {
  std::optional<MonotonicTime> since = unanswered_since_;
  for (const auto& [member, silent] : silent_since_)
    since = std::min(since.value_or(silent), silent);
  if (since) return now >= *since + kUnansweredFor ? Answers::kNotAll : Answers::kUnknown;
  return has_answer_ ? Answers::kAll : Answers::kUnknown;
}

std::optional<bool> EpochWatch::Serves(size_t member) const {
  if (member >= serves_.size()) return std::nullopt;
  return serves_[member];
}

std::optional<MonotonicTime> EpochWatch::SilentSince(const InstanceId& member) const {
  const auto found = silent_since_.find(member);
  if (found == silent_since_.end()) return std::nullopt;
  return found->second;
}

WatchSeen EpochWatch::Seen(MonotonicTime now) const {
  WatchSeen out;
  out.epoch = epoch_;
  out.serves = serves_;
  out.silent_since = silent_since_;
  out.answers = answers(now);
  out.is_overdue = unanswered_since_ || (question_ != nullptr && !question_->done() && now >= due_);
  out.why_unanswered = why_unanswered_;
  out.imbalance_permille = imbalance_;
  out.tokens_per_second = tokens_per_second_;
  out.tpot = tpot_.lately;
  out.ttft = ttft_.lately;
  out.statistics = statistics_;
  out.answered = answered_;
  out.is_void = is_void_;
  return out;
}

void EpochWatch::Look(const MemberOrder& order, const TopologyRecord& record,
                      std::chrono::milliseconds every, MonotonicTime now,
                      const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again) {
  if (order.epoch != epoch_) {
    Forget();
    epoch_ = order.epoch;
    next_ = next_count_ = now;
  }
  HearSentinels(now);
  // No answer at all: the relay cannot be reached, at least from here. The next question uses
  // another one.
  const auto not_answered = [&](std::string why) {
    unanswered_since_ = unanswered_since_.value_or(asked_);
    why_unanswered_ = std::move(why);
  };
  if (question_ != nullptr && question_->done()) {
    const Status result = question_->result();
    if (result.ok()) {
      statistics_ = std::make_shared<const Statistics>(question_->statistics());
      answered_ = now;
      Take(*statistics_, record, now);
      if (!why_lost_.empty()) next_ = std::min(next_, now + kLookAtLostEvery);
    } else {
      not_answered("none of the members that are asked for all answers: " + result.message());
    }
    question_.reset();
  } else if (question_ != nullptr && now >= asked_ + kAnswer) {
    not_answered("no answer within " + std::to_string(kAnswer.count()) + " s");
    question_.reset();
  }
  if (question_ == nullptr && now >= next_) {
    MemberOrder question = order;
    // The first answer says which members serve, so it comes at once.
    if (has_answer_ && why_lost_.empty() && !is_urgent_) {
      question.until_loss = every - kBeforeNextLook;
    }
    is_urgent_ = false;
    const auto best = std::ranges::find_if(
        question.members, [&](const TopologyInstance& one) { return IdOf(one) == answers_best_; });
    if (best != question.members.end()) {
      std::rotate(question.members.begin(), best, std::next(best));
    }
    question.with_popularity = counts_ = now >= next_count_;
    if (counts_) {
      next_count_ = now + kCountEvery;
      question.with_rounds = RoundsToAsk(record);
    }
    question.with_spans = kMostSpans;
    question_ = calls_.Ask(question, wake);
    asked_ = now;
    due_ =
        question.until_loss.count() > 0 ? now + question.until_loss + kOverdueAfter : now + kAnswer;
    next_ = now + every;
  }
  AskSentinels(order, every, now, wake);
  for (const Sentinel& one : sentinels_) {
    if (now < one.next) BringForward(again, one.next);
  }
  BringForward(again, now < next_ ? next_ : now < due_ ? due_ : asked_ + kAnswer);
}

void EpochWatch::HearSentinels(MonotonicTime now) {
  for (Sentinel& sentinel : sentinels_) {
    if (sentinel.question == nullptr || !sentinel.question->done()) continue;
    const bool is_heard = sentinel.question->result().ok();
    const Statistics said = is_heard ? sentinel.question->statistics() : Statistics();
    sentinel.question.reset();
    for (const InstanceStatistics& one : said.instances) {
      if (static_cast<int64_t>(one.epoch) != epoch_ || one.holding.empty()) continue;
      // The relay of the present question may be the member that hangs. The next question also
      // finds out which member is silent.
      answers_best_ = IdOf(sentinel.member);
      is_urgent_ = true;
      question_.reset();
      next_ = now;
    }
  }
}

void EpochWatch::AskSentinels(const MemberOrder& order, std::chrono::milliseconds every,
                              MonotonicTime now, const MemberCalls::Wake& wake) {
  const auto attention =
      std::ranges::count(order.members, Role::kAttention, &TopologyInstance::role);
  if (attention < 2 || !has_answer_ || !why_lost_.empty()) return;
  const std::array<size_t, 2> places = {0, static_cast<size_t>(attention) - 1};
  for (size_t i = 0; i < sentinels_.size(); ++i) {
    Sentinel& sentinel = sentinels_[i];
    if (sentinel.question != nullptr || now < sentinel.next) continue;
    MemberOrder question = order;
    question.members = {order.members[places[i]]};
    question.until_loss = every - kBeforeNextLook;
    sentinel.member = question.members.front();
    sentinel.question = calls_.Ask(question, wake);
    sentinel.next = now + every;
  }
}

void EpochWatch::Take(const Statistics& statistics, const TopologyRecord& record,
                      MonotonicTime now) {
  has_answer_ = true;
  unanswered_since_.reset();
  why_unanswered_.clear();
  std::set<std::string> silent;
  for (const SilentMember& one : statistics.silent) {
    silent.insert(one.name);
    if (why_unanswered_.empty()) why_unanswered_ = one.name + " does not answer: " + one.why;
  }
  if (silent.size() > 1) {
    why_unanswered_ += "; and " + std::to_string(silent.size() - 1) + " more";
  }
  serves_.resize(record.instances.size());
  if (counts_ && silent.empty()) TakeCounts(statistics, record, now);
  int rank_of[2] = {0, 0};
  int holding = 0;
  std::string first;
  for (const TopologyInstance& member : record.instances) {
    const std::string name = MemberName(member);
    const int rank = rank_of[member.role == Role::kExperts]++;
    if (silent.contains(name)) {
      silent_since_.try_emplace(IdOf(member), now);
    } else {
      silent_since_.erase(IdOf(member));
    }
    const auto said = std::find_if(statistics.instances.begin(), statistics.instances.end(),
                                   [&](const InstanceStatistics& one) {
                                     return one.role == member.role && one.rank.value == rank &&
                                            static_cast<int64_t>(one.epoch) == epoch_;
                                   });
    const auto place = static_cast<size_t>(&member - record.instances.data());
    if (!silent.contains(name)) {
      serves_[place] = said != statistics.instances.end() && said->holding.empty();
    }
    if (said == statistics.instances.end() || said->holding.empty()) continue;
    if (holding++ == 0) first = name + " holds its requests: " + said->holding;
  }
  if (holding == 0 || !why_lost_.empty()) return;
  why_lost_ = std::move(first);
  if (holding > 1) why_lost_ += "; and " + std::to_string(holding - 1) + " more";
}

// Uses only the time since the last answer, because older counts do not describe the present.
void EpochWatch::Latency::Take(const LatencyCounts& now, bool is_first) {
  const std::optional<LatencyCounts> since = is_first ? std::nullopt : now.Since(counted.Unpack());
  counted = PackedLatencyCounts(now);
  if (since && *since != LatencyCounts()) lately = PackedLatencyCounts(*since);
}

// Takes the counts since the last answer. The first counts, and those after a counting member has
// left, cover the members' whole lifetime.
void EpochWatch::TakeCounts(const Statistics& statistics, const TopologyRecord& record,
                            MonotonicTime now) {
  uint64_t tokens = 0, waits = 0, overruns = 0;
  LatencyCounts tpot, ttft;
  for (const InstanceStatistics& one : statistics.instances) {
    tokens += one.tokens;
    tpot += one.tpot_counts;
    ttft += one.ttft_counts;
    waits += one.timed_waits;
    overruns += one.timed_overruns;
  }
  if (counted_ && waits > timed_waits_ && overruns >= timed_overruns_) {
    is_void_ = IsVoid(waits - timed_waits_, overruns - timed_overruns_);
  }
  timed_waits_ = waits;
  timed_overruns_ = overruns;
  if (counted_ && now > *counted_ && tokens >= tokens_) {
    tokens_per_second_ =
        std::llround(static_cast<double>(tokens - tokens_) / Seconds(now - *counted_).count());
  }
  const bool is_first = !counted_;
  tpot_.Take(tpot, is_first);
  ttft_.Take(ttft, is_first);
  counted_ = now;
  tokens_ = tokens;
  if (statistics.routing.popularity.empty()) return;
  const janus::Result<Placement> placement = PlacementOf(record);
  if (!placement.ok()) return;
  std::optional<std::vector<double>> loads =
      ExpectedLoads(*placement, statistics.routing.popularity);
  if (!loads) return;
  const std::optional<std::vector<double>> lately = is_first ? std::nullopt : Since(loads_, *loads);
  const std::optional<int64_t> imbalance =
      ImbalancePermille(lately ? *lately : *loads, placement->slots_of_instance.size());
  if (imbalance) imbalance_ = imbalance;
  loads_ = *std::move(loads);
}

}  // namespace janus::control
