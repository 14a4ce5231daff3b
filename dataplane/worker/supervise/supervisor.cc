#include "dataplane/worker/supervise/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/exposition/metrics_text.h"
#include "dataplane/worker/load_pacer.h"
#include "dataplane/worker/supervise/fetch_pages.h"
#include "dataplane/worker/supervise/merge_metrics.h"
#include "dataplane/worker/supervise/supervisor_metric_table.h"

namespace janus::dataplane {
namespace {

std::vector<std::string> SocketsOf(const std::vector<ChildCommand>& commands) {
  std::vector<std::string> sockets;
  for (const ChildCommand& one : commands) sockets.push_back(one.pages);
  return sockets;
}

}  // namespace

Supervisor::Supervisor(Options options, StopSignals& stop, Logger log)
    : options_(std::move(options)),
      stop_(stop),
      log_(std::move(log)),
      instances_(options_.commands.size()),
      restarts_(static_cast<int>(options_.commands.size())),
      silences_(static_cast<int>(options_.commands.size())) {}

Supervisor::~Supervisor() = default;

int Supervisor::Run() {
  std::unique_ptr<PageServer> pages;
  if (!options_.pages.empty()) {
    auto listening = PageServer::Create(options_.pages, Pages());
    if (!listening.ok()) {
      log_.Error("cannot serve metrics", {{"error", listening.status().message()}});
      return 1;
    }
    pages = *std::move(listening);
    log_.Info("serving metrics", {{"metrics", pages->address()}});
  }
  {
    const MutexLock lock(mu_);
    for (size_t index = 0; index < instances_.size() && !has_given_up_; ++index) {
      if (const Status started = Start(index); !started.ok()) {
        log_.Error("an instance cannot be started; the supervisor ends",
                   {{"index", index}, {"error", started.message()}});
        GiveUp();
      }
    }
  }
  const std::jthread watch([this](const std::stop_token& stop) { Watch(stop); });
  for (;;) {
    Wait();
    const MutexLock lock(mu_);
    PassSignalsOn();
    ReapEnded();
    if (kill_at_ && MonotonicClock::now() >= *kill_at_) {
      kill_at_.reset();
      log_.Warning("instances have not ended in time and are killed");
      SignalAll(SIGKILL);
    }
    if (!HaveAllEnded()) continue;
    const bool success =
        is_told_to_end_ && !has_given_up_ &&
        std::ranges::all_of(instances_, [](const Instance& one) { return one.ended.is_success(); });
    return success ? 0 : 1;
  }
}

Status Supervisor::Start(size_t index) {
  const ChildCommand& command = options_.commands[index];
  // A process that was killed leaves the file of its socket behind.
  unlink(command.pages.c_str());
  JANUS_ASSIGN_OR_RETURN(Child child, Child::Start(options_.program, command));
  Instance& instance = instances_[index];
  instance.child.emplace(std::move(child));
  instance.is_ready = false;
  ++instance.process;
  instance.started = MonotonicClock::now();
  silences_.Forget(static_cast<int>(index));
  log_.Info("started an instance", {{"index", index}, {"pid", instance.child->pid()}});
  return OkStatus();
}

void Supervisor::Wait() {
  std::vector<pollfd> polls{{stop_.fd(), POLLIN, 0}};
  int timeout = -1;
  {
    const MutexLock lock(mu_);
    for (const Instance& one : instances_) {
      if (one.child) polls.push_back({one.child->fd(), POLLIN, 0});
    }
    if (HaveAllEnded()) return;
    if (kill_at_) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - MonotonicClock::now());
      timeout = std::max(static_cast<int>(left.count()), 0);
    }
  }
  poll(polls.data(), polls.size(), timeout);
}

void Supervisor::PassSignalsOn() {
  while (const std::optional<int> signal = stop_.Next()) {
    log_.Info("a stop signal is passed on to every instance", {{"signal", *signal}});
    is_told_to_end_ = true;
    SignalAll(*signal);
  }
}

void Supervisor::ReapEnded() {
  for (size_t index = 0; index < instances_.size(); ++index) {
    if (!instances_[index].child) continue;
    pollfd ended{instances_[index].child->fd(), POLLIN, 0};
    if (poll(&ended, 1, 0) > 0) OnEnd(index);
  }
}

void Supervisor::OnEnd(size_t index) {
  Instance& instance = instances_[index];
  instance.ended = instance.child->Reap();
  instance.child.reset();
  instance.is_ready = false;
  const std::string how = ToString(instance.ended);
  if (IsEnding()) {
    log_.Info("an instance has ended", {{"index", index}, {"ended", how}});
    return;
  }
  if (!restarts_.Ended(static_cast<int>(index), MonotonicClock::now())) {
    log_.Error("an instance has ended; instances end too often, so the supervisor ends",
               {{"index", index},
                {"ended", how},
                {"ends", Restarts::kMostEnds},
                {"within_seconds", std::chrono::seconds(Restarts::kWithin).count()}});
    return GiveUp();
  }
  log_.Error("an instance has ended and is started again", {{"index", index}, {"ended", how}});
  if (const Status started = Start(index); !started.ok()) {
    log_.Error("an instance cannot be started again; the supervisor ends",
               {{"index", index}, {"error", started.message()}});
    GiveUp();
  }
}

void Supervisor::GiveUp() {
  has_given_up_ = true;
  kill_at_ = MonotonicClock::now() + options_.limits.end_within;
  SignalAll(SIGTERM);
}

void Supervisor::SignalAll(int signal) {
  for (const Instance& one : instances_) {
    if (one.child) one.child->Signal(signal);
  }
}

bool Supervisor::HaveAllEnded() const {
  return std::ranges::none_of(instances_,
                              [](const Instance& one) { return one.child.has_value(); });
}

void Supervisor::Watch(const std::stop_token& stop) {
  MonotonicTime ask_at = MonotonicClock::now() + options_.limits.ask_every;
  while (!stop.stop_requested()) {
    LookForReady();
    if (MonotonicClock::now() >= ask_at) {
      ask_at = MonotonicClock::now() + options_.limits.ask_every;
      LookForHung();
    }
    Pause(options_.limits.look_every, stop);
  }
}

void Supervisor::LookForReady() {
  const std::vector<Asked> asked = Running(false);
  if (asked.empty()) return;
  const std::vector<bool> answers = Ask(asked, "/ready");
  bool are_all_ready_first = false;
  {
    const MutexLock lock(mu_);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!IsStill(asked[i])) continue;
      Instance& instance = instances_[asked[i].index];
      instance.is_ready = answers[i];
      if (answers[i] || IsEnding() ||
          MonotonicClock::now() < instance.started + options_.limits.start_within) {
        continue;
      }
      log_.Error("an instance hangs and is killed: it did not become ready in time",
                 {{"index", asked[i].index}, {"pid", instance.child->pid()}});
      instance.child->Signal(SIGKILL);
    }
    const bool are_all_ready = std::ranges::all_of(
        instances_, [](const Instance& one) { return one.child && one.is_ready; });
    are_all_ready_first = are_all_ready && !std::exchange(was_ready_, was_ready_ || are_all_ready);
  }
  if (are_all_ready_first && options_.on_ready) options_.on_ready();
}

void Supervisor::LookForHung() {
  const std::vector<Asked> asked = Running(true);
  const std::vector<bool> answers = Ask(asked, "/live");
  const MutexLock lock(mu_);
  // An instance that ends closes its pages before it exits.
  if (IsEnding()) return;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!IsStill(asked[i])) continue;
    const size_t index = asked[i].index;
    if (!silences_.Asked(static_cast<int>(index), answers[i])) continue;
    log_.Error("an instance hangs and is killed: it does not answer /live",
               {{"index", index}, {"pid", instances_[index].child->pid()}});
    instances_[index].child->Signal(SIGKILL);
  }
}

std::vector<Supervisor::Asked> Supervisor::Running(bool ready) const {
  std::vector<Asked> out;
  const MutexLock lock(mu_);
  for (size_t index = 0; index < instances_.size(); ++index) {
    const Instance& one = instances_[index];
    if (one.child && one.is_ready == ready) out.push_back({index, one.process});
  }
  return out;
}

std::vector<bool> Supervisor::Ask(const std::vector<Asked>& asked, const char* page) const {
  std::vector<std::string> sockets;
  for (const Asked& one : asked) sockets.push_back(options_.commands[one.index].pages);
  std::vector<bool> out;
  for (const auto& answer : FetchPages(sockets, page, options_.limits.answer_within)) {
    out.push_back(answer.has_value());
  }
  return out;
}

bool Supervisor::IsStill(const Asked& asked) const {
  const Instance& one = instances_[asked.index];
  return one.child && one.process == asked.process;
}

PageServer::Pages Supervisor::Pages() {
  PageServer::Pages pages;
  pages["/startup"] = [this] { return AllAnswer("/startup"); };
  // An instance that is started again takes no readiness from the others: the control loop asks
  // each.
  pages["/ready"] = [this] {
    {
      const MutexLock lock(mu_);
      if (was_ready_) return Page{200, "ok\n"};
    }
    return AllAnswer("/ready");
  };
  pages["/metrics"] = [this] { return Page{200, Metrics(), kPrometheusContentType}; };
  // Hangs, and so fails the liveness probe, if the supervisor does. It finds hung instances itself.
  pages["/live"] = [this] {
    const MutexLock lock(mu_);
    return Page{200, "ok\n"};
  };
  return pages;
}

Page Supervisor::AllAnswer(const std::string& path) const {
  const auto answers =
      FetchPages(SocketsOf(options_.commands), path, options_.limits.gather_within);
  std::string silent;
  for (size_t index = 0; index < answers.size(); ++index) {
    if (!answers[index]) silent += " " + std::to_string(index);
  }
  if (silent.empty()) return {200, "ok\n"};
  return {503, "not so of these instances:" + silent + "\n"};
}

std::string Supervisor::Metrics() const {
  const auto answers =
      FetchPages(SocketsOf(options_.commands), "/metrics", options_.limits.gather_within);
  std::map<int, std::string> texts;
  for (size_t index = 0; index < answers.size(); ++index) {
    if (answers[index]) texts[static_cast<int>(index)] = *answers[index];
  }
  MetricFamily restarts(Metric(kSupervisorMetrics, "janus_worker_restarts_total"));
  const MutexLock lock(mu_);
  for (size_t index = 0; index < restarts_.counts().size(); ++index) {
    restarts.series.push_back(
        {{{"index", std::to_string(index)}}, static_cast<double>(restarts_.counts()[index]), {}});
  }
  return MergeMetrics(texts) + PrometheusText({restarts});
}

}  // namespace janus::dataplane
