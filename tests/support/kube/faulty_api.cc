#include "tests/support/kube/faulty_api.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace janus::control {
namespace {

using Kind = Fault::Kind;

constexpr Seconds kSilence{90};  // then the client cuts a watch

bool IsOfWatch(const Fault& fault) {
  return fault.kind >= Kind::kCut;
}

ApiError Lost(StatusCode code, bool outcome_unknown) {
  ApiError error = LocalError(Status(code, "injected: no reply"));
  error.outcome_unknown = outcome_unknown;
  return error;
}

ApiError Refusal(int http_status) {
  std::optional<Seconds> retry_after;
  if (http_status == 429) retry_after = Seconds(1);
  return ErrorOfReply(http_status, R"({"kind":"Status","message":"injected"})", retry_after);
}

void Pass(const Timeline& timeline, Seconds time, const std::stop_token& stop) {
  timeline.WaitUntil(timeline.Now() + std::chrono::duration_cast<MonotonicTime::duration>(time),
                     stop);
}

std::string Name(const Resource& resource, const ObjectKey& key) {
  return resource.ToString() + " " + key.name;
}

}  // namespace

std::string Fault::ToString() const {
  switch (kind) {
    case Kind::kRefused:
      return std::to_string(http_status);
    case Kind::kNotSent:
      return "not sent";
    case Kind::kReplyLost:
      return "done, reply lost";
    case Kind::kNeverCame:
      return "never came";
    case Kind::kNeverReply:
      return "done, no reply in time";
    case Kind::kCut:
      return "cut after " + std::to_string(events);
    case Kind::kSilent:
      return "silent after " + std::to_string(events);
    case Kind::kEnds:
      return "ended after " + std::to_string(events);
    case Kind::kExpires:
      return "410 after " + std::to_string(events);
  }
  return "";
}

const std::vector<Fault>& CallFaults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> out;
    for (const int status : {401, 403, 404, 409, 410, 422, 429, 500, 503, 504}) {
      out.push_back({Kind::kRefused, status});
    }
    for (const Kind kind :
         {Kind::kNotSent, Kind::kReplyLost, Kind::kNeverCame, Kind::kNeverReply}) {
      out.push_back({kind});
    }
    return out;
  }();
  return faults;
}

const std::vector<Fault>& WatchFaults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> out;
    for (const Kind kind : {Kind::kCut, Kind::kSilent, Kind::kEnds, Kind::kExpires}) {
      for (const int events : {0, 1, 2}) out.push_back({kind, 0, events});
    }
    return out;
  }();
  return faults;
}

const Fault* FaultyApi::Next(std::string call, bool is_watch) {
  if (is_healed_) return nullptr;
  const size_t number = calls_.size();
  calls_.push_back(std::move(call));
  for (const FaultPlan& plan : plans_) {
    if (number < plan.first || number >= plan.first + plan.count) continue;
    if (IsOfWatch(plan.fault) && !is_watch) continue;
    ++failed_;
    return &plan.fault;
  }
  return nullptr;
}

template <class T, class Act>
ApiResult<T> FaultyApi::Call(std::string call, bool writes, const CallLimits& limits,
                             const Act& act) {
  const Fault* const fault = Next(std::move(call), false);
  if (fault == nullptr) return act();
  switch (fault->kind) {
    case Kind::kReplyLost:
      (void)act();
      return Lost(StatusCode::kUnavailable, writes);
    case Kind::kNeverReply:
      (void)act();
      Pass(timeline_, limits.timeout, limits.stop);
      return Lost(StatusCode::kDeadlineExceeded, writes);
    case Kind::kNeverCame:
      Pass(timeline_, limits.timeout, limits.stop);
      return Lost(StatusCode::kDeadlineExceeded, writes);
    case Kind::kNotSent:
      return Lost(StatusCode::kUnavailable, false);
    default:
      return Refusal(fault->http_status);
  }
}

ApiResult<Node> FaultyApi::Get(const Resource& resource, const ObjectKey& key,
                               Subresource subresource, const CallLimits& limits) {
  return Call<Node>("get " + Name(resource, key), false, limits,
                    [&] { return under_.Get(resource, key, subresource, limits); });
}

ApiResult<ObjectList> FaultyApi::List(const Resource& resource, const ListOptions& options,
                                      const CallLimits& limits) {
  return Call<ObjectList>("list " + resource.ToString(), false, limits,
                          [&] { return under_.List(resource, options, limits); });
}

ApiResult<Node> FaultyApi::Create(const Resource& resource, const Node& object,
                                  const WriteOptions& options, const CallLimits& limits) {
  return Call<Node>("create " + Name(resource, KeyOf(object)), true, limits,
                    [&] { return under_.Create(resource, object, options, limits); });
}

ApiResult<Node> FaultyApi::Update(const Resource& resource, const Node& object,
                                  Subresource subresource, const WriteOptions& options,
                                  const CallLimits& limits) {
  return Call<Node>("update " + Name(resource, KeyOf(object)), true, limits,
                    [&] { return under_.Update(resource, object, subresource, options, limits); });
}

ApiResult<Node> FaultyApi::Apply(const Resource& resource, const Node& object,
                                 Subresource subresource, const ApplyOptions& options,
                                 const CallLimits& limits) {
  return Call<Node>("apply " + Name(resource, KeyOf(object)), true, limits,
                    [&] { return under_.Apply(resource, object, subresource, options, limits); });
}

ApiResult<Node> FaultyApi::Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                 const Node& patch, Subresource subresource,
                                 const WriteOptions& options, const CallLimits& limits) {
  return Call<Node>("patch " + Name(resource, key), true, limits, [&] {
    return under_.Patch(resource, key, kind, patch, subresource, options, limits);
  });
}

ApiResult<Node> FaultyApi::Delete(const Resource& resource, const ObjectKey& key,
                                  const DeleteOptions& options, const CallLimits& limits) {
  return Call<Node>("delete " + Name(resource, key), true, limits,
                    [&] { return under_.Delete(resource, key, options, limits); });
}

ApiResult<WatchEnd> FaultyApi::Watch(const Resource& resource, const WatchOptions& options,
                                     FunctionRef<bool(WatchEvent)> deliver,
                                     const std::stop_token& stop) {
  const Fault* const fault = Next("watch " + resource.ToString(), true);
  if (fault == nullptr) return under_.Watch(resource, options, deliver, stop);
  if (fault->kind == Kind::kRefused) return Refusal(fault->http_status);
  if (!IsOfWatch(*fault)) return Lost(StatusCode::kUnavailable, false);
  int left = fault->events;
  if (left > 0) {
    bool wants_more = true;
    ApiResult<WatchEnd> end = under_.Watch(
        resource, options,
        [&](WatchEvent event) {
          wants_more = deliver(std::move(event));
          return wants_more && --left > 0;
        },
        stop);
    if (!end.ok() || left > 0 || !wants_more) return end;
  }
  switch (fault->kind) {
    case Kind::kEnds:
      return WatchEnd::kServer;
    case Kind::kExpires:
      return Refusal(410);
    case Kind::kSilent:
      Pass(timeline_, kSilence, stop);
      if (stop.stop_requested()) return LocalError(Cancelled("the watch was stopped"));
      return WatchEnd::kSilence;
    default:  // kCut, and faults of calls, which do not occur here
      return Lost(StatusCode::kUnavailable, false);
  }
}

}  // namespace janus::control
