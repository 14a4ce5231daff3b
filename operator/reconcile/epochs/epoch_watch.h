#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/latency_counts.h"
#include "operator/api/moe_topology.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/epochs/next_step.h"

namespace janus::control {

// Whether all members that are asked answer. kUnknown: before the first answer, and while one that
// does not answer has been asked for less than kUnansweredFor.
enum class MemberAnswers { kUnknown, kAll, kNotAll };

// What the members of the committed epoch said when they were asked last. Plain data.
struct WatchSeen {
  int64_t epoch = 0;                                 // 0: none was asked yet
  std::vector<bool> serves;                          // by place in the record; empty: no answer yet
  std::map<InstanceId, MonotonicTime> silent_since;  // asked in vain since then
  MemberAnswers answers = MemberAnswers::kUnknown;
  std::string why_unanswered;  // with kNotAll: which member, and why
  // As EpochWatch has them.
  std::optional<int64_t> imbalance_permille;
  std::optional<int64_t> tokens_per_second;
  PackedLatencyCounts tpot;
  PackedLatencyCounts ttft;
};

// Whether an epoch that was told to its members still serves: they are asked every few seconds, one
// question at a time. It is lost when a member holds: its exchange has ended, that of its peers
// ends with it, and no member returns to an epoch. A member that only does not answer loses
// nothing: rows travel another way than questions. But a lost epoch is not made anew with it before
// it answers.
//
// Its callers pass the time; it never waits. Destroying it cancels its question. Confined.
class EpochWatch {
 public:
  explicit EpochWatch(MemberCalls& calls) : calls_(calls) {}

  // Takes an answer that has come and asks anew when it is time to. `order`: of the members of
  // `record`, those that live; not empty. `again` is brought forward to when there is something to
  // look at.
  void Look(const MemberOrder& order, const TopologyRecord& record, MonotonicTime now,
            const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again);
  // Nothing is known, and nothing is asked any more.
  void Forget();

  int64_t epoch() const { return epoch_; }  // that was looked at last; 0: none
  // Which member of that epoch holds, and why; empty: none, as far as is known.
  const std::string& why_lost() const { return why_lost_; }
  using Answers = MemberAnswers;
  Answers answers(MonotonicTime now) const;
  // With kNotAll: which member does not answer, and why.
  const std::string& why_unanswered() const { return why_unanswered_; }
  // From the answers of the last kCountEvery; nothing: none have come, or there was no load. How
  // unevenly it falls to the expert instances (imbalance.h), and tokens generated in a second.
  std::optional<int64_t> imbalance_permille() const { return imbalance_; }
  std::optional<int64_t> tokens_per_second() const { return tokens_per_second_; }
  // Of the last kCountEvery in which there were some: requests that ended, and those that had their
  // first token, as attention instances saw them.
  LatencyCounts tpot() const { return tpot_.lately.Unpack(); }
  LatencyCounts ttft() const { return ttft_.lately.Unpack(); }
  // Of a member of the record, by its place in it: its last answer was that it serves this epoch,
  // and does not hold. Nothing: no member of the epoch has answered yet.
  std::optional<bool> Serves(size_t member) const;

  // Since when a member of it has been asked in vain; nothing: it answers.
  std::optional<MonotonicTime> SilentSince(const InstanceId& member) const;

  WatchSeen Seen(MonotonicTime now) const;

 private:
  void Take(const Statistics& statistics, const TopologyRecord& record, MonotonicTime now);
  void TakeCounts(const Statistics& statistics, const TopologyRecord& record, MonotonicTime now);

  MemberCalls& calls_;
  int64_t epoch_ = 0;
  std::unique_ptr<StatisticsQuestion> question_;
  MonotonicTime asked_;  // the question under way
  MonotonicTime next_;   // the time for the next one
  std::string why_lost_;
  bool has_answer_ = false;
  std::optional<MonotonicTime> unanswered_since_;  // by every member
  std::string why_unanswered_;                     // by every member, or by the first silent one
  std::vector<bool> serves_;                       // by place in the record
  bool counts_ = false;                            // the question under way asks for popularity
  MonotonicTime next_count_;
  std::optional<MonotonicTime> counted_;  // when it was answered last
  std::vector<double> loads_;             // then
  uint64_t tokens_ = 0;                   // then
  struct Latency {
    PackedLatencyCounts counted;  // then
    PackedLatencyCounts lately;
    void Take(const LatencyCounts& now, bool is_first);
  };
  Latency tpot_;
  Latency ttft_;
  std::optional<int64_t> imbalance_;
  std::optional<int64_t> tokens_per_second_;
  std::map<InstanceId, MonotonicTime> silent_since_;
};

// How often the members of a committed epoch are asked.
inline constexpr std::chrono::seconds kLookEvery{5};
// How often they are asked for what is counted, too: as often as numbers are written into a status.
inline constexpr std::chrono::seconds kCountEvery{60};
// Four questions in vain.
inline constexpr std::chrono::seconds kUnansweredFor{20};

}  // namespace janus::control
