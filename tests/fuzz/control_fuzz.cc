// Calls of an operator, or any other client, to a worker without a model: every call in any order,
// with any stamp and topology. No epoch is committed, the fence never falls, and a call that is
// refused for its stamp leaves the fence unchanged.
//
// The input is a list of [call, length, bytes...].

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "common/metrics.h"
#include "dataplane/worker/worker.h"
#include "proto/control.pb.h"
#include "proto/convert.h"
#include "tests/fuzz/actions.h"

namespace janus::dataplane {
namespace {

class World {
 public:
  World()
      : worker_(
            Flags(), kernels::HostContext(), clock_, Logger(2, LogLevel::kError),
            [](const Status&) {}, registry_) {}

  void Do(uint8_t call, std::string_view bytes) {
    const uint64_t fence = worker_.fence();
    switch (call % 5) {
      case 0:
        Judge<v1::PrepareRequest>(bytes, [&](const v1::PrepareRequest& request) {
          const Result<Topology> topology = FromProto(request.topology());
          if (!topology.ok()) return topology.status();
          return worker_.Prepare(FromProto(request.stamp()), *topology, request.config(),
                                 request.epoch_key(), [](const PrepareProgress&) { return true; });
        });
        break;
      case 1:
        Judge<v1::CommitRequest>(bytes, [&](const v1::CommitRequest& request) {
          return worker_.Commit(FromProto(request.stamp()));
        });
        break;
      case 2:
        Judge<v1::AbortRequest>(bytes, [&](const v1::AbortRequest& request) {
          return worker_.Abort(FromProto(request.stamp()));
        });
        break;
      case 3:
        Judge<v1::DrainRequest>(bytes, [&](const v1::DrainRequest& request) {
          return worker_.Drain(FromProto(request.stamp()), MonotonicTime::min(),
                               [] { return false; });
        });
        break;
      default:
        Judge<v1::GetStatisticsRequest>(bytes, [&](const v1::GetStatisticsRequest& request) {
          return worker_.CheckService(request.service_uid());
        });
        JANUS_CHECK(worker_.fence() == fence);
    }
    JANUS_CHECK(worker_.fence() >= fence);
    JANUS_CHECK(!worker_.topology().has_value());
    JANUS_CHECK(!worker_.attention().ok());
  }

 private:
  static WorkerFlags Flags() {
    WorkerFlags flags;
    flags.service_uid = "s";
    flags.model = "/nonexistent";
    return flags;
  }

  template <class Request, class Call>
  void Judge(std::string_view bytes, const Call& call) {
    Request request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const uint64_t fence = worker_.fence();
    const Status status = call(request);
    if (status.ok()) return;
    JANUS_CHECK(!status.message().empty());
    if (status.code() == StatusCode::kPermissionDenied) JANUS_CHECK(worker_.fence() == fence);
  }

  SystemClock clock_;
  MetricRegistry registry_;
  Worker worker_;
};

}  // namespace
}  // namespace janus::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  janus::dataplane::World world;
  janus::ForEachAction(data, size, [&](uint8_t call, std::string_view bytes) {
    world.Do(call, bytes);
    return true;
  });
  return 0;
}
