#include "operator/kube/event_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/rfc3339.h"
#include "tests/support/fake_clock.h"

namespace janus::control {
namespace {

Happening Of(const std::string& object, const std::string& reason = "ScaledUp",
             const std::string& note = "experts from 2 to 4") {
  Happening out;
  out.regarding = {"serving.janus.dev/v1alpha1", "MoEService", {"prod", object}, "uid-" + object};
  out.reason = reason;
  out.action = "Scale";
  out.note = note;
  return out;
}

ApiError Error(StatusCode code, std::optional<Seconds> retry_after = std::nullopt) {
  ApiError error = LocalError(Status(code, "injected"));
  error.retry_after = retry_after;
  return error;
}

class EventBookTest : public testing::Test {
 protected:
  static EventBookOptions Options() {
    EventBookOptions options;
    options.controller = "serving.janus.dev/operator";
    options.instance = "operator-0";
    return options;
  }
  void Record(const Happening& happening) {
    book_.Record(happening, clock_.Now(), clock_.WallNow());
  }
  std::optional<EventBook::Write> Take() { return book_.TakeWrite(clock_.Now()); }
  void Done(const EventBook::Write& write) { book_.Finish(write, nullptr, clock_.Now()); }
  void Failed(const EventBook::Write& write, const ApiError& error) {
    book_.Finish(write, &error, clock_.Now());
  }
  // Takes the due write and finishes it successfully; nothing: no write is due.
  std::optional<EventBook::Write> Write() {
    std::optional<EventBook::Write> write = Take();
    if (write) Done(*write);
    return write;
  }
  void PassTo(std::optional<MonotonicTime> time) {
    ASSERT_TRUE(time.has_value());
    clock_.Advance(*time - clock_.Now() + std::chrono::nanoseconds(1));  // Seconds are rounded
  }
  static int64_t CountIn(const EventBook::Write& write) {
    return IntegerAt(write.body, {"series", "count"}).value_or(1);
  }

  FakeClock clock_;
  EventBook book_{Options(), clock_.Now()};
};

TEST_F(EventBookTest, AnEventSaysWhatHappenedToWhomAndWhen) {
  Happening happening = Of("chat");
  happening.type = EventType::kWarning;
  Record(happening);
  const std::optional<EventBook::Write> write = Write();
  ASSERT_TRUE(write.has_value());
  EXPECT_TRUE(write->is_create);
  EXPECT_EQ(KeyOf(write->body), write->event);
  EXPECT_EQ(write->event.namespace_, "prod");
  EXPECT_TRUE(write->event.name.starts_with("chat."));
  EXPECT_EQ(write->event.name.size(), 5U + 16U);
  const Node& body = write->body;
  EXPECT_EQ(TextAt(body, {"apiVersion"}), "events.k8s.io/v1");
  EXPECT_EQ(TextAt(body, {"kind"}), "Event");
  EXPECT_EQ(TextAt(body, {"eventTime"}), FormatMicroTime(clock_.WallNow()));
  EXPECT_EQ(TextAt(body, {"reportingController"}), "serving.janus.dev/operator");
  EXPECT_EQ(TextAt(body, {"reportingInstance"}), "operator-0");
  EXPECT_EQ(TextAt(body, {"type"}), "Warning");
  EXPECT_EQ(TextAt(body, {"reason"}), "ScaledUp");
  EXPECT_EQ(TextAt(body, {"action"}), "Scale");
  EXPECT_EQ(TextAt(body, {"note"}), "experts from 2 to 4");
  EXPECT_EQ(TextAt(body, {"regarding", "apiVersion"}), "serving.janus.dev/v1alpha1");
  EXPECT_EQ(TextAt(body, {"regarding", "kind"}), "MoEService");
  EXPECT_EQ(TextAt(body, {"regarding", "namespace"}), "prod");
  EXPECT_EQ(TextAt(body, {"regarding", "name"}), "chat");
  EXPECT_EQ(TextAt(body, {"regarding", "uid"}), "uid-chat");
  EXPECT_EQ(FindAt(body, {"series"}), nullptr);  // no series for a single occurrence
  EXPECT_EQ(book_.NextDeadline(), std::nullopt);
  EXPECT_EQ(book_.depth(), 0U);
}

TEST_F(EventBookTest, RepeatsAreWrittenTogetherAsASeries) {
  Record(Of("chat"));
  const std::string event = Write()->event.name;
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(Seconds(1));
    Record(Of("chat"));
  }
  const WallTime last = clock_.WallNow();
  EXPECT_FALSE(Take().has_value());  // once per series_period
  clock_.Advance(Seconds(54.9));
  EXPECT_FALSE(Take().has_value());
  PassTo(book_.NextDeadline());
  const std::optional<EventBook::Write> write = Write();
  ASSERT_TRUE(write.has_value());
  EXPECT_FALSE(write->is_create);
  EXPECT_EQ(write->event.name, event);
  EXPECT_EQ(CountIn(*write), 6);
  EXPECT_EQ(TextAt(write->body, {"series", "lastObservedTime"}), FormatMicroTime(last));
  EXPECT_EQ(write->body.fields.size(), 1U);  // other fields of an Event never change
  EXPECT_FALSE(Take().has_value());
  EXPECT_EQ(book_.statistics().repeats, 5);
}

TEST_F(EventBookTest, WhatDiffersInAnythingIsAnotherEvent) {
  std::vector<Happening> all = {Of("chat"), Of("other"), Of("chat", "ScaledDown"),
                                Of("chat", "ScaledUp", "experts from 4 to 6")};
  all.push_back(Of("chat"));
  all.back().type = EventType::kWarning;
  all.push_back(Of("chat"));
  all.back().action = "Place";
  all.push_back(Of("chat"));
  all.back().regarding.uid = "another of the name";
  std::set<std::string> names;
  for (const Happening& happening : all) Record(happening);
  while (const std::optional<EventBook::Write> write = Write()) names.insert(write->event.name);
  EXPECT_EQ(names.size(), all.size());
}

TEST_F(EventBookTest, ASeriesEndsWhenItWasQuietForLong) {
  Record(Of("chat"));
  const std::string first = Write()->event.name;
  clock_.Advance(Seconds(361));
  Record(Of("chat"));
  const std::optional<EventBook::Write> again = Write();
  EXPECT_TRUE(again->is_create);
  EXPECT_NE(again->event.name, first);
}

TEST_F(EventBookTest, RepeatsBeforeTheFirstWriteAreCreatedAsASeries) {
  for (int i = 0; i < 3; ++i) Record(Of("chat"));
  const std::optional<EventBook::Write> write = Write();
  EXPECT_TRUE(write->is_create);
  EXPECT_EQ(CountIn(*write), 3);
  EXPECT_FALSE(Take().has_value());
}

TEST_F(EventBookTest, Invariant1ARepeatDuringAWriteComesWithTheNext) {
  Record(Of("chat"));
  const std::optional<EventBook::Write> write = Take();
  Record(Of("chat"));
  clock_.Advance(Seconds(100));
  EXPECT_FALSE(Take().has_value());
  Done(*write);
  PassTo(book_.NextDeadline());
  EXPECT_EQ(CountIn(*Write()), 2);
}

TEST_F(EventBookTest, Invariant2ACreateWhoseReplyWasLostMeetsItsOwnName) {
  Record(Of("chat"));
  const std::optional<EventBook::Write> lost = Take();
  Failed(*lost, Error(StatusCode::kUnavailable));
  Record(Of("chat"));
  PassTo(book_.NextDeadline());
  const std::optional<EventBook::Write> again = Take();
  EXPECT_TRUE(again->is_create);
  EXPECT_EQ(again->event, lost->event);
  Failed(*again, Error(StatusCode::kAlreadyExists));
  // The existing Event does not count the repeat yet.
  PassTo(book_.NextDeadline());
  const std::optional<EventBook::Write> patch = Write();
  EXPECT_FALSE(patch->is_create);
  EXPECT_EQ(CountIn(*patch), 2);
  EXPECT_EQ(book_.statistics().created, 1);
}

TEST_F(EventBookTest, AnEventThatTheServerForgotIsCreatedAgain) {
  Record(Of("chat"));
  Write();
  Record(Of("chat"));
  PassTo(book_.NextDeadline());
  Failed(*Take(), Error(StatusCode::kNotFound));
  const std::optional<EventBook::Write> write = Write();
  ASSERT_TRUE(write.has_value());
  EXPECT_TRUE(write->is_create);
  EXPECT_EQ(CountIn(*write), 2);
}

TEST_F(EventBookTest, AFailedWriteWaitsLongerEachTimeAndIsGivenUp) {
  Record(Of("chat"));
  double most = 1;
  for (int attempt = 1; attempt < Options().max_attempts;
       ++attempt, most = std::min(60.0, most * 2)) {
    const std::optional<EventBook::Write> write = Take();
    ASSERT_TRUE(write.has_value());
    Failed(*write, Error(StatusCode::kUnavailable));
    const double pause = Seconds(*book_.NextDeadline() - clock_.Now()).count();
    EXPECT_GE(pause, most / 2 - 1e-6);
    EXPECT_LE(pause, most + 1e-6);
    PassTo(book_.NextDeadline());
  }
  Failed(*Take(), Error(StatusCode::kUnavailable));
  EXPECT_EQ(book_.NextDeadline(), std::nullopt);
  EXPECT_EQ(book_.statistics().dropped_failed, 1);
  EXPECT_EQ(book_.statistics().last_error.code(), StatusCode::kUnavailable);
}

TEST_F(EventBookTest, AServersRetryAfterIsKeptTo) {
  Record(Of("chat"));
  Failed(*Take(), Error(StatusCode::kResourceExhausted, Seconds(42)));
  EXPECT_EQ(Seconds(*book_.NextDeadline() - clock_.Now()), Seconds(42));
}

TEST_F(EventBookTest, WhatIsRefusedIsDroppedAtOnce) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kPermissionDenied, StatusCode::kNotFound}) {
    Record(Of("chat"));
    Failed(*Take(), Error(code));
    EXPECT_EQ(book_.depth(), 0U);
  }
  EXPECT_EQ(book_.statistics().dropped_failed, 3);
}

TEST_F(EventBookTest, AWriteThatWasCutShortIsDueAgain) {
  Record(Of("chat"));
  Failed(*Take(), Error(StatusCode::kCancelled));
  EXPECT_TRUE(Take().has_value());
}

TEST_F(EventBookTest, OneObjectsEventsAreLimitedAndOthersAreNot) {
  for (int i = 0; i < 40; ++i) Record(Of("noisy", "ScaledUp", std::to_string(i)));
  EXPECT_EQ(book_.statistics().dropped_limited, 15);
  Record(Of("quiet"));
  EXPECT_EQ(book_.depth(), 26U);
  clock_.Advance(Seconds(301));
  Record(Of("noisy", "ScaledUp", "later"));
  Record(Of("noisy", "ScaledUp", "later still"));
  EXPECT_EQ(book_.statistics().dropped_limited, 16);
}

TEST_F(EventBookTest, RepeatsAreNotHeldAgainstAnObject) {
  for (int i = 0; i < 100; ++i) Record(Of("noisy"));
  EXPECT_EQ(book_.statistics().dropped_limited, 0);
  EXPECT_EQ(book_.depth(), 1U);
}

TEST_F(EventBookTest, WritesOfAllKeepToTheirRate) {
  for (int i = 0; i < 60; ++i) Record(Of("chat-" + std::to_string(i)));
  int at_once = 0;
  while (Write()) ++at_once;
  EXPECT_EQ(at_once, 20);
  const MonotonicTime before = clock_.Now();
  for (int i = 0; i < 40; ++i) {
    PassTo(book_.NextDeadline());
    ASSERT_TRUE(Write().has_value());
  }
  EXPECT_NEAR(Seconds(clock_.Now() - before).count(), 8, 0.01);
  EXPECT_EQ(book_.NextDeadline(), std::nullopt);
}

TEST_F(EventBookTest, Invariant3AFullBookDropsWhatIsNewAndForgetsWhatIsWritten) {
  EventBookOptions options = Options();
  options.capacity = 3;
  EventBook book(options, clock_.Now());
  const auto record = [&](const std::string& object) {
    clock_.Advance(Seconds(1));
    book.Record(Of(object), clock_.Now(), clock_.WallNow());
  };
  for (const char* const object : {"a", "b", "c", "d"}) record(object);
  EXPECT_EQ(book.statistics().dropped_full, 1);
  EXPECT_EQ(book.depth(), 3U);
  record("a");  // not a new one
  EXPECT_EQ(book.statistics().dropped_full, 1);
  while (const auto write = book.TakeWrite(clock_.Now()))
    book.Finish(*write, nullptr, clock_.Now());
  record("d");  // b is the least recently used and makes room
  EXPECT_EQ(book.statistics().dropped_full, 1);
  record("a");
  EXPECT_EQ(book.statistics().repeats, 2);
  while (const auto write = book.TakeWrite(clock_.Now()))
    book.Finish(*write, nullptr, clock_.Now());
  record("b");
  EXPECT_EQ(book.statistics().repeats, 2);
  EXPECT_EQ(book.statistics().created, 4);
}

TEST_F(EventBookTest, NotesAndNamesKeepToTheServersBounds) {
  Record(Of("chat", "ScaledUp", std::string(1020, 'x') + "\xc3\xa4 and on"));
  EXPECT_EQ(TextAt(Write()->body, {"note"}), std::string(1020, 'x') + "...");
  Record(Of("chat", "ScaledUp", "broken \xff\xc3 text"));
  EXPECT_EQ(TextAt(Write()->body, {"note"}), "broken ?? text");
  Record(Of(std::string(235, 'a') + "-" + std::string(17, 'b')));
  const std::string name = Write()->event.name;
  EXPECT_EQ(name.size(), 252U);
  EXPECT_EQ(name.substr(234, 2), "a.");
  Happening cluster = Of("node-1");
  cluster.regarding.key.namespace_ = "";
  Record(cluster);
  const std::optional<EventBook::Write> write = Write();
  EXPECT_EQ(write->event.namespace_, "default");
  EXPECT_EQ(FindAt(write->body, {"regarding", "namespace"}), nullptr);
}

}  // namespace
}  // namespace janus::control
