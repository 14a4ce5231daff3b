#include "operator/kube/reflector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/informer.h"
#include "tests/support/kube/watched_objects.h"
#include "tests/support/passing_timeline.h"
#include "tests/support/random.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
using Fault = WatchedObjects::Fault;

// Runs a reflector on the test's thread, in virtual time, until the script stops it.
class ReflectorTest : public testing::Test {
 protected:
  ReflectorTest() {
    options_.page_size = 2;
    // Stops the run when the script ends, or if it never would.
    api_.on_call = [this](const std::string& call) { return Call(call); };
    api_.on_quiet = [this] { return Quiet(); };
  }
  void Run() {
    Reflector reflector(
        api_, kConfigMaps, options_, store_, [this](const Delta& delta) { Hear(delta); },
        timeline_);
    reflector.Run(stop_.get_token());
    seen_ = reflector.statistics();
    has_synced_ = reflector.HasSynced();
  }
  Fault Call(const std::string& call) {
    calls_ += (calls_.empty() ? "" : " ") + call;
    if (++num_calls_ > 2000) stop_.request_stop();
    return call_script_.empty() ? Fault::kNone : Pop(call_script_);
  }
  // How each watch ends after its last event, one after the other; the last one stops the run.
  Fault Quiet() {
    if (quiet_script_.empty()) {
      stop_.request_stop();
      return Fault::kNone;
    }
    timeline_.Advance(Seconds(60));
    return Pop(quiet_script_)();
  }
  template <class T>
  static T Pop(std::vector<T>& script) {
    T first = std::move(script.front());
    script.erase(script.begin());
    return first;
  }
  void Hear(const Delta& delta) {
    static constexpr char kSigns[] = {'+', '~', '-'};
    told_ += kSigns[static_cast<int>(delta.type)] + delta.key.name;
  }
  std::map<std::string, std::string> Stored() const {
    std::map<std::string, std::string> out;
    for (const Node& object : store_.List()) {
      out[KeyOf(object).name] = TextAt(object, {"data", "value"});
    }
    return out;
  }
  std::vector<double> Waits() const {
    std::vector<double> out;
    for (const Seconds wait : timeline_.waits()) out.push_back(wait.count());
    return out;
  }

  WatchedObjects api_;
  PassingTimeline timeline_;
  ReflectorOptions options_;
  ObjectStore store_{ObjectStoreOptions{}};
  std::stop_source stop_;
  std::vector<Fault> call_script_;
  std::vector<std::function<Fault()>> quiet_script_;

  int num_calls_ = 0;
  std::string calls_;
  std::string told_;
  ReflectorStatistics seen_;
  bool has_synced_ = false;
};

TEST_F(ReflectorTest, ListsInPagesThenWatchesFromTheListsVersion) {
  for (const char* const name : {"a", "b", "c", "d", "e"}) api_.Put(name, "1");
  options_.selection = {"prod", "app=x", "metadata.name!=z"};
  options_.keep = FieldFilter({"data"});
  const std::string listed = api_.newest();
  Run();
  EXPECT_EQ(calls_, "list page page watch");
  EXPECT_EQ(told_, "+a+b+c+d+e");
  EXPECT_TRUE(has_synced_);
  ASSERT_EQ(api_.watches().size(), 1U);
  EXPECT_EQ(api_.watches()[0].resource_version, listed);
  EXPECT_GE(api_.watches()[0].timeout, options_.watch_timeout);
  EXPECT_LE(api_.watches()[0].timeout, options_.watch_timeout * 2);
  EXPECT_EQ(api_.watches()[0].kept, R"({"metadata":{"resourceVersion":"7"},"data":1})");
  for (const ListOptions& list : api_.lists()) {
    EXPECT_EQ(list.limit, 2);
    EXPECT_EQ(list.resource_version, "");
    EXPECT_EQ(list.selection.label_selector, "app=x");
    EXPECT_NE(list.keep, nullptr);
  }
  EXPECT_EQ(seen_.lists, 1);
  EXPECT_EQ(seen_.pages, 3);
  EXPECT_EQ(seen_.deltas, 5);
  EXPECT_EQ(seen_.resource_version, listed);
  EXPECT_EQ(seen_.told_at, timeline_.Now());
}

TEST_F(ReflectorTest, AWatchThatEndsIsResumedAtOnceFromTheLastEvent) {
  api_.Put("a", "1");
  std::string last;
  quiet_script_ = {[&] {
                     api_.Put("b", "1");
                     api_.Put("a", "2");
                     last = api_.newest();
                     return Fault::kNone;
                   },
                   [] { return Fault::kEnd; }};
  Run();
  EXPECT_EQ(calls_, "list watch watch");
  EXPECT_EQ(told_, "+a+b~a");
  EXPECT_EQ(api_.watches()[1].resource_version, last);
  EXPECT_TRUE(Waits().empty());
  EXPECT_EQ(seen_.failures, 0);
}

TEST_F(ReflectorTest, ABrokenWatchIsResumedAfterAPauseFromTheLastEvent) {
  std::string last;
  quiet_script_ = {[&] {
                     api_.Put("a", "1");
                     last = api_.newest();
                     return Fault::kNone;
                   },
                   [&] {
                     api_.Put("b", "1");  // not delivered
                     return Fault::kBreak;
                   }};
  Run();
  EXPECT_EQ(calls_, "list watch watch");
  EXPECT_EQ(told_, "+a+b");
  EXPECT_EQ(api_.watches()[1].resource_version, last);
  ASSERT_EQ(Waits().size(), 1U);
  EXPECT_GE(Waits()[0], 0.4);
  EXPECT_LE(Waits()[0], 0.8);
  EXPECT_EQ(seen_.failures, 1);
  EXPECT_TRUE(seen_.last_error.ok());
}

TEST_F(ReflectorTest, BookmarksAloneMoveTheVersionOn) {
  api_.Put("a", "1");
  const auto bookmark = [&] {
    // A change outside of the selection: versions advance, but this watch gets no event.
    api_.Bookmark();
    return Fault::kNone;
  };
  std::string last;
  quiet_script_ = {bookmark, bookmark,
                   [&] {
                     last = api_.newest();
                     api_.Bookmark();
                     return Fault::kNone;
                   },
                   [] { return Fault::kBreak; }};
  Run();
  EXPECT_EQ(told_, "+a");
  EXPECT_EQ(api_.watches().back().resource_version, last);
  EXPECT_EQ(seen_.bookmarks, 4);  // the last one again
  EXPECT_EQ(seen_.relists, 0);
}

TEST_F(ReflectorTest, AnExpiredWatchListsAgainAndFindsWhatVanished) {
  api_.Put("a", "1");
  api_.Put("b", "1");
  api_.Put("c", "1");
  quiet_script_ = {[&] {
                     api_.Put("d", "1");
                     return Fault::kNone;
                   },
                   [&] {
                     api_.Remove("a");
                     api_.Remove("b");
                     api_.Put("b", "1");  // a different object
                     api_.Put("c", "2");
                     api_.Compact();
                     return Fault::kBreak;
                   }};
  Run();
  EXPECT_EQ(calls_, "list page watch watch list page watch");
  EXPECT_EQ(told_, "+a+b+c+d-b+b~c-a");
  EXPECT_EQ(Stored(), api_.values());
  EXPECT_EQ(seen_.relists, 1);
  EXPECT_EQ(seen_.lists, 2);
}

TEST_F(ReflectorTest, A410AtOnceAfterAListIsNoReasonToHurry) {
  call_script_ = {Fault::kNone,   Fault::kExpire, Fault::kNone,
                  Fault::kExpire, Fault::kNone,   Fault::kExpire};
  Run();
  EXPECT_EQ(calls_, "list watch list watch list watch list watch");
  ASSERT_EQ(Waits().size(), 3U);
  EXPECT_GE(Waits()[2], 1.6);
}

TEST_F(ReflectorTest, AnExpiredContinueTokenBeginsTheListAgain) {
  for (const char* const name : {"a", "b", "c", "d"}) api_.Put(name, "1");
  int pages = 0;
  api_.on_call = [&](const std::string& call) {
    if (call == "page" && ++pages == 1) {
      api_.Remove("a");  // the store has applied it already
      api_.Put("e", "1");
      api_.Compact();
    }
    return Call(call);
  };
  Run();
  EXPECT_EQ(calls_, "list page list page watch");
  EXPECT_EQ(told_, "+a+b+c+d+e-a");
  EXPECT_EQ(Stored(), api_.values());
  EXPECT_EQ(seen_.lists, 1);
  EXPECT_EQ(Waits().size(), 1U);
}

TEST_F(ReflectorTest, AFailedPageIsAskedForAgain) {
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  call_script_ = {Fault::kBreak, Fault::kRefuse, Fault::kNone, Fault::kThrottle, Fault::kBreak};
  Run();
  EXPECT_EQ(calls_, "list list list page page page watch");
  EXPECT_EQ(api_.lists()[3].continue_token, api_.lists()[5].continue_token);
  EXPECT_EQ(told_, "+a+b+c");
  ASSERT_EQ(Waits().size(), 4U);
  EXPECT_LT(Waits()[0], Waits()[1]);
  EXPECT_EQ(Waits()[2], 7);  // as the server requested
}

TEST_F(ReflectorTest, AListBeginsAgainWhereTheSamePageCannotBeHad) {
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  call_script_ = {Fault::kNone, Fault::kGarble};
  Run();
  EXPECT_EQ(calls_, "list page list page watch");
  EXPECT_EQ(told_, "+a+b+c");
}

TEST_F(ReflectorTest, APageOfTooManyBytesIsAskedForWithFewerObjects) {
  options_.page_size = 5;
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  call_script_ = {Fault::kTooLong, Fault::kNone, Fault::kTooLong, Fault::kTooLong};
  Run();
  EXPECT_EQ(calls_, "list list page page page watch");
  EXPECT_EQ(told_, "+a+b+c");
  std::vector<int64_t> limits;
  for (const ListOptions& list : api_.lists()) limits.push_back(list.limit);
  EXPECT_EQ(limits, (std::vector<int64_t>{5, 2, 2, 1, 1}));
}

TEST_F(ReflectorTest, PausesGrowToABoundAndBeginAnewAfterAnEvent) {
  call_script_ = {Fault::kNone};
  call_script_.insert(call_script_.end(), 12, Fault::kBreak);
  quiet_script_ = {[&] {
                     api_.Put("a", "1");
                     return Fault::kNone;
                   },
                   [] { return Fault::kBreak; }};
  Run();
  const std::vector<double> waits = Waits();
  ASSERT_EQ(waits.size(), 13U);
  for (size_t i = 0; i < 12; ++i) {
    const double most = std::min(30.0, 0.8 * static_cast<double>(1 << i));
    EXPECT_LE(waits[i], most) << i;
    EXPECT_GE(waits[i], most / 2) << i;
  }
  EXPECT_LE(waits[12], 0.8);
  EXPECT_EQ(seen_.relists, 0);  // without a reply, the version may still be good
}

TEST_F(ReflectorTest, AWatchThatIsOnlySilentGoesOnAtOnceHoweverOften) {
  api_.Put("a", "1");
  quiet_script_.assign(20, [] { return Fault::kSilent; });
  quiet_script_.emplace_back([&] {
    api_.Put("a", "2");
    return Fault::kNone;
  });
  Run();
  EXPECT_EQ(told_, "+a~a");
  EXPECT_EQ(api_.watches().size(), 21U);
  EXPECT_EQ(Waits().size(), 0U);
  EXPECT_EQ(seen_.failures, 0);
  EXPECT_EQ(seen_.relists, 0);
}

TEST_F(ReflectorTest, AListThatFallsSilentHalfwayIsAFailure) {
  api_.streams = true;
  api_.Put("a", "1");
  api_.Put("b", "1");
  int events = 0;
  api_.on_event = [&] { return ++events == 2 ? Fault::kSilent : Fault::kNone; };
  Run();
  EXPECT_EQ(calls_, "stream list watch");
  EXPECT_EQ(told_, "+a+b");
  EXPECT_EQ(Waits().size(), 1U);
  EXPECT_EQ(seen_.failures, 1);
}

TEST_F(ReflectorTest, AServerThatEndsWatchesAtOnceIsNotAskedWithoutPause) {
  call_script_ = {Fault::kNone, Fault::kEnd, Fault::kEnd, Fault::kEnd};
  Run();
  EXPECT_EQ(calls_, "list watch watch watch watch");
  EXPECT_EQ(Waits().size(), 3U);
  EXPECT_EQ(seen_.failures, 3);
}

TEST_F(ReflectorTest, AVersionThatLeadsNowhereIsGivenUpForAList) {
  call_script_ = {Fault::kNone};
  call_script_.insert(call_script_.end(), 5, Fault::kRefuse);
  Run();
  EXPECT_EQ(calls_, "list watch watch watch watch watch list watch");
  EXPECT_EQ(seen_.relists, 1);
}

TEST_F(ReflectorTest, AThrottledWatchWaitsAsAskedAndListsNothing) {
  call_script_ = {Fault::kNone};
  call_script_.insert(call_script_.end(), 8, Fault::kThrottle);
  Run();
  EXPECT_EQ(seen_.relists, 0);
  for (const double wait : Waits()) EXPECT_GE(wait, 7);
}

TEST_F(ReflectorTest, WhatIsNoEventIsPassedByWithAList) {
  api_.Put("a", "1");
  quiet_script_ = {[&] {
    api_.Put("a", "2");
    return Fault::kGarble;
  }};
  Run();
  EXPECT_EQ(calls_, "list watch list watch");
  EXPECT_EQ(told_, "+a~a");
  EXPECT_EQ(Waits().size(), 1U);
}

TEST_F(ReflectorTest, AnEventThatComesTwiceIsToldOnce) {
  api_.Put("a", "1");
  api_.repeat_events = 3;
  quiet_script_ = {[&] {
    api_.Put("a", "2");
    api_.Put("b", "1");
    api_.Remove("b");
    return Fault::kNone;
  }};
  Run();
  EXPECT_EQ(told_, "+a~a+b-b");
  EXPECT_EQ(seen_.events, 9);
  EXPECT_EQ(seen_.unchanged, 6);
}

TEST_F(ReflectorTest, OlderEventsThatComeAgainLeadToTheSameEnd) {
  api_.Put("a", "1");
  quiet_script_ = {[&] {
                     api_.Put("a", "2");
                     api_.Remove("a");
                     api_.Put("a", "3");
                     return Fault::kNone;
                   },
                   [&] {
                     api_.rewind = 3;
                     return Fault::kBreak;
                   }};
  Run();
  EXPECT_EQ(told_, "+a~a-a+a-a+a-a+a");
  EXPECT_EQ(Stored(), api_.values());
}

TEST_F(ReflectorTest, AWatchThatDeletesWhatItNeverToldOfLeadsToAList) {
  api_.Put("a", "1");
  int events = 0;
  quiet_script_ = {[&] {
    api_.Remove("a");
    api_.Put("a", "2");
    api_.Remove("a");
    return Fault::kNone;
  }};
  // The first two events are lost.
  WatchedObjects& api = api_;
  class Lossy final : public UnimplementedApi {
   public:
    Lossy(ObjectApi& under, int& events) : under_(under), events_(events) {}
    ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                               const CallLimits& limits) override {
      return under_.List(resource, options, limits);
    }
    ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                              FunctionRef<bool(WatchEvent)> deliver,
                              const std::stop_token& stop) override {
      return under_.Watch(
          resource, options,
          [&](WatchEvent event) { return ++events_ <= 2 || deliver(std::move(event)); }, stop);
    }

   private:
    ObjectApi& under_;
    int& events_;
  } lossy(api, events);
  Reflector reflector(
      lossy, kConfigMaps, options_, store_, [this](const Delta& delta) { Hear(delta); }, timeline_);
  reflector.Run(stop_.get_token());
  EXPECT_EQ(told_, "+a-a");
  EXPECT_EQ(calls_, "list watch list watch");
  EXPECT_EQ(reflector.statistics().relists, 1);
}

TEST_F(ReflectorTest, AListThatIsStreamedGoesOnAsTheWatch) {
  api_.streams = true;
  for (const char* const name : {"a", "b", "c", "d", "e"}) api_.Put(name, "1");
  options_.selection = {"prod", "app=x", "metadata.name!=z"};
  quiet_script_ = {[&] {
    EXPECT_EQ(told_, "+a+b+c+d+e");
    api_.Put("a", "2");
    return Fault::kNone;
  }};
  Run();
  EXPECT_EQ(calls_, "stream");
  EXPECT_EQ(told_, "+a+b+c+d+e~a");
  EXPECT_TRUE(has_synced_);
  EXPECT_EQ(api_.watches()[0].resource_version, "");
  EXPECT_GE(api_.watches()[0].timeout, options_.watch_timeout);
  EXPECT_EQ(seen_.lists, 1);
  EXPECT_EQ(seen_.streams, 1);
  EXPECT_EQ(seen_.pages, 0);
  EXPECT_EQ(seen_.failures, 0);
  EXPECT_EQ(seen_.resource_version, api_.newest());
}

TEST_F(ReflectorTest, AWatchAfterAStreamBeginsWhereItsInitialEventsEnded) {
  api_.streams = true;
  api_.Put("a", "1");
  api_.Put("b", "1");
  const std::string newest = api_.newest();
  quiet_script_ = {[] { return Fault::kBreak; }};
  Run();
  EXPECT_EQ(calls_, "stream watch");
  EXPECT_EQ(api_.watches()[1].resource_version, newest);
  EXPECT_EQ(Waits().size(), 1U);
}

TEST_F(ReflectorTest, WhatHappensWhileAListIsStreamedIsTold) {
  api_.streams = true;
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  int events = 0;
  api_.on_event = [&] {
    if (++events == 2) {
      api_.Remove("a");  // already delivered
      api_.Put("b", "2");
      api_.Remove("c");
      api_.Put("c", "3");
    }
    return Fault::kNone;
  };
  Run();
  EXPECT_EQ(calls_, "stream");
  EXPECT_EQ(told_, "+a+b+c-a~b-c+c");
  EXPECT_EQ(Stored(), api_.values());
}

TEST_F(ReflectorTest, AServerThatRefusesStreamsIsAskedForPagesAtOnceAndOnceOnly) {
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  quiet_script_ = {[&] {
    api_.Put("a", "2");
    api_.Compact();
    return Fault::kExpire;
  }};
  Run();
  EXPECT_EQ(calls_, "list page watch list page watch");
  EXPECT_EQ(seen_.watches, 3);  // including the refused one
  EXPECT_EQ(seen_.streams, 0);
  EXPECT_EQ(seen_.failures, 1);  // the 410
}

TEST_F(ReflectorTest, AStreamThatNeverSaysItsEndIsGivenUpForPages) {
  api_.streams = true;
  api_.ends_initial_events = false;
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  Run();
  EXPECT_EQ(calls_, "stream list page watch");
  EXPECT_EQ(told_, "+a+b+c");
  EXPECT_TRUE(Waits().empty());
  EXPECT_EQ(seen_.lists, 1);
  EXPECT_EQ(seen_.streams, 0);
}

TEST_F(ReflectorTest, AStreamThatFailsIsFollowedByPagesAndTheNextListIsAStream) {
  for (const Fault fault : {Fault::kEnd, Fault::kBreak, Fault::kRefuse, Fault::kExpire,
                            Fault::kGarble, Fault::kTooLong}) {
    for (const int position : {0, 2, 4}) {  // refused, in the middle, before the end bookmark
      SCOPED_TRACE(testing::Message() << static_cast<int>(fault) << " at " << position);
      WatchedObjects api;
      api.streams = true;
      for (const char* const name : {"a", "b", "c"}) api.Put(name, "1");
      std::stop_source stop;
      std::string calls;
      api.on_call = [&](const std::string& call) {
        calls += call + " ";
        return call == "stream" && position == 0 && calls == "stream " ? fault : Fault::kNone;
      };
      int events = 0;
      api.on_event = [&] { return ++events == position ? fault : Fault::kNone; };
      api.on_quiet = [&] {
        timeline_.Advance(Seconds(60));
        if (calls == "stream list page watch ") {
          api.Remove("b");
          api.Compact();
          return Fault::kExpire;
        }
        stop.request_stop();
        return Fault::kNone;
      };
      ObjectStore store{ObjectStoreOptions{}};
      std::string told;
      Reflector reflector(
          api, kConfigMaps, options_, store,
          [&](const Delta& delta) {
            told += delta.key.name;
            // A partial list is not a list.
            EXPECT_EQ(reflector.HasSynced(), delta.type == DeltaType::kDeleted);
          },
          timeline_);
      reflector.Run(stop.get_token());
      EXPECT_EQ(calls, "stream list page watch stream ");
      EXPECT_EQ(told, "abcb");
      EXPECT_EQ(store.size(), 2U);
      EXPECT_EQ(reflector.statistics().lists, 2);
      EXPECT_EQ(reflector.statistics().streams, 1);
    }
  }
}

TEST_F(ReflectorTest, AThrottledStreamWaitsAsAsked) {
  api_.streams = true;
  call_script_ = {Fault::kThrottle};
  Run();
  EXPECT_EQ(calls_, "stream list watch");
  ASSERT_EQ(Waits().size(), 1U);
  EXPECT_GE(Waits()[0], 7);
}

TEST_F(ReflectorTest, AStreamedListAgainFindsWhatVanished) {
  api_.streams = true;
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  quiet_script_ = {[&] {
    api_.Remove("a");
    api_.Remove("b");
    api_.Put("b", "1");  // a different object
    api_.Compact();
    return Fault::kExpire;
  }};
  Run();
  // The 410 ends the watch before any event since the list, so a pause comes first.
  EXPECT_EQ(calls_, "stream stream");
  EXPECT_EQ(told_, "+a+b+c-b+b-a");
  EXPECT_EQ(seen_.relists, 1);
  EXPECT_EQ(seen_.streams, 2);
  EXPECT_EQ(Waits().size(), 1U);
}

TEST_F(ReflectorTest, HasSyncedOnlyWhenAListIsComplete) {
  for (const char* const name : {"a", "b", "c"}) api_.Put(name, "1");
  api_.on_call = [&](const std::string& call) {
    if (call == "page") stop_.request_stop();
    return Fault::kNone;
  };
  Run();
  EXPECT_EQ(told_, "+a+b");
  EXPECT_FALSE(has_synced_);
}

// The server refuses to stream lists, or streams them.
class ReflectorOnTest : public ReflectorTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Servers, ReflectorOnTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Streaming" : "Paging"; });

// A stop during any call, event or pause ends the run: no call follows.
TEST_P(ReflectorOnTest, AStopAtAnyPositionEndsTheRun) {
  bool was_through = false;
  for (int position = 1; !was_through; ++position) {
    SCOPED_TRACE(position);
    ASSERT_LT(position, 200);
    WatchedObjects api;
    api.streams = GetParam();
    std::stop_source stop;
    int steps = 0;
    const auto step = [&] {
      if (++steps == position) stop.request_stop();
      EXPECT_LE(steps, position) << "after the stop";
    };
    for (const char* const name : {"a", "b", "c", "d", "e"}) api.Put(name, "1");
    int calls = 0;
    api.on_call = [&](const std::string&) {
      step();
      ++calls;
      return calls == 2 || calls == 5 ? Fault::kBreak : Fault::kNone;
    };
    int quiet = 0;
    api.on_quiet = [&] {
      if (stop.stop_requested()) return Fault::kNone;
      timeline_.Advance(Seconds(5));
      if (++quiet == 3) {
        was_through = true;
        stop.request_stop();
        return Fault::kNone;
      }
      api.Put("a", std::to_string(quiet));
      api.Remove("b");
      api.Put("b", "1");
      if (quiet == 2) api.Compact();
      return quiet == 2 ? Fault::kBreak : Fault::kNone;
    };
    api.on_event = [&] {
      step();
      return Fault::kNone;
    };
    ObjectStore store{ObjectStoreOptions{}};
    Reflector reflector(api, kConfigMaps, options_, store, nullptr, timeline_);
    reflector.Run(stop.get_token());
    EXPECT_TRUE(steps >= position || was_through);
  }
}

// Calls and watches fail anywhere, and versions expire at any time. After the faults the store
// equals the objects, and the deltas add up to it.
TEST_P(ReflectorOnTest, AnyFaultsAreFollowedByTheTruth) {
  for (uint64_t run = 0; run < 200; ++run) {
    SCOPED_TRACE(run);
    std::minstd_rand random(MixSeed(TestSeed(), run));
    WatchedObjects api;
    api.streams = GetParam();
    std::stop_source stop;
    const auto draw = [&](unsigned one_in) { return random() % one_in == 0; };
    const auto change = [&] {
      const std::string name(1, static_cast<char>('a' + random() % 7));
      if (api.values().contains(name) && draw(3)) {
        api.Remove(name);
      } else {
        api.Put(name, std::to_string(random() % 4));
      }
      if (draw(5)) api.Bookmark();
      if (draw(8)) api.Compact();
    };
    int steps = 0;
    const auto fault = [&](unsigned one_in) {
      static constexpr Fault kFaults[] = {Fault::kEnd,    Fault::kSilent,   Fault::kBreak,
                                          Fault::kRefuse, Fault::kThrottle, Fault::kExpire,
                                          Fault::kGarble, Fault::kTooLong};
      const bool is_faulty = ++steps < 400 && draw(one_in);
      return is_faulty ? kFaults[random() % std::size(kFaults)] : Fault::kNone;
    };
    api.on_call = [&](const std::string&) {
      if (steps < 400 && draw(2)) change();
      if (draw(4)) api.rewind = random() % 4;
      return fault(3);
    };
    api.on_event = [&] { return fault(6); };
    api.on_quiet = [&] {
      timeline_.Advance(Seconds(static_cast<double>(random() % 30) / 10));
      if (steps >= 400) {
        stop.request_stop();
        return Fault::kNone;
      }
      change();
      return fault(4);
    };
    api.ends_initial_events = !draw(8);
    api.repeat_events = 1 + static_cast<int>(random() % 2);
    std::map<std::string, Node> told;
    const auto told_of = [&](const std::string& name) {
      const auto found = told.find(name);
      return found == told.end() ? nullptr : &found->second;
    };
    ObjectStore store{ObjectStoreOptions{}};
    Reflector reflector(
        api, kConfigMaps, options_, store,
        [&](const Delta& delta) {
          const Node* const last = told_of(delta.key.name);
          ASSERT_EQ(last == nullptr, delta.before == nullptr);
          EXPECT_TRUE(last == nullptr || *last == *delta.before);
          EXPECT_TRUE(delta.type != DeltaType::kModified ||
                      UidOf(*delta.before) == UidOf(*delta.after));
          told.erase(delta.key.name);
          if (delta.after != nullptr) told[delta.key.name] = *delta.after;
        },
        timeline_);
    reflector.Run(stop.get_token());
    std::map<std::string, std::string> stored;
    for (const Node& object : store.List()) {
      const std::string name = KeyOf(object).name;
      stored[name] = TextAt(object, {"data", "value"});
      ASSERT_NE(told_of(name), nullptr);
      EXPECT_TRUE(*told_of(name) == object);
      EXPECT_EQ(UidOf(object), UidOf(api.Object(name)));
    }
    EXPECT_EQ(told.size(), stored.size());
    EXPECT_EQ(stored, api.values());
  }
}

TEST(Informer, FollowsOnItsOwnThreadUntilItIsStopped) {
  WatchedObjects api;
  api.Put("a", "1");
  const SystemTimeline timeline;
  std::stop_source told_all;
  bool has_changed = false;
  api.on_quiet = [&] {
    if (!has_changed) {
      has_changed = true;
      api.Put("b", "1");
      api.Remove("a");
    }
    return Fault::kNone;
  };
  std::string told;
  Informer informer(
      api, kConfigMaps, ReflectorOptions{}, {},
      [&](const Delta& delta) {
        told += delta.key.name;
        if (delta.type == DeltaType::kDeleted) told_all.request_stop();
      },
      timeline);
  EXPECT_FALSE(informer.HasSynced());
  informer.Start();
  timeline.WaitUntil(timeline.Now() + Scaled(std::chrono::minutes(1)), told_all.get_token());
  informer.Stop();
  EXPECT_EQ(told, "aba");
  EXPECT_TRUE(informer.HasSynced());
  EXPECT_EQ(informer.store().Keys(), (std::vector<ObjectKey>{{"prod", "b"}}));
  EXPECT_EQ(informer.statistics().events, 2);
}

}  // namespace
}  // namespace janus::control
