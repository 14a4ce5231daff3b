// Events are written although any call may fail.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/event_recorder.h"
#include "operator/local/store/store_client.h"
#include "tests/support/kube/fault_sweep.h"
#include "tests/support/kube/simulated_timeline.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

// Three different occurrences, the first of them three times.
class Recording {
 public:
  explicit Recording(std::vector<FaultPlan> plans)
      : api_(client_, std::move(plans), timeline_), recorder_(api_, Options(), timeline_) {
    double at = 1;
    for (const char* const reason :
         {"ScaledUp", "Drained", "ScaledUp", "InvalidSpec", "ScaledUp"}) {
      timeline_.In(Seconds(at), [this, reason] {
        Happening happening;
        happening.regarding = {"serving.janus.dev/v1alpha1",
                               "MoEService",
                               {"default", "chat"},
                               "5a9e0c3e-0000-4000-8000-000000000001"};
        happening.reason = reason;
        happening.action = "Reconcile";
        happening.note = "as it reads";
        recorder_.Record(happening);
      });
      at += 3;
    }
    timeline_.In(Seconds(200), [this] { api_.Heal(); });
    timeline_.In(Seconds(400), [this] { stop_.request_stop(); });
  }

  void Play() {
    recorder_.Run(stop_.get_token());
    std::map<std::string, std::vector<int64_t>> written;
    const ApiResult<ObjectList> list = client_.List(EventResource(), {}, kLimits);
    for (const Node& event : list->items) {
      written[std::string(TextAt(event, {"reason"}))].push_back(
          IntegerAt(event, {"series", "count"}).value_or(1));
    }
    // Each exactly once. An Event that the server refuses for good is dropped, counted and
    // forgotten; its next occurrence is a new Event.
    const EventStatistics statistics = recorder_.statistics();
    for (const auto& [reason, counts] : written) {
      EXPECT_LE(static_cast<int64_t>(counts.size()), 1 + statistics.dropped_failed) << reason;
    }
    EXPECT_EQ(recorder_.depth(), 0U);
    if (statistics.dropped_failed > 0) return;
    EXPECT_EQ(written, (std::map<std::string, std::vector<int64_t>>{
                           {"ScaledUp", {3}}, {"Drained", {1}}, {"InvalidSpec", {1}}}));
  }
  CallCounts counts() const { return api_.counts(); }

 private:
  static EventRecorderOptions Options() {
    EventRecorderOptions options;
    options.book.controller = "serving.janus.dev/operator";
    options.book.instance = "operator-0";
    options.book.seed = SweepSeed();
    return options;
  }

  SimulatedTimeline timeline_;
  LocalStore store_{{}, timeline_};
  StoreClient client_{store_, "janus-operator"};
  FaultyApi api_;
  EventRecorder recorder_;
  std::stop_source stop_;
};

TEST(EventRecorderFaults, EveryEventIsWrittenOnceWhateverCallsFail) {
  SweepFaults("event recorder", CallFaults(), [](std::vector<FaultPlan> plans) {
    Recording recording(std::move(plans));
    recording.Play();
    return recording.counts();
  });
}

}  // namespace
}  // namespace janus::control
