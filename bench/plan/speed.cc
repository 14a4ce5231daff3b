// Milliseconds of CPU that a plan search takes in the default space: other work on the machine does
// not count.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "bench/plan/figures.h"
#include "common/check.h"
#include "tests/support/plan_settings.h"

namespace janus::bench {
namespace {

double CpuMilliseconds() {
  rusage usage;
  JANUS_CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

}  // namespace

void SearchSpeed() {
  constexpr double kLimit = 50;
  constexpr int kRuns = 5;
  std::printf("\nPlan search, CPU milliseconds, the largest of %d runs; limit %.0f\n", kRuns,
              kLimit);
  for (const auto& [model, attention, experts, tpot, batch] :
       {std::tuple("deepseek-v3", "H200", "H200", 0.05, 0.),
        {"deepseek-v3", "H200", "H200", 0.05, 4096.},
        {"deepseek-v3", "H20", "L40S", 0.15, 0.},
        {"mixtral-8x22b", "H20", "L40S", 0.15, 0.},
        {"scaled-moe", "A800", "A800", 0.15, 0.},
        {"deepseek-v2", "H100", "H100", 0.2, 512.}}) {
    const controllers::Setting setting = controllers::Make(model, attention, experts, 1024);
    double most = 0;
    int64_t tried = 0;
    for (int run = 0; run < kRuns; ++run) {
      const double begin = CpuMilliseconds();
      const auto answer = controllers::SearchPlans(setting, {tpot, batch}, {});
      most = std::max(most, CpuMilliseconds() - begin);
      JANUS_CHECK(answer.ok(), answer.status().ToString());
      tried = answer->tried;
    }
    std::printf("  %-14s %4s+%-4s TPOT %3.0f ms, %-24s %6.1f ms, %6lld tried%s\n", model, attention,
                experts, tpot * 1e3,
                batch > 0 ? ("batch " + std::to_string(static_cast<int>(batch))).c_str()
                          : "most tokens per cost",
                most, static_cast<long long>(tried), most > kLimit ? "  OVER" : "");
  }
}

}  // namespace janus::bench
