#include "controllers/simulate/recorder.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {
Recorder::Recorder(ServiceLevel level, double window_s, double percentile)
    : level_(level), window_s_(window_s), percentile_(percentile) {}

WindowRecord& Recorder::WindowAt(double time) {
  const auto window = static_cast<size_t>(time / window_s_);
  while (windows_.size() <= window) {
    windows_.emplace_back();
    windows_.back().start_s = window_s_ * static_cast<double>(windows_.size() - 1);
  }
  return windows_[window];
}

void Recorder::CloseWindow() {
  WindowRecord& window = WindowAt((static_cast<double>(open_window_) + 0.5) * window_s_);
  window.tpot_p50 = window_tpot_.Percentile(0.5);
  window.tpot_p99 = window_tpot_.Percentile(0.99);
  window.ttft_p99 = window_ttft_.Percentile(0.99);
  window_tpot_.Clear();
  window_ttft_.Clear();
  ++open_window_;
}

void Recorder::OnArrival(const SimulatedRequest& request) {
  WindowRecord& window = WindowAt(request.arrival);
  window.arrived += request.weight;
  window.input_tokens += request.weight * int64_t{request.input};
  totals_.requests += request.weight;
}

void Recorder::OnFirstToken(const SimulatedRequest& request, double now) {
  const double ttft = now - request.arrival;
  window_ttft_.Add(ttft, request.weight);
  recent_ttft_.Add(ttft, 1);
  all_ttft_.Add(ttft, request.weight);
}

void Recorder::OnFinished(const Finished& finished) {
  const SimulatedRequest& request = finished.request;
  const double ttft = finished.first_token - request.arrival;
  bool is_kept = level_.ttft_seconds == 0 || ttft <= level_.ttft_seconds;
  if (request.output > 1) {
    const double tpot = (finished.end - finished.first_token) / (request.output - 1);
    is_kept = is_kept && tpot <= level_.tpot_seconds;
    window_tpot_.Add(tpot, request.weight);
    recent_tpot_.Add(tpot, 1);
    all_tpot_.Add(tpot, request.weight);
  }
  WindowRecord& window = WindowAt(request.arrival);
  window.finished += request.weight;
  window.output_tokens += request.weight * int64_t{request.output};
  totals_.finished += request.weight;
  totals_.input_tokens += request.weight * int64_t{request.input};
  totals_.output_tokens += request.weight * int64_t{request.output};
  recent_finished_ += request.weight;
  recent_ended_.requests += request.weight;
  recent_output_ += static_cast<double>(request.weight) * request.output;
  if (!is_kept) return;
  window.attained += request.weight;
  totals_.attained += request.weight;
  recent_ended_.attained += request.weight;
}

void Recorder::OnRefused(const SimulatedRequest& request, double /*now*/) {
  WindowAt(request.arrival).refused += request.weight;
  totals_.refused += request.weight;
  recent_ended_.requests += request.weight;
}

void Recorder::OnGpus(double now, int gpus) {
  if (is_billing_) totals_.peak_gpus = std::max(totals_.peak_gpus, gpus);
  while (is_billing_ && gpus_until_ < now) {
    const auto window = static_cast<size_t>(gpus_until_ / window_s_);
    const double end = std::min(now, window_s_ * static_cast<double>(window + 1));
    if (end <= gpus_until_) {  // rounding at a border
      gpus_until_ = std::nextafter(gpus_until_, now);
      continue;
    }
    WindowAt(gpus_until_).gpu_seconds += gpus * (end - gpus_until_);
    totals_.gpu_hours += gpus * (end - gpus_until_) / 3600;
    gpus_until_ = end;
  }
  while (static_cast<double>(open_window_ + 1) * window_s_ <= now) CloseWindow();
}

Recorder::Recent Recorder::TakeRecent() {
  Recent recent;
  recent.tpot_groups = recent_tpot_.count();
  recent.ttft_groups = recent_ttft_.count();
  recent.tpot = recent_tpot_.Percentile(percentile_);
  recent.ttft = recent_ttft_.Percentile(percentile_);
  recent.finished = recent_finished_;
  recent.output_tokens = recent_output_;
  recent.ended = recent_ended_;
  recent_finished_ = recent_output_ = 0;
  recent_ended_ = {};
  recent_tpot_.Clear();
  recent_ttft_.Clear();
  return recent;
}

Totals Recorder::Sum() const {
  Totals totals = totals_;
  totals.tpot_p50 = all_tpot_.Percentile(0.5);
  totals.tpot_p95 = all_tpot_.Percentile(0.95);
  totals.tpot_p99 = all_tpot_.Percentile(0.99);
  totals.ttft_p50 = all_ttft_.Percentile(0.5);
  totals.ttft_p95 = all_ttft_.Percentile(0.95);
  totals.ttft_p99 = all_ttft_.Percentile(0.99);
  return totals;
}

std::vector<WindowRecord> Recorder::TakeWindows(double now) {
  while (static_cast<double>(open_window_) * window_s_ < now) CloseWindow();
  return std::move(windows_);
}

}  // namespace janus::controllers
