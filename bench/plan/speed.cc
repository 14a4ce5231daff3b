// Milliseconds of CPU time that a plan search takes in the default space. CPU time excludes other
// work on the machine.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/plan/figures.h"
#include "common/check.h"
#include "common/format.h"
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
  struct Asked {
    const char* model;
    const char* attention;
    const char* experts;
    double tpot;
    double batch;
    double ttft = 0;                 // seconds; 0: no target
    double requests_per_second = 0;  // of 2,000 tokens in, 200 out
  };
  for (const Asked& asked : {Asked{"deepseek-v3", "H200", "H200", 0.05, 0},
                             {"deepseek-v3", "H200", "H200", 0.05, 4096},
                             {"deepseek-v3", "H20", "L40S", 0.15, 0},
                             {"mixtral-8x22b", "H20", "L40S", 0.15, 0},
                             {"scaled-moe", "A800", "A800", 0.15, 0},
                             {"deepseek-v2", "H100", "H100", 0.2, 512},
                             {"deepseek-v3", "H200", "H200", 0.05, 0, 2, 10},
                             {"deepseek-v3", "H200", "H200", 0.05, 4096, 2, 20},
                             {"deepseek-v3", "H200", "H200", 0.05, 4096, 0.5, 20},
                             {"mixtral-8x22b", "H20", "L40S", 0.15, 256, 1, 4},
                             {"mixtral-8x22b", "H20", "L40S", 0.15, 256, 0.3, 4},
                             {"deepseek-v2", "H100", "H100", 0.1, 256, 1, 4},
                             {"deepseek-v2", "H100", "H100", 0.1, 256, 0.3, 4}}) {
    const controllers::Setting setting =
        controllers::Make(asked.model, asked.attention, asked.experts, 1024);
    controllers::PlanGoal goal = {asked.tpot, asked.batch};
    if (asked.ttft > 0) {
      goal.traffic = {asked.requests_per_second, 2000, 200};
      goal.ttft_seconds = asked.ttft;
    }
    double most = 0;
    std::string found;
    for (int run = 0; run < kRuns; ++run) {
      const double begin = CpuMilliseconds();
      const auto answer = controllers::SearchPlans(setting, goal, {});
      most = std::max(most, CpuMilliseconds() - begin);
      JANUS_CHECK(answer.ok() || answer.status().code() == StatusCode::kFailedPrecondition,
                  answer.status().ToString());
      found = answer.ok() ? std::to_string(answer->tried) + " tried" : "none keeps it";
    }
    std::string what = asked.batch > 0 ? "batch " + std::to_string(static_cast<int>(asked.batch))
                                       : "most tokens per cost";
    if (asked.ttft > 0) what += Format(", first token %.3g s", asked.ttft);
    std::printf("  %-14s %4s+%-4s TPOT %3.0f ms, %-34s %6.1f ms, %s%s\n", asked.model,
                asked.attention, asked.experts, asked.tpot * 1e3, what.c_str(), most, found.c_str(),
                most > kLimit ? "  OVER" : "");
  }
}

}  // namespace janus::bench
