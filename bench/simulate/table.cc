#include "bench/simulate/table.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

namespace janus::bench {
namespace {

int LeastOf(const nlohmann::json& policy) {
  int least = std::numeric_limits<int>::max();
  for (const auto& decision : policy["decisions"]) {
    least = std::min(least, decision["gpus"].get<int>());
  }
  return least;
}

}  // namespace

void PrintPolicies(const nlohmann::json& report) {
  std::printf("%s\n%s\n\n%-9s %10s %9s %8s %9s %9s %9s %8s %6s %6s %8s\n",
              report["title"].get<std::string>().c_str(),
              report["workload"].get<std::string>().c_str(), "POLICY", "GPU-HOURS", "OF FIRST",
              "ATTAINED", "TPOT p50", "TPOT p99", "TTFT p99", "REFUSED", "PEAK", "LEAST",
              "CHANGES");
  const double first = report["policies"][0]["gpuHours"];
  for (const auto& policy : report["policies"]) {
    const double gpu_hours = policy["gpuHours"];
    std::printf("%-9s %10.1f %8.1f%% %7.2f%% %6.1f ms %6.1f ms %7.2f s %8lld %6d %6d %8zu\n",
                policy["policy"].get<std::string>().c_str(), gpu_hours, 100 * gpu_hours / first,
                100 * policy["attainment"].get<double>(),
                policy["tpotSeconds"]["p50"].get<double>() * 1e3,
                policy["tpotSeconds"]["p99"].get<double>() * 1e3,
                policy["ttftSeconds"]["p99"].get<double>(), policy["refused"].get<long long>(),
                policy["peakGpus"].get<int>(), LeastOf(policy), policy["decisions"].size() - 1);
    // If the oracle took another policy's schedule, print which.
    const std::string why = policy["decisions"][0]["why"];
    if (why.starts_with("as ours did")) std::printf("          %s\n", why.c_str());
  }
}

void PrintExtent(const nlohmann::json& report, double scale, const Extent& extent) {
  for (const auto& policy : report["policies"]) {
    if (policy["policy"] != "ours") continue;
    const int above = LeastOf(policy) - extent.fewest;
    std::printf(
        "scale %.4g: copies of the whole model take %d GPUs in the busiest minute%s; ours asks "
        "for no fewer than %d more than the %d that hold the model%s\n",
        scale, extent.peak, extent.peak < kLeastPeak ? " (TOO FEW)" : "", above, extent.fewest,
        above < kLeastAbove ? " (TOO FEW)" : "");
  }
}

}  // namespace janus::bench
