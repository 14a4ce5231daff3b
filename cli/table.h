#pragma once

#include <string>

#include "common/clock.h"
#include "common/statistics.h"

namespace janus::cli {

// The figures of a service over the time since the statistics before.
struct ServiceView {
  int m = 0;
  int n = 0;
  uint64_t running = 0;  // sequences
  uint64_t waiting = 0;
  double batch = 0;              // rows per step, over all attention instances
  double tokens_per_second = 0;  // generated
  double steps_per_second = 0;
  double tpot_seconds = 0;  // median of requests that finished lately, else of steps; mean over A;
                            // 0: unknown
  double cpu_share = 0;     // share of step time outside kernels and waits; the largest
  double activated_experts = 0;  // replicas per round, over all expert instances
  double busiest_experts = 0;    // of the busiest instance
  double kv_used = 0;            // share of the capacity, 0..1
  uint64_t preempted = 0;
  // Since the start: steps that all members aborted and repeated, and rounds that members missed.
  uint64_t steps_aborted = 0;
  uint64_t rounds_missed = 0;
  uint64_t resident_bytes = 0;
  uint64_t tokens = 0;   // generated since the start
  std::string emulated;  // what timed devices stand for; empty: there are none
  bool is_void = false;  // over this time too many of their waits overran
};

// Pure. A counter that fell (the worker restarted) counts from zero.
ServiceView Summarize(const Statistics& before, const Statistics& now, Seconds between);

// One screen: a heading, the figures of the service, one line per instance, and one more line if a
// step was ever aborted. Lines end with '\n'.
std::string RenderTable(const std::string& heading, const ServiceView& view,
                        const Statistics& before, const Statistics& now, Seconds between);

// The same in one line, without a line end, for logs and pipes.
std::string RenderLine(const ServiceView& view);

}  // namespace janus::cli
