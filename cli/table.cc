#include "cli/table.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "operator/api/quantity.h"

namespace janus::cli {
namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char line[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  return line;
}

// The same instance in an earlier look; zeros when it is new or has restarted.
InstanceStatistics Earlier(const Statistics& before, const InstanceStatistics& now) {
  for (const InstanceStatistics& one : before.instances) {
    if (one.role == now.role && one.rank == now.rank && one.steps <= now.steps &&
        one.tokens <= now.tokens && one.rounds <= now.rounds && one.rows <= now.rows &&
        one.activated_experts <= now.activated_experts) {
      return one;
    }
  }
  return {};
}

double Rate(uint64_t before, uint64_t now, double seconds) {
  return seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

double Per(uint64_t amount, uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(amount) / static_cast<double>(count);
}

}  // namespace

ServiceView Summarize(const Statistics& before, const Statistics& now, Seconds between) {
  ServiceView view;
  uint64_t kv_used = 0;
  uint64_t kv_capacity = 0;
  double tpot_sum = 0;
  int tpot_count = 0;
  for (const InstanceStatistics& one : now.instances) {
    const InstanceStatistics was = Earlier(before, one);
    view.resident_bytes += one.resident_bytes;
    if (one.role == Role::kExperts) {
      ++view.n;
      const double activated =
          Per(one.activated_experts - was.activated_experts, one.rounds - was.rounds);
      view.activated_experts += activated;
      view.busiest_experts = std::max(view.busiest_experts, activated);
      continue;
    }
    ++view.m;
    view.running += one.running;
    view.waiting += one.waiting;
    view.preempted += one.preempted;
    view.tokens += one.tokens;
    view.batch += Per(one.rows - was.rows, one.steps - was.steps);
    view.tokens_per_second += Rate(was.tokens, one.tokens, between.count());
    // All attention instances step together; who sat out has fewer.
    view.steps_per_second =
        std::max(view.steps_per_second, Rate(was.steps, one.steps, between.count()));
    kv_used += one.kv_tokens_used;
    kv_capacity += one.kv_tokens_capacity;
    if (one.tpot_seconds_median > 0) {
      tpot_sum += one.tpot_seconds_median;
      ++tpot_count;
    }
  }
  if (tpot_count > 0) view.tpot_seconds = tpot_sum / tpot_count;
  view.kv_used = Per(kv_used, kv_capacity);
  return view;
}

std::string RenderTable(const std::string& heading, const ServiceView& view,
                        const Statistics& before, const Statistics& now, Seconds between) {
  std::string out = heading + "\n";
  out += Format("%6s %8s %8s %8s %10s %10s %14s %6s %9s\n", "", "running", "waiting", "batch",
                "tokens/s", "TPOT ms", "active experts", "KV %", "memory");
  const std::string tpot =
      view.tpot_seconds > 0 ? Format("%.1f", view.tpot_seconds * 1e3) : std::string("-");
  out += Format("%6s %8llu %8llu %8.1f %10.1f %10s %14.1f %6.1f %9s\n",
                Format("%dA%dE", view.m, view.n).c_str(),
                static_cast<unsigned long long>(view.running),
                static_cast<unsigned long long>(view.waiting), view.batch, view.tokens_per_second,
                tpot.c_str(), view.activated_experts, view.kv_used * 100,
                control::FormatBytes(static_cast<int64_t>(view.resident_bytes)).c_str());
  for (const InstanceStatistics& one : now.instances) {
    Statistics single;
    single.instances.push_back(one);
    const ServiceView part = Summarize(before, single, between);
    const std::string name =
        Format("%s%d", one.role == Role::kAttention ? "A" : "E", one.rank.value);
    if (one.role == Role::kAttention) {
      out +=
          Format("%6s %8llu %8llu %8.1f %10.1f %10s %14s %6.1f %9s\n", name.c_str(),
                 static_cast<unsigned long long>(part.running),
                 static_cast<unsigned long long>(part.waiting), part.batch, part.tokens_per_second,
                 part.tpot_seconds > 0 ? Format("%.1f", part.tpot_seconds * 1e3).c_str() : "-", "",
                 part.kv_used * 100,
                 control::FormatBytes(static_cast<int64_t>(part.resident_bytes)).c_str());
    } else {
      out += Format("%6s %8s %8s %8s %10s %10s %14.1f %6s %9s\n", name.c_str(), "", "", "", "", "",
                    part.activated_experts, "",
                    control::FormatBytes(static_cast<int64_t>(part.resident_bytes)).c_str());
    }
  }
  return out;
}

std::string RenderLine(const ServiceView& view) {
  return Format(
      "%dA%dE running %llu waiting %llu batch %.1f tokens/s %.1f TPOT %.1f ms activated "
      "experts %.1f KV %.1f %%",
      view.m, view.n, static_cast<unsigned long long>(view.running),
      static_cast<unsigned long long>(view.waiting), view.batch, view.tokens_per_second,
      view.tpot_seconds * 1e3, view.activated_experts, view.kv_used * 100);
}

}  // namespace janus::cli
