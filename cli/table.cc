#include "cli/table.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/timed_device.h"
#include "operator/api/quantity.h"

namespace janus::cli {
namespace {

// The same instance in the statistics before; zeros if it is new or has restarted.
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
  uint64_t waits = 0, overruns = 0;
  for (const InstanceStatistics& one : now.instances) {
    const InstanceStatistics was = Earlier(before, one);
    view.resident_bytes += one.resident_bytes;
    // All members abort a step together. A restarted member has counted fewer.
    view.steps_aborted = std::max(view.steps_aborted, one.steps_aborted);
    view.rounds_missed += one.rounds_missed;
    if (!one.timed.empty()) view.emulated = one.timed;
    waits += one.timed_waits - std::min(was.timed_waits, one.timed_waits);
    overruns += one.timed_overruns - std::min(was.timed_overruns, one.timed_overruns);
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
    // All attention instances step together. One that missed steps has counted fewer.
    view.steps_per_second =
        std::max(view.steps_per_second, Rate(was.steps, one.steps, between.count()));
    const double steps =
        one.compute_seconds + one.wait_seconds - was.compute_seconds - was.wait_seconds;
    if (steps > 0) {
      view.cpu_share = std::max(view.cpu_share, (one.host_seconds - was.host_seconds) / steps);
    }
    kv_used += one.kv_tokens_used;
    kv_capacity += one.kv_tokens_capacity;
    // Until a request has finished, the step time stands for the time per token.
    const double tpot =
        one.tpot_seconds_median > 0 ? one.tpot_seconds_median : one.step_seconds_median;
    if (tpot > 0) {
      tpot_sum += tpot;
      ++tpot_count;
    }
  }
  if (tpot_count > 0) view.tpot_seconds = tpot_sum / tpot_count;
  view.is_void = IsVoid(waits, overruns);
  view.kv_used = Per(kv_used, kv_capacity);
  return view;
}

namespace {

std::string Whole(uint64_t value) {
  return std::to_string(value);
}
std::string Tenths(double value) {
  return Format("%.1f", value);
}
std::string Milliseconds(double seconds) {
  return seconds > 0 ? Tenths(seconds * 1e3) : "-";
}
constexpr const char* kVoid = "; void: more than 1 % of the results came late";
std::string Bytes(uint64_t bytes) {
  return bytes > 0 ? control::FormatBytes(static_cast<int64_t>(bytes)) : "-";
}

// 75 columns: this fits every terminal.
std::string Row(std::initializer_list<std::string> cells) {
  static constexpr int kWidths[] = {6, 8, 8, 8, 10, 9, 10, 7, 9};
  std::string out;
  const int* width = kWidths;
  for (const std::string& cell : cells) out += Format("%*s", *width++, cell.c_str());
  return out + "\n";
}

}  // namespace

std::string RenderTable(const std::string& heading, const ServiceView& view,
                        const Statistics& before, const Statistics& now, Seconds between) {
  std::string out = heading + "\n";
  out += Row(
      {"", "running", "waiting", "batch", "tokens/s", "TPOT ms", "activated", "KV %", "memory"});
  out +=
      Row({Format("%dA%dE", view.m, view.n), Whole(view.running), Whole(view.waiting),
           Tenths(view.batch), Tenths(view.tokens_per_second), Milliseconds(view.tpot_seconds),
           Tenths(view.activated_experts), Tenths(view.kv_used * 100), Bytes(view.resident_bytes)});
  std::vector<InstanceStatistics> instances = now.instances;
  std::stable_sort(instances.begin(), instances.end(),
                   [](const InstanceStatistics& a, const InstanceStatistics& b) {
                     return std::pair(a.role, a.rank) < std::pair(b.role, b.rank);
                   });
  for (const InstanceStatistics& one : instances) {
    const ServiceView part = Summarize(before, {now.epoch, {one}}, between);
    const bool is_attention = one.role == Role::kAttention;
    const std::string name = (is_attention ? "A" : "E") + std::to_string(one.rank.value);
    if (is_attention) {
      out += Row({name, Whole(part.running), Whole(part.waiting), Tenths(part.batch),
                  Tenths(part.tokens_per_second), Milliseconds(part.tpot_seconds), "",
                  Tenths(part.kv_used * 100), Bytes(part.resident_bytes)});
    } else {
      out += Row({name, "", "", "", "", "", Tenths(part.activated_experts), "",
                  Bytes(part.resident_bytes)});
    }
  }
  if (!view.emulated.empty()) {
    out += "emulated: " + view.emulated + (view.is_void ? kVoid : "") + "\n";
  }
  if (view.steps_aborted > 0) {
    out += Whole(view.steps_aborted) + " steps aborted and repeated, " + Whole(view.rounds_missed) +
           " rounds missed\n";
  }
  return out;
}

std::string RenderLine(const ServiceView& view) {
  return Format(
             "%dA%dE running %llu waiting %llu batch %.1f tokens/s %.1f TPOT %.1f ms activated "
             "experts %.1f KV %.1f %% CPU %.1f %%",
             view.m, view.n, static_cast<unsigned long long>(view.running),
             static_cast<unsigned long long>(view.waiting), view.batch, view.tokens_per_second,
             view.tpot_seconds * 1e3, view.activated_experts, view.kv_used * 100,
             view.cpu_share * 100) +
         (view.emulated.empty() ? "" : " emulated") + (view.is_void ? kVoid : "") +
         (view.steps_aborted > 0 ? " steps aborted " + Whole(view.steps_aborted) : "") +
         (view.rounds_missed > 0 ? " rounds missed " + Whole(view.rounds_missed) : "");
}

}  // namespace janus::cli
