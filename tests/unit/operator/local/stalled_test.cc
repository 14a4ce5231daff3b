#include "operator/local/stalled.h"

#include <gtest/gtest.h>

#include <vector>

namespace janus::control {
namespace {

using namespace std::chrono_literals;

std::string LogOf(const std::string& name) {
  return "/logs/" + name + ".log";
}

TEST(StalledLoading, NamesWhoIsNotDoneSinceWhenAndItsLog) {
  const MonotonicTime now = MonotonicTime() + 1000s;
  const std::vector<PendingMember> pending = {{"experts-1", "", now - 90s},
                                              {"experts-0", "weights", now - 67400ms},
                                              {"attention-0", "connect", now - 61s}};
  EXPECT_EQ(DescribeStalledLoading(pending, now, Seconds(60), LogOf),
            "loading made no progress for 60 s: "
            "experts-1 has said nothing since it was asked 90 s ago (log: /logs/experts-1.log); "
            "experts-0 was last heard of 67 s ago (weights; log: /logs/experts-0.log); "
            "attention-0 was last heard of 61 s ago (connect; log: /logs/attention-0.log)");
}

TEST(StalledLoading, SaysTheTimeThatWasGiven) {
  const MonotonicTime now = MonotonicTime() + 1000s;
  const std::vector<PendingMember> pending = {{"experts-0", "weights", now - 1s}};
  EXPECT_EQ(DescribeStalledLoading(pending, now, Seconds(0.5), LogOf),
            "loading made no progress for 0.5 s: experts-0 was last heard of 1 s ago (weights; "
            "log: /logs/experts-0.log)");
}

}  // namespace
}  // namespace janus::control
