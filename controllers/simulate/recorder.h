#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controllers/scaling/world.h"
#include "controllers/simulate/durations.h"
#include "controllers/simulate/unit.h"

namespace janus::controllers {

// The target latencies of requests. A request attains it if it keeps both.
struct ServiceLevel {
  double tpot_seconds = 0.1;  // mean time between its tokens
  double ttft_seconds = 0;    // 0: no target
};

// A window of a simulation. Requests count by arrival; latencies and GPUs count by when they
// happened.
struct WindowRecord {
  double start_s = 0;
  int64_t arrived = 0;  // requests
  int64_t attained = 0;
  int64_t finished = 0;
  int64_t refused = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double tpot_p50 = 0;
  double tpot_p99 = 0;
  double ttft_p99 = 0;
  double gpu_seconds = 0;
};

// A change that a policy asked for.
struct DecisionRecord {
  double time_s = 0;
  std::string what;
  std::string why;
  int gpus = 0;
};

// Decisions with the same reason that changed nothing.
struct HoldRecord {
  std::string reason;  // by name
  int64_t count = 0;
  double first_s = 0;  // when it came first
  std::string why;     // its text then
};

struct Totals {
  int64_t requests = 0;
  int64_t finished = 0;
  int64_t refused = 0;
  int64_t attained = 0;
  int64_t input_tokens = 0;   // of finished requests
  int64_t output_tokens = 0;  // of finished requests
  int64_t preempted = 0;
  double gpu_hours = 0;
  int peak_gpus = 0;
  double tpot_p50 = 0;
  double tpot_p95 = 0;
  double tpot_p99 = 0;
  double ttft_p50 = 0;
  double ttft_p95 = 0;
  double ttft_p99 = 0;

  double Attainment() const {
    return requests == 0 ? 1 : static_cast<double>(attained) / static_cast<double>(requests);
  }
};

// Gets events from units and keeps the figures of a run. Confined to one thread.
class Recorder final : public UnitListener {
 public:
  Recorder(ServiceLevel level, double window_s, double percentile);

  void OnArrival(const SimulatedRequest& request);
  void OnFirstToken(const SimulatedRequest& request, double now) override;
  void OnFinished(const Finished& finished) override;
  void OnRefused(const SimulatedRequest& request, double now) override;
  // `gpus` cost money from the last call until `now`.
  void OnGpus(double now, int gpus);
  // From now on GPUs cost nothing.
  void EndBilling() { is_billing_ = false; }

  // Figures since the last call, for requests that got their first token or finished. A group
  // counts once: a hundred identical requests are one observation.
  struct Recent {
    int64_t tpot_groups = 0;
    int64_t ttft_groups = 0;
    double tpot = 0;  // at the percentile
    double ttft = 0;
    double finished = 0;       // requests
    double output_tokens = 0;  // their sum
    Ended ended;
  };
  Recent TakeRecent();

  Totals Sum() const;
  // Windows up to `now`. Also computes the percentiles of the last one.
  std::vector<WindowRecord> TakeWindows(double now);

 private:
  WindowRecord& WindowAt(double time);
  void CloseWindow();

  const ServiceLevel level_;
  const double window_s_;
  const double percentile_;
  std::vector<WindowRecord> windows_;
  size_t open_window_ = 0;  // the window that collects latencies now
  DurationHistogram window_tpot_, window_ttft_;
  DurationHistogram all_tpot_, all_ttft_;
  DurationHistogram recent_tpot_, recent_ttft_;
  Totals totals_;
  bool is_billing_ = true;
  double gpus_until_ = 0;
  double recent_finished_ = 0;
  double recent_output_ = 0;
  Ended recent_ended_;
};

}  // namespace janus::controllers
