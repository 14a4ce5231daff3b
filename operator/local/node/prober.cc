#include "operator/local/node/prober.h"

#include <httplib.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace janus::control {
namespace {

constexpr std::string_view kUnix = "unix:";

MonotonicTime After(MonotonicTime time, Seconds wait) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(wait);
}

// Null: the address is invalid.
std::unique_ptr<httplib::ClientImpl> ClientOf(const std::string& address) {
  if (address.starts_with(kUnix)) {
    constexpr int kIgnored = 80;
    auto client = std::make_unique<httplib::ClientImpl>(address.substr(kUnix.size()), kIgnored);
    client->set_address_family(AF_UNIX);
    return client;
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos) return nullptr;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::make_unique<httplib::ClientImpl>(host, port);
}

void SetTimeout(httplib::ClientImpl& client, Seconds timeout) {
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  const time_t seconds = whole / 1'000'000, rest = whole % 1'000'000;
  client.set_connection_timeout(seconds, rest);
  client.set_read_timeout(seconds, rest);
  client.set_write_timeout(seconds, rest);
}

}  // namespace

// When a probe is due, and the result of its answers.
class Prober::Schedule {
 public:
  Schedule(const std::optional<Probe>& probe, Seconds starting_period, MonotonicTime now)
      : probe_(probe), starting_period_(starting_period), next_(now) {}

  bool IsDue(MonotonicTime now) const { return probe_ && now >= next_; }
  MonotonicTime next() const { return probe_ ? next_ : MonotonicTime::max(); }
  const Probe& probe() const { return *probe_; }

  void Answered(bool well, MonotonicTime now) {
    has_succeeded_ = has_succeeded_ || well;
    failures_ = well ? 0 : failures_ + 1;
    next_ =
        After(now, has_succeeded_ ? probe_->period : std::min(starting_period_, probe_->period));
  }
  bool has_succeeded() const { return has_succeeded_; }
  bool has_failed() const { return failures_ >= probe_->failures; }
  int failures() const { return failures_; }

 private:
  const std::optional<Probe>& probe_;
  const Seconds starting_period_;
  MonotonicTime next_;
  bool has_succeeded_ = false;
  int failures_ = 0;
};

Prober::Prober(Options options, std::function<void()> on_change)
    : options_(std::move(options)),
      on_change_(std::move(on_change)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Prober::~Prober() {
  thread_.request_stop();
  thread_.join();
}

Probed Prober::seen() const {
  const MutexLock lock(mu_);
  return seen_;
}

void Prober::Set(const Probed& found) {
  {
    const MutexLock lock(mu_);
    if (seen_ == found) return;
    seen_ = found;
  }
  on_change_();
}

bool Prober::WaitUntil(MonotonicTime time, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mu_);
    stopped_.NotifyAll();
  });
  const MutexLock lock(mu_);
  while (!stop.stop_requested() && MonotonicClock::now() < time) stopped_.WaitUntil(mu_, time);
  return !stop.stop_requested();
}

bool Prober::Succeeds(const Probe& probe, const std::stop_token& stop) {
  // After `stop`, a new probe would not be aborted.
  if (stop.stop_requested()) return false;
  const std::unique_ptr<httplib::ClientImpl> client = ClientOf(options_.address);
  if (client == nullptr || !client->is_valid()) return false;
  SetTimeout(*client, probe.timeout);
  const std::stop_callback give_up(stop, [&client] { client->stop(); });
  const httplib::Result reply = client->Get(probe.path.c_str());
  return reply && reply->status >= 200 && reply->status < 400;
}

// False if `stop` was requested, or if it did not start in time.
bool Prober::AwaitStart(const std::stop_token& stop) {
  const std::optional<Probe>& probe = options_.startup;
  if (!probe) return true;
  constexpr Seconds kEver{1e9};  // longer than any clock runs
  const MonotonicTime deadline =
      After(MonotonicClock::now(), std::min(probe->period * probe->failures, kEver));
  while (!Succeeds(*probe, stop)) {
    const MonotonicTime now = MonotonicClock::now();
    if (now >= deadline) {
      Probed found;
      found.is_dead = "Startup probe failed";
      Set(found);
      return false;
    }
    if (!WaitUntil(After(now, std::min(options_.starting_period, probe->period)), stop)) {
      return false;
    }
  }
  return !stop.stop_requested();
}

void Prober::Watch(const std::stop_token& stop) {
  const MonotonicTime began = MonotonicClock::now();
  Schedule readiness(options_.readiness, options_.starting_period, began);
  Schedule liveness(options_.liveness, options_.starting_period, began);
  Probed found;
  found.is_started = true;
  found.is_ready = !options_.readiness;
  Set(found);
  while (WaitUntil(std::min(readiness.next(), liveness.next()), stop)) {
    if (readiness.IsDue(MonotonicClock::now())) {
      readiness.Answered(Succeeds(readiness.probe(), stop), MonotonicClock::now());
      if (readiness.failures() == 0) found.is_ready = true;
      if (readiness.has_failed()) found.is_ready = false;
    }
    if (liveness.IsDue(MonotonicClock::now())) {
      liveness.Answered(Succeeds(liveness.probe(), stop), MonotonicClock::now());
      if (liveness.has_failed()) {
        found.is_dead = "Liveness probe failed " + std::to_string(liveness.failures()) + " times";
      }
    }
    if (stop.stop_requested()) return;  // an aborted probe has no result
    Set(found);
    if (!found.is_dead.empty()) return;
  }
}

void Prober::Run(const std::stop_token& stop) {
  if (AwaitStart(stop)) Watch(stop);
}

}  // namespace janus::control
