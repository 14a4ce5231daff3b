#include "operator/manager/manager.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <utility>

#include "common/check.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

constexpr std::string_view kController = "serving.janus.dev/operator";
// A step of the election makes a few calls of some seconds each.
constexpr Seconds kStuckAfter{60};
// Share of the gap between a leader's end and its successor's start that a call may take; the rest
// is for messages in flight.
constexpr double kShareOfCalls = 0.8;

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

ReconcilerOptions ReconcilerOf(const ManagerOptions& options) {
  ReconcilerOptions out = options.reconciler;
  out.reads_nodes = options.reads_nodes;
  if (!options.election) return out;
  const LeaderElectionOptions& lease = options.election->lease;
  out.call_timeout =
      std::min(out.call_timeout, kShareOfCalls * (lease.lease_duration - lease.renew_deadline));
  return out;
}

EventRecorderOptions EventsOf(const ManagerOptions& options, EventMetrics& metrics) {
  EventRecorderOptions out;
  out.book.controller = kController;
  out.book.instance = options.instance;
  out.metrics = &metrics;
  return out;
}

WorkQueueOptions QueueOf(WorkQueueMetrics& metrics) {
  WorkQueueOptions out;
  out.metrics = &metrics;
  return out;
}

double ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Manager::Manager(ObjectApi& api, ServicePlanner& planner, MemberCalls& calls,
                 const Timeline& timeline, MetricRegistry& registry, Logger log,
                 ManagerOptions options)
    : options_(std::move(options)),
      timeline_(timeline),
      log_(std::move(log)),
      registry_(registry),
      metrics_(registry),
      queue_metrics_(registry, "moeservice"),
      event_metrics_(registry),
      queue_(QueueOf(queue_metrics_)),
      watches_(
          api, timeline, {options_.namespaces, options_.reads_nodes, &registry},
          [this](const ObjectKey& key) { queue_.Add(key); }, [this] { Notify(); }),
      recorder_(api, EventsOf(options_, event_metrics_), timeline),
      gate_(api, [this] { return MayAct(); }),
      reconciler_(
          gate_, watches_.caches(), planner, calls, timeline,
          [this](Happening happening) { Tell(std::move(happening)); },
          [this](const ObjectKey& key) { queue_.Add(key); }, ReconcilerOf(options_)) {
  JANUS_CHECK(options_.workers >= 1, options_.workers);
  metrics_.max_concurrent.Set(options_.workers);
  if (!options_.election) return;
  LeaderElectionOptions lease = options_.election->lease;
  lease.leads = &LeaderGauge(registry, lease.lease.name);
  campaign_.emplace(*options_.election->api, std::move(lease), timeline, log_,
                    [this] { Notify(); });
}

bool Manager::IsLeading() const {
  return !campaign_ || campaign_->Term().has_value();
}

bool Manager::MayAct() const {
  const int64_t term = term_.load();
  return term != 0 && (!campaign_ || campaign_->Term() == term);
}

void Manager::Notify() {
  const MutexLock lock(mu_);
  changed_.NotifyAll();
}

bool Manager::WaitFor(const std::function<bool()>& holds, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { Notify(); });
  const MutexLock lock(mu_);
  while (!stop.stop_requested() && !holds()) changed_.Wait(mu_);
  return !stop.stop_requested();
}

void Manager::WaitForEnd(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { Notify(); });
  MonotonicTime resync = Add(timeline_.Now(), options_.resync);
  const MutexLock lock(mu_);
  while (!stop.stop_requested() && MayAct()) {
    if (timeline_.Now() >= resync) {
      AddAll();
      resync = Add(timeline_.Now(), options_.resync);
    }
    const MonotonicTime lost = campaign_ ? campaign_->LeadsUntil() : resync;
    changed_.WaitUntil(mu_, std::min(lost, resync));
  }
}

void Manager::AddAll() {
  for (const ObjectKey& key : watches_.caches().services.Keys()) queue_.Add(key);
}

void Manager::Tell(Happening happening) {
  log_.Info("event", {{"service", happening.regarding.key.ToString()},
                      {"reason", happening.reason},
                      {"note", happening.note}});
  recorder_.Record(std::move(happening));
}

// A change of the number of GPUs always causes a pass.
void Manager::MeterGpus(const ObjectKey& key) {
  const Caches caches = watches_.caches();
  const std::optional<Node> service = caches.services.Get(key);
  std::optional<int64_t> gpus;
  if (service) gpus = CommittedGpus(*service, caches);
  gpus_.Set(key, service ? std::string(UidOf(*service)) : "", gpus, timeline_.Now());
}

void Manager::Work(const std::stop_token& stop) {
  while (const std::optional<ObjectKey> key = queue_.Take(stop)) {
    const MonotonicTime began = timeline_.Now();
    metrics_.active_workers.Add(1);
    const PassResult result = reconciler_.Pass(*key, stop);
    metrics_.active_workers.Add(-1);
    metrics_.Passed(result, timeline_.Now() - began);
    MeterGpus(*key);
    if (result.status.ok()) {
      queue_.Done(*key);
    } else if (stop.stop_requested()) {
      queue_.PutDown(*key);  // the next term handles every service
      return;
    } else {
      log_.Warning("a pass failed and is tried again",
                   {{"service", key->ToString()}, {"error", result.status.message()}});
      queue_.Retry(*key);
    }
    if (result.again) queue_.AddAt(*key, *result.again);
    if (queue_.TakeOverflow()) AddAll();
  }
}

// Runs one term.
void Manager::Lead(const std::stop_token& stop) {
  const std::optional<int64_t> term = campaign_ ? campaign_->Term() : 1;
  if (!term) return;
  term_ = *term;
  metrics_.terms.Add();
  log_.Info("leading", {{"term", *term}, {"workers", options_.workers}});
  AddAll();
  if (Status swept = reconciler_.SweepCertificates(stop); !swept.ok()) {
    log_.Warning("left for the next service that goes", {{"error", swept.message()}});
  }
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < options_.workers; ++i) {
      workers.emplace_back([this](const std::stop_token& ended) { Work(ended); });
    }
    WaitForEnd(stop);
    term_ = 0;
    for (std::jthread& worker : workers) worker.request_stop();
  }
  reconciler_.ForgetAll();
  gpus_.Clear();
  log_.Info("leading no more", {{"term", *term}});
}

void Manager::Run(const std::stop_token& stop) {
  watches_.Start();
  std::jthread recording([this](const std::stop_token& ended) { recorder_.Run(ended); });
  if (WaitFor([this] { return watches_.Synced().ok(); }, stop)) {
    metrics_.synced.Set(1);
    log_.Info("synced", {{"services", watches_.caches().services.size()}});
    if (campaign_) campaign_->Start();
    while (WaitFor([this] { return IsLeading(); }, stop)) Lead(stop);
  }
  // No pass runs any more: the next leader may start while we write our last Events.
  recording.request_stop();
  if (campaign_) campaign_->End();
  watches_.Stop();
  recording.join();
}

Status Manager::Live() const {
  if (!campaign_ || !Ready().ok() || timeline_.Now() < Add(campaign_->last_step(), kStuckAfter)) {
    return OkStatus();
  }
  return Unavailable("the election has not come round for a minute");
}

std::vector<MetricFamily> Manager::Collect() {
  queue_.Measure();
  metrics_.resident_bytes.Set(ResidentBytes());
  std::vector<MetricFamily> out = registry_.Collect();
  if (term_.load() == 0) return out;
  ServiceFamilies families;
  const MonotonicTime now = timeline_.Now();
  watches_.caches().services.Visit([&](const Node& service) {
    families.Add(service, gpus_.SecondsOf(KeyOf(service), std::string(UidOf(service)), now));
  });
  if (const RecordBook* const records = reconciler_.options().records; records != nullptr) {
    for (const RecordedFigures& one : records->Figures()) families.Add(one);
  }
  for (MetricFamily& family : std::move(families).Take()) out.push_back(std::move(family));
  return out;
}

}  // namespace janus::control
