#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "bench/informer/commands.h"
#include "common/check.h"
#include "operator/api/json.h"

namespace janus::bench {
namespace {

using control::Delta;
using control::DeltaType;
using control::Informer;
using control::WatchEvent;
using control::WatchEventType;

constexpr Seconds kSettle{10};  // the same as clientgo's -settle

MonotonicTime Later(Seconds by) {
  return MonotonicClock::now() + std::chrono::duration_cast<MonotonicClock::duration>(by);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// `name` is "VmRSS" or "VmHWM". In MiB, for this process.
double MemoryMib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stod(line.substr(name.size() + 1)) / 1024;
  }
  return 0;
}

const char* NameOf(WatchEventType type) {
  switch (type) {
    case WatchEventType::kAdded:
      return "ADDED";
    case WatchEventType::kModified:
      return "MODIFIED";
    case WatchEventType::kDeleted:
      return "DELETED";
    case WatchEventType::kBookmark:
      return "BOOKMARK";
  }
  return "";
}

}  // namespace

int64_t Nanoseconds(MonotonicTime time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

void Follow(int count) {
  const control::SystemTimeline timeline;
  const auto client = MakeClient(timeline);
  std::stop_source is_full;
  int added = 0;
  Informer informer(
      *client, kPods, PodOptions(), KeptOfPods(),
      [&](const Delta& delta) {
        if (delta.type == DeltaType::kAdded && ++added == count) is_full.request_stop();
      },
      timeline);
  const MonotonicTime began = MonotonicClock::now();
  informer.Start();
  timeline.WaitUntil(Later(Seconds(300)), is_full.get_token());
  while (!informer.HasSynced()) timeline.WaitUntil(Later(Seconds(0.001)), {});
  const Seconds synced = MonotonicClock::now() - began;
  const double cpu = CpuSeconds();
  timeline.WaitUntil(Later(kSettle), {});
  std::printf(
      "{\"client\":\"janus\",\"objects\":%zu,\"sync_seconds\":%.4g,\"cpu_seconds\":%.4g,"
      "\"resident_mib\":%.4g,\"peak_mib\":%.4g}\n",
      informer.store().size(), synced.count(), cpu, MemoryMib("VmRSS"), MemoryMib("VmHWM"));
  std::fflush(stdout);
}

void Record(const std::string& file, int count, int deletes) {
  const control::SystemTimeline timeline;
  const auto client = MakeClient(timeline);
  control::ListOptions newest;
  newest.selection.namespace_ = BenchNamespace();
  newest.limit = 1;
  const auto list = client->List(kPods, newest, {});
  JANUS_CHECK(list.ok() && list->items.empty(), list.status().ToString(), "no pods may be there");
  std::ofstream out(file);
  std::string version = list->resource_version;
  int running = 0;
  int deleted = 0;
  std::map<std::string, bool> is_running;
  std::printf("recording\n");
  std::fflush(stdout);
  while (running < count || deleted < deletes) {
    control::WatchOptions options;
    options.selection = newest.selection;
    options.resource_version = version;
    const auto end = client->Watch(
        kPods, options,
        [&](WatchEvent event) {
          version = control::ResourceVersionOf(event.object);
          if (event.type == WatchEventType::kBookmark) return true;
          bool& was_running = is_running[control::KeyOf(event.object).name];
          if (control::TextAt(event.object, {"status", "phase"}) == "Running" && !was_running) {
            was_running = true;
            ++running;
          }
          deleted += event.type == WatchEventType::kDeleted ? 1 : 0;
          out << "{\"type\":\"" << NameOf(event.type)
              << "\",\"object\":" << control::WriteJson(event.object) << "}\n";
          return running < count || deleted < deletes;
        },
        {});
    JANUS_CHECK(end.ok(), end.status().ToString());
  }
}

void Hear(int port, int count, const std::string& log) {
  const control::SystemTimeline timeline;
  std::unique_ptr<control::KubeClient> client;
  if (port == 0) {
    client = MakeClient(timeline);
  } else {
    control::ClusterConfig config;
    config.host = "127.0.0.1";
    config.port = port;
    config.use_tls = false;
    client = std::make_unique<control::KubeClient>(config, BenchClientOptions(), timeline);
  }
  std::stop_source is_through;
  int heard = 0;
  std::ostringstream lines;
  Informer informer(
      *client, kPods, PodOptions(), KeptOfPods(),
      [&](const Delta& delta) {
        const int64_t at = Nanoseconds(MonotonicClock::now());
        lines << delta.key.name << ' ';
        if (delta.after == nullptr) {
          lines << "deleted";
        } else {
          lines << control::ResourceVersionOf(*delta.after);
        }
        lines << ' ' << at << '\n';
        if (++heard == count) is_through.request_stop();
      },
      timeline);
  informer.Start();
  while (!informer.HasSynced()) timeline.WaitUntil(Later(Seconds(0.001)), {});
  std::fputs("synced\n", stderr);
  timeline.WaitUntil(Later(Seconds(120)), is_through.get_token());
  const double cpu = CpuSeconds();
  informer.Stop();
  std::ofstream(log) << lines.str();
  std::printf("{\"client\":\"janus\",\"cpu_seconds\":%.4g,\"resident_mib\":%.4g}\n", cpu,
              MemoryMib("VmRSS"));
}

}  // namespace janus::bench
