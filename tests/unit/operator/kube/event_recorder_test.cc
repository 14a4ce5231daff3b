#include "operator/kube/event_recorder.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/kube/unimplemented_api.h"
#include "tests/support/passing_timeline.h"

namespace janus::control {
namespace {

// The Events of a cluster, and the faults on the way to them.
class Events final : public UnimplementedApi {
 public:
  // Called before each write with its number, from 1. An error with outcome_unknown is returned
  // after the write was done.
  std::function<std::optional<ApiError>(int write)> on_write = [](int) { return std::nullopt; };
  std::map<std::string, Node> events;
  int creates = 0;
  int patches = 0;

  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions&,
                         const CallLimits&) override {
    EXPECT_EQ(resource.ToString(), "events.events.k8s.io");
    return Do([&]() -> ApiResult<Node> {
      ++creates;
      const bool is_new = events.emplace(KeyOf(object).name, object).second;
      if (!is_new) return LocalError(AlreadyExists("it is there"));
      return object;
    });
  }
  ApiResult<Node> Patch(const Resource&, const ObjectKey& key, PatchKind kind, const Node& patch,
                        Subresource, const WriteOptions&, const CallLimits&) override {
    EXPECT_EQ(kind, PatchKind::kMerge);
    return Do([&]() -> ApiResult<Node> {
      ++patches;
      const auto found = events.find(key.name);
      if (found == events.end()) return LocalError(NotFound("no such event"));
      SetAt(found->second, {"series"}, *patch.Find("series"));
      return found->second;
    });
  }
  // Total occurrences over all Events.
  int64_t Count() const {
    int64_t out = 0;
    for (const auto& [name, event] : events) {
      out += IntegerAt(event, {"series", "count"}).value_or(1);
    }
    return out;
  }

 private:
  ApiResult<Node> Do(FunctionRef<ApiResult<Node>()> write) {
    const std::optional<ApiError> error = on_write(++writes_);
    if (error && !error->outcome_unknown) return *error;
    ApiResult<Node> done = write();
    if (error) return *error;
    return done;
  }
  int writes_ = 0;
};

Happening Scaled(const std::string& note) {
  Happening out;
  out.regarding = {"serving.janus.dev/v1alpha1", "MoEService", {"prod", "chat"}, "uid"};
  out.reason = "ScaledUp";
  out.action = "Scale";
  out.note = note;
  return out;
}

class EventRecorderTest : public testing::Test {
 protected:
  static EventRecorderOptions Options() {
    EventRecorderOptions options;
    options.book.controller = "serving.janus.dev/operator";
    options.book.instance = "operator-0";
    return options;
  }
  // Acts like a loop, in virtual time.
  void RunFor(Seconds time) {
    const MonotonicTime end =
        timeline_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(time);
    while (timeline_.Now() < end) timeline_.WaitUntil(recorder_.Step({}), {});
  }

  Events api_;
  PassingTimeline timeline_;
  EventRecorder recorder_{api_, Options(), timeline_};
};

TEST_F(EventRecorderTest, CreatesThenPatchesTheSeries) {
  recorder_.Record(Scaled("up"));
  EXPECT_EQ(api_.creates, 0);  // not on the caller's thread
  RunFor(Seconds(1));
  EXPECT_EQ(api_.creates, 1);
  for (int i = 0; i < 100; ++i) {
    recorder_.Record(Scaled("up"));
    RunFor(Seconds(1));
  }
  RunFor(Seconds(60));
  EXPECT_EQ(api_.creates, 1);
  EXPECT_LE(api_.patches, 3);
  EXPECT_EQ(api_.Count(), 101);
}

TEST_F(EventRecorderTest, StepLooksForWhatIsNewSoonAndForWhatIsDueInTime) {
  const MonotonicTime now = timeline_.Now();
  EXPECT_EQ(Seconds(recorder_.Step({}) - now), Options().period);
  ApiError error = LocalError(Unavailable("injected"));
  api_.on_write = [&](int) { return error; };
  recorder_.Record(Scaled("up"));
  EXPECT_LE(Seconds(recorder_.Step({}) - now), Options().period);
}

// Each write fails once, before or after it is done: nothing is written twice or lost.
TEST_F(EventRecorderTest, AnyWriteMayFailOrLoseItsReply) {
  for (const bool is_done : {false, true}) {
    for (int position = 1; position <= 6; ++position) {
      SCOPED_TRACE(std::to_string(position) + (is_done ? " done" : " not done"));
      Events api;
      EventRecorder recorder(api, Options(), timeline_);
      api.on_write = [&](int write) -> std::optional<ApiError> {
        if (write != position) return std::nullopt;
        ApiError error = LocalError(Unavailable("injected"));
        error.outcome_unknown = is_done;
        return error;
      };
      for (int i = 0; i < 300; ++i) {
        if (i % 10 == 0) {
          recorder.Record(Scaled("up"));
          recorder.Record(Scaled("down"));
        }
        timeline_.Advance(Seconds(1));
        recorder.Step({});
      }
      timeline_.Advance(Seconds(60));
      recorder.Step({});
      EXPECT_EQ(api.events.size(), 2U);
      EXPECT_EQ(api.Count(), 60);
      EXPECT_EQ(recorder.depth(), 0U);
    }
  }
}

TEST_F(EventRecorderTest, AServerThatIsAwayCostsTheCallerNothingAndMemoryIsBounded) {
  api_.on_write = [](int) { return LocalError(Unavailable("injected")); };
  for (int i = 0; i < 5000; ++i) {
    Happening happening = Scaled("up");
    happening.regarding.uid = std::to_string(i);
    recorder_.Record(happening);
  }
  EXPECT_EQ(recorder_.depth(), Options().book.capacity);
  EXPECT_EQ(recorder_.statistics().dropped_full, 4000);
}

TEST_F(EventRecorderTest, AStopWritesWhatIsNotWrittenYet) {
  std::stop_source stop;
  stop.request_stop();
  recorder_.Record(Scaled("up"));
  RunFor(Seconds(1));
  for (int i = 0; i < 4; ++i) recorder_.Record(Scaled("up"));  // due in a minute
  recorder_.Record(Scaled("down"));
  recorder_.Run(stop.get_token());
  EXPECT_EQ(api_.creates, 2);
  EXPECT_EQ(api_.Count(), 6);
  EXPECT_EQ(recorder_.depth(), 0U);
}

TEST_F(EventRecorderTest, AStopDoesNotWaitForAServerThatIsAway) {
  std::stop_source stop;
  stop.request_stop();
  for (int i = 0; i < 10; ++i) recorder_.Record(Scaled(std::to_string(i)));
  int writes = 0;
  api_.on_write = [&](int) {
    ++writes;
    timeline_.Advance(Seconds(2));
    return LocalError(DeadlineExceeded("injected"));
  };
  recorder_.Run(stop.get_token());
  EXPECT_EQ(writes, 2);  // 3 s
}

TEST_F(EventRecorderTest, ManyThreadsMayRecordWhileItWrites) {
  EventRecorderOptions options = Options();
  options.book.object_burst = 1000;
  options.book.burst = 1000;
  EventRecorder recorder(api_, options, timeline_);
  {
    std::jthread writer([&](const std::stop_token& stop) { recorder.Run(stop); });
    std::vector<std::jthread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back([&recorder, t] {
        for (int i = 0; i < 50; ++i) {
          recorder.Record(Scaled(std::to_string(t) + "/" + std::to_string(i)));
        }
      });
    }
  }
  EXPECT_EQ(api_.creates, 200);
  EXPECT_EQ(recorder.statistics().recorded, 200);
  EXPECT_EQ(recorder.statistics().created, 200);
}

}  // namespace
}  // namespace janus::control
