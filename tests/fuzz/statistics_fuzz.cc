// Statistics of members: read without harm, and the result can be written and read again.

#include <cstdint>

#include "common/check.h"
#include "proto/control.pb.h"
#include "proto/convert.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;  // NOLINT
  v1::Statistics message;
  if (message.ParseFromArray(data, static_cast<int>(size))) {
    const Statistics read = FromProto(message);
    for (const InstanceStatistics& one : read.instances) {
      JANUS_CHECK(FromProto(ToProto(one)).steps == one.steps);
    }
    std::vector<StepTrace> traces = read.traces;
    KeepOneStep(traces);
    (void)AlignClocks(traces);
    v1::Statistics again;
    AddToProto(read.gateways, again);
    JANUS_CHECK(GatewaysFromProto(again).gateways.size() == read.gateways.gateways.size());
  }
  v1::PrepareProgress progress;
  if (progress.ParseFromArray(data, static_cast<int>(size))) (void)FromProto(progress);
  return 0;
}
