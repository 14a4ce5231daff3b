#pragma once

#include <array>
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

// Whether all members answer. kUnknown: before the first answer, and while a silent member has been
// asked for less than kUnansweredFor.
enum class MemberAnswers { kUnknown, kAll, kNotAll };

// The latest answers from members of the committed epoch. Plain data.
struct WatchSeen {
  int64_t epoch = 0;         // 0: no question yet
  std::vector<bool> serves;  // by position in the record; empty: no answer yet
  std::map<InstanceId, MonotonicTime> silent_since;  // silent since this first unanswered question
  MemberAnswers answers = MemberAnswers::kUnknown;
  bool is_overdue = false;     // no member has answered the present question, or the last one
  std::string why_unanswered;  // with kNotAll: which member, and why
  // From EpochWatch.
  std::optional<int64_t> imbalance_permille;
  std::optional<int64_t> tokens_per_second;
  PackedLatencyCounts tpot;
  PackedLatencyCounts ttft;
  // The newest answer as it came, and when; null: none yet. Shared and constant.
  std::shared_ptr<const Statistics> statistics;
  MonotonicTime answered;
  bool is_void = false;
};

// Finds out whether an epoch still serves after its Commit. It asks the members every few seconds,
// one question at a time. An answer comes at once when the epoch is lost. In case that the member
// hangs that relays the question, another attention instance is asked at the same time, about
// itself alone. The epoch is lost once a member holds: its exchange and those of its
// peers have ended, and no member returns to an epoch. A silent member does not lose the epoch,
// since rows do not travel by these calls. But a lost epoch is not replaced with a silent member
// before that member answers.
//
// The caller passes the time; no call waits. The destructor cancels the question. Confined.
class EpochWatch {
 public:
  explicit EpochWatch(MemberCalls& calls) : calls_(calls) {}

  // Takes an answer if there is one, and asks again when due: `every` so long, at least
  // kLookLeastEvery. `order`: to the live members of `record`; not empty. Moves `again` forward to
  // the next time with something to read.
  void Look(const MemberOrder& order, const TopologyRecord& record, std::chrono::milliseconds every,
            MonotonicTime now, const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again);
  // Discards all answers and stops asking.
  void Forget();

  int64_t epoch() const { return epoch_; }  // of the last Look; 0: none
  // Which member of that epoch holds, and why; empty: none, as far as we know.
  const std::string& why_lost() const { return why_lost_; }
  using Answers = MemberAnswers;
  Answers answers(MonotonicTime now) const;
  // With kNotAll: which member is silent, and why.
  const std::string& why_unanswered() const { return why_unanswered_; }
  // From the answers of the last kCountEvery; nothing: no answers, or no load. How uneven the load
  // of expert instances is (imbalance.h), and generated tokens per second.
  std::optional<int64_t> imbalance_permille() const { return imbalance_; }
  std::optional<int64_t> tokens_per_second() const { return tokens_per_second_; }
  // For the last kCountEvery with requests: finished requests, and requests with a first token,
  // measured by attention instances.
  LatencyCounts tpot() const { return tpot_.lately.Unpack(); }
  LatencyCounts ttft() const { return ttft_.lately.Unpack(); }
  // Of timed devices: over the last kCountEvery with load too many waits overran (IsVoid).
  bool is_void() const { return is_void_; }
  // True if the last answer of the member at this position of the record was that it serves this
  // epoch and does not hold. Nothing: no member of the epoch has answered yet.
  std::optional<bool> Serves(size_t member) const;

  // Whether a member did not answer the last question.
  bool HasSilent() const { return !silent_since_.empty(); }
  // Since when a member has not answered; nothing: it answers.
  std::optional<MonotonicTime> SilentSince(const InstanceId& member) const;

  WatchSeen Seen(MonotonicTime now) const;

 private:
  // Also asked for a loss, in case the relay of the question hangs.
  struct Sentinel {
    std::unique_ptr<StatisticsQuestion> question;
    TopologyInstance member;
    MonotonicTime next;  // when to ask it next
  };

  void HearSentinels(MonotonicTime now);
  void AskSentinels(const MemberOrder& order, std::chrono::milliseconds every, MonotonicTime now,
                    const MemberCalls::Wake& wake);
  void Take(const Statistics& statistics, const TopologyRecord& record, MonotonicTime now);
  void TakeCounts(const Statistics& statistics, const TopologyRecord& record, MonotonicTime now);

  MemberCalls& calls_;
  int64_t epoch_ = 0;
  std::unique_ptr<StatisticsQuestion> question_;
  MonotonicTime asked_;  // when the current question was asked
  MonotonicTime due_;    // when its answer should be here
  MonotonicTime next_;   // when to ask next
  // The first and the last attention instance: of these, one is not the relay.
  std::array<Sentinel, 2> sentinels_;
  std::optional<InstanceId> answers_best_;  // relays the next question
  bool is_urgent_ = false;                  // the next question waits for nothing
  std::string why_lost_;
  bool has_answer_ = false;
  std::optional<MonotonicTime> unanswered_since_;  // no member has answered since then
  std::string why_unanswered_;                     // for all members, or for the first silent one
  std::vector<bool> serves_;                       // by position in the record
  bool counts_ = false;                            // the current question asks for popularity
  MonotonicTime next_count_;
  std::optional<MonotonicTime> counted_;  // time of the last such answer
  std::vector<double> loads_;             // at `counted_`
  uint64_t tokens_ = 0;                   // at `counted_`
  uint64_t timed_waits_ = 0;              // at `counted_`
  uint64_t timed_overruns_ = 0;           // at `counted_`
  bool is_void_ = false;
  struct Latency {
    PackedLatencyCounts counted;  // at `counted_`
    PackedLatencyCounts lately;
    void Take(const LatencyCounts& now, bool is_first);
  };
  Latency tpot_;
  Latency ttft_;
  std::optional<int64_t> imbalance_;
  std::optional<int64_t> tokens_per_second_;
  std::map<InstanceId, MonotonicTime> silent_since_;
  std::shared_ptr<const Statistics> statistics_;
  MonotonicTime answered_;
};

// The longest interval between questions to members of a committed epoch, and that to those of a
// lost one: the next epoch may wait for a member that is being started again.
inline constexpr std::chrono::seconds kLookEvery{5};
inline constexpr std::chrono::milliseconds kLookLeastEvery{500};
inline constexpr std::chrono::milliseconds kLookAtLostEvery{250};
// A relay keeps a question while the epoch serves, until so long before the next one.
inline constexpr std::chrono::milliseconds kBeforeNextLook{200};
// After that an answer of living members needs much less time.
inline constexpr std::chrono::milliseconds kOverdueAfter{1200};
// Interval between questions for popularity; equal to the interval of numbers in the status.
inline constexpr std::chrono::seconds kCountEvery{60};
// Four unanswered questions.
inline constexpr std::chrono::seconds kUnansweredFor{20};

}  // namespace janus::control
