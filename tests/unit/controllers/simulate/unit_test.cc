#include "controllers/simulate/unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <tuple>

#include "tests/support/random.h"

namespace janus::controllers {
namespace {

// What happened, and when.
struct Event {
  enum class Kind { kFirstToken, kFinished, kRefused };
  Kind kind;
  double arrival;
  int input;
  int output;
  double first_token;
  double time;
  int64_t weight;
};

class Log final : public UnitListener {
 public:
  void OnFirstToken(const SimulatedRequest& r, double now) override {
    events.push_back({Event::Kind::kFirstToken, r.arrival, r.input, r.output, 0, now, r.weight});
  }
  void OnFinished(const Finished& f) override {
    events.push_back({Event::Kind::kFinished, f.request.arrival, f.request.input, f.request.output,
                      f.first_token, f.end, f.request.weight});
  }
  void OnRefused(const SimulatedRequest& r, double now) override {
    events.push_back({Event::Kind::kRefused, r.arrival, r.input, r.output, 0, now, r.weight});
  }

  int64_t Weight(Event::Kind kind) const {
    int64_t sum = 0;
    for (const Event& event : events) sum += event.kind == kind ? event.weight : 0;
    return sum;
  }

  std::vector<Event> events;
};

// The specification: the rules in Unit's comment, step by step, with every request separately (no
// groups), in the simplest form.
class EveryStep {
 public:
  EveryStep(const UnitShape& shape, UnitListener* listener) : shape_(shape), listener_(listener) {}

  void Run(std::vector<SimulatedRequest> requests) {
    size_t next = 0;
    while (true) {
      if (waiting_.empty() && prompts_.empty() && running_.empty()) {
        if (next == requests.size()) return;
        now_ = std::max(now_, requests[next].arrival);
      }
      for (; next < requests.size() && requests[next].arrival <= now_; ++next) {
        const SimulatedRequest& r = requests[next];
        if (r.input + r.output > shape_.kv_tokens ||
            static_cast<int64_t>(waiting_.size()) >= shape_.most_waiting) {
          listener_->OnRefused(r, r.arrival);
        } else {
          waiting_.push_back({r, 0, 0, 0});
        }
      }
      Step();
    }
  }

 private:
  struct One {
    SimulatedRequest request;
    int generated;
    double first_token;
    int64_t prompt_left;
    int64_t Prompt() const { return request.input + generated; }
  };

  int64_t RunningKeys() const {
    int64_t keys = 0;
    for (const One& one : running_) keys += one.Prompt() - 1;
    return keys;
  }
  int64_t PromptKeys() const {
    int64_t keys = 0;
    for (const One& one : prompts_) keys += one.Prompt();
    return keys;
  }

  int64_t TokensToCome() const {
    int64_t tokens = 0;
    for (const One& one : running_) tokens += one.request.output - one.generated;
    for (const One& one : prompts_) tokens += one.request.output - one.generated;
    return tokens;
  }

  void Step() {
    while (!waiting_.empty()) {
      const One& one = waiting_.front();
      const int64_t rows = static_cast<int64_t>(running_.size());
      const int64_t keys = RunningKeys() + PromptKeys() + rows + one.Prompt() + 1;
      const int64_t to_come = TokensToCome() + one.request.output - one.generated;
      if (100 * keys + shape_.growth_reserve_percent * to_come > 100 * shape_.kv_tokens) break;
      if (rows + static_cast<int64_t>(prompts_.size()) >= shape_.most_running) break;
      prompts_.push_back(one);
      prompts_.back().prompt_left = one.Prompt();
      waiting_.pop_front();
    }
    while (!running_.empty() &&
           RunningKeys() + PromptKeys() + static_cast<int64_t>(running_.size()) >
               shape_.kv_tokens) {
      waiting_.push_front(running_.back());
      running_.pop_back();
    }
    if (running_.empty() && prompts_.empty()) return;
    const auto running = static_cast<double>(running_.size());
    const double mean_keys = running > 0 ? static_cast<double>(RunningKeys()) / running : 1;
    auto left = static_cast<int64_t>(shape_.steps->PromptRows(running, mean_keys));
    const int64_t of_one = (left + shape_.instances - 1) / shape_.instances;
    int64_t prompt_rows = 0;
    for (One& one : prompts_) {
      const int64_t rows = std::min({one.prompt_left, of_one, left});
      one.prompt_left -= rows;
      left -= rows;
      prompt_rows += rows;
    }
    now_ += shape_.steps->At(running, mean_keys, static_cast<double>(prompt_rows)).seconds;
    for (One& one : running_) ++one.generated;
    for (const One& one : running_) {
      if (one.generated == one.request.output) {
        listener_->OnFinished({one.request, one.first_token, now_});
      }
    }
    std::erase_if(running_, [](const One& one) { return one.generated == one.request.output; });
    for (One& one : prompts_) {
      if (one.prompt_left > 0) continue;
      if (one.generated == 0) {
        one.first_token = now_;
        listener_->OnFirstToken(one.request, now_);
      }
      ++one.generated;
      if (one.generated == one.request.output) {
        listener_->OnFinished({one.request, one.first_token, now_});
      } else {
        running_.push_back(one);
      }
    }
    std::erase_if(prompts_, [](const One& one) { return one.prompt_left == 0; });
  }

  const UnitShape shape_;
  UnitListener* listener_;
  double now_ = 0;
  std::deque<One> waiting_;
  std::deque<One> prompts_;
  std::vector<One> running_;
};

// Grows with rows, keys and prompt rows, and is not linear in any of them.
double StepSeconds(double rows, double context, double prompt_rows) {
  return 0.01 + 2e-4 * std::sqrt(rows) + 1e-8 * rows * context + 1e-9 * context * context +
         2e-5 * prompt_rows;
}

constexpr StepTable::Prompts kPrompts = {256, 12, 0.0155};

UnitShape Shape(int64_t kv_tokens, int growth_reserve_percent = 0) {
  UnitShape shape;
  shape.growth_reserve_percent = growth_reserve_percent;
  shape.instances = 3;
  shape.kv_tokens = kv_tokens;
  shape.most_running = 24;
  shape.most_waiting = 40;
  shape.steps = std::make_shared<StepTable>(StepSeconds, kPrompts);
  return shape;
}

std::vector<SimulatedRequest> RandomRequests(uint64_t seed, int count, double rate) {
  std::mt19937_64 random(seed);
  std::vector<SimulatedRequest> requests;
  double now = 0;
  for (int i = 0; i < count; ++i) {
    now += static_cast<double>(random() % 1000) / 500 / rate;
    const bool is_long = random() % 8 == 0;
    requests.push_back({now, static_cast<int32_t>(1 + random() % (is_long ? 900 : 60)),
                        static_cast<int32_t>(1 + random() % 50), 1});
  }
  return requests;
}

void RunUnit(Unit& unit, const std::vector<SimulatedRequest>& requests) {
  for (const SimulatedRequest& request : requests) {
    unit.AdvanceTo(request.arrival);
    unit.Arrive(request);
  }
  unit.AdvanceTo(1e9);
}

std::vector<Event> InOrder(std::vector<Event> events) {
  std::ranges::sort(
      events, {}, [](const Event& e) { return std::tuple(e.kind, e.arrival, e.input, e.output); });
  return events;
}

struct Case {
  const char* name;
  int64_t kv_tokens;
  double rate;
  int growth_reserve_percent = 0;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class UnitAgainstEveryStep : public testing::TestWithParam<Case> {};

TEST_P(UnitAgainstEveryStep, DoesTheSameAtTheSameTimes) {
  int64_t preempted = 0;
  for (uint64_t run = 1; run <= 20; ++run) {
    const auto requests = RandomRequests(MixSeed(TestSeed(), run), 150, GetParam().rate);
    Log plain, jumping;
    const UnitShape shape = Shape(GetParam().kv_tokens, GetParam().growth_reserve_percent);
    EveryStep(shape, &plain).Run(requests);
    Unit unit(shape, 0, &jumping);
    RunUnit(unit, requests);
    preempted += unit.counters().preempted;
    const auto expected = InOrder(plain.events);
    const auto got = InOrder(jumping.events);
    ASSERT_EQ(got.size(), expected.size()) << "run " << run;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].kind, expected[i].kind) << "run " << run << " event " << i;
      ASSERT_EQ(got[i].arrival, expected[i].arrival) << "run " << run << " event " << i;
      ASSERT_NEAR(got[i].time, expected[i].time, 1e-7) << "run " << run << " event " << i;
      ASSERT_NEAR(got[i].first_token, expected[i].first_token, 1e-7) << "run " << run;
    }
  }
  EXPECT_EQ(preempted > 0, std::string(GetParam().name).starts_with("ShortOfKeys"));
}

INSTANTIATE_TEST_SUITE_P(All, UnitAgainstEveryStep,
                         testing::Values(Case{"Idle", 100'000, 1}, Case{"Busy", 100'000, 40},
                                         Case{"Overloaded", 100'000, 400},
                                         Case{"ShortOfKeys", 1'000, 30},
                                         Case{"ShortOfKeysWithReserve", 1'000, 30, 30},
                                         Case{"ReserveForAll", 1'000, 30, 100}),
                         [](const auto& info) { return info.param.name; });

TEST(Unit, LosesNoRequestAndNoToken) {
  for (const int weight : {1, 7, 1000}) {
    auto requests = RandomRequests(5, 300, 60);
    int64_t all = 0;
    for (SimulatedRequest& request : requests) {
      request.weight = weight;
      all += weight;
    }
    Log log;
    Unit unit(Shape(3'000), 0, &log);
    RunUnit(unit, requests);
    EXPECT_TRUE(unit.IsEmpty());
    EXPECT_EQ(log.Weight(Event::Kind::kFinished) + log.Weight(Event::Kind::kRefused), all);
    EXPECT_EQ(log.Weight(Event::Kind::kFinished), log.Weight(Event::Kind::kFirstToken));
    EXPECT_EQ(unit.Now().kv_tokens, 0);
    int64_t decoded = 0, prompts = 0;
    for (const Event& event : log.events) {
      if (event.kind != Event::Kind::kFinished) continue;
      EXPECT_GT(event.first_token, event.arrival);
      decoded += event.weight * (event.output - 1);
      prompts += event.weight * event.input;
    }
    // Preempted sequences compute tokens again as prompts; the number never falls.
    const Unit::Counters& counters = unit.counters();
    EXPECT_GE(counters.prompt_tokens, prompts);
    EXPECT_LE(counters.decode_tokens, decoded);
    if (counters.preempted == 0) {
      EXPECT_EQ(counters.prompt_tokens, prompts);
      EXPECT_EQ(counters.decode_tokens, decoded);
    }
  }
}

TEST(Unit, AGroupIsAsFastAsItsRequestsArrivingTogether) {
  std::vector<SimulatedRequest> one_by_one;
  for (int i = 0; i < 6; ++i) one_by_one.push_back({1.0, 40, 30, 1});
  Log apart, together;
  Unit first(Shape(100'000), 0, &apart);
  Unit second(Shape(100'000), 0, &together);
  RunUnit(first, one_by_one);
  RunUnit(second, {{1.0, 40, 30, 6}});
  // All prompts fit one step.
  EXPECT_DOUBLE_EQ(first.now(), second.now());
  EXPECT_EQ(apart.Weight(Event::Kind::kFinished), together.Weight(Event::Kind::kFinished));
}

TEST(Unit, AShorterPauseOrMoreRoomNeverEndsLater) {
  double last = 0;
  for (const double pause : {0.0, 0.5, 2.0}) {
    Log log;
    Unit unit(Shape(50'000), 0, &log);
    unit.Arrive({0, 100, 200, 1});
    unit.AdvanceTo(0.5);
    unit.Reshape(Shape(50'000), pause);
    unit.AdvanceTo(1e9);
    EXPECT_GT(log.events.back().time, last);
    last = log.events.back().time;
  }
}

TEST(Unit, RefusesWhatItsQueueOrItsMemoryCannotHold) {
  Log log;
  Unit unit(Shape(500), 0, &log);
  unit.Arrive({0, 400, 101, 1});
  EXPECT_EQ(log.Weight(Event::Kind::kRefused), 1);
  unit.Arrive({0, 10, 10, 50});  // 40 may wait
  EXPECT_EQ(log.Weight(Event::Kind::kRefused), 11);
  unit.AdvanceTo(1e9);
  EXPECT_EQ(log.Weight(Event::Kind::kFinished), 40);
}

TEST(Unit, GivesBackWhatHasNotBegun) {
  Log log;
  Unit unit(Shape(100'000), 0, &log);
  for (int i = 0; i < 30; ++i) unit.Arrive({0, 50, 100, 1});
  unit.AdvanceTo(0.001);  // 24 may run
  EXPECT_EQ(unit.TakeWaiting().size(), 6u);
  unit.AdvanceTo(1e9);
  EXPECT_EQ(log.Weight(Event::Kind::kFinished), 24);
}

TEST(StepTable, IsTheModelAtItsPointsAndBetweenThemClose) {
  StepTable table(StepSeconds, kPrompts);
  EXPECT_NEAR(table.At(16, 256, 0).seconds, StepSeconds(16, 256, 0), 1e-12);
  EXPECT_NEAR(table.At(16, 256, 256).seconds, StepSeconds(16, 256, 256), 1e-12);
  for (double rows = 1; rows < 5000; rows *= 1.37) {
    for (double keys = 16; keys < 5e3; keys *= 1.61) {
      const double exact = StepSeconds(rows, keys, 100);
      EXPECT_NEAR(table.At(rows, keys, 100).seconds, exact, 0.02 * exact) << rows << " " << keys;
    }
  }
}

TEST(StepTable, PromptRowsFillTheBudgetAndNeverStarve) {
  StepTable table(StepSeconds, kPrompts);
  double last = 1e9;
  for (const double rows : {0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0}) {
    const double prompts = table.PromptRows(rows, 300);
    EXPECT_LE(prompts, last);
    EXPECT_GE(prompts, 12);
    EXPECT_LE(prompts, 256);
    last = prompts;
    const double until = table.At(rows, 300, prompts).until;
    if (prompts > 12) {
      EXPECT_LE(table.At(rows, until - 1e-6, prompts).seconds, kPrompts.budget_seconds) << rows;
    }
    if (prompts < 256) {
      EXPECT_GT(table.At(rows, until - 1e-6, prompts + 1.01).seconds, kPrompts.budget_seconds);
    }
  }
  EXPECT_EQ(last, 12);
}

TEST(StepTable, PromptsGetAShareOfALongStepWithoutThem) {
  StepTable table(StepSeconds, {256, 1, 0.0155, 0.1});
  for (const double rows : {1000.0, 10000.0}) {
    const double alone = table.At(rows, 300, 0).seconds;
    ASSERT_GT(alone, 0.0155);
    const double prompts = table.PromptRows(rows, 300);
    EXPECT_GT(prompts, 1);
    EXPECT_NEAR(table.At(rows, 300, prompts).seconds, 1.1 * alone, 0.03 * alone) << rows;
  }
}

TEST(StepTable, LinesEndWhereTheNextBegins) {
  StepTable table(StepSeconds, kPrompts);
  for (double keys = 1; keys < 1e6;) {
    const StepTable::Line line = table.At(7, keys, 0);
    ASSERT_GT(line.until, keys);
    const double at_end = line.seconds + line.per_key * (line.until - keys);
    EXPECT_NEAR(table.At(7, line.until, 0).seconds, at_end, 1e-9 + 1e-9 * at_end);
    keys = line.until;
  }
}

}  // namespace
}  // namespace janus::controllers
