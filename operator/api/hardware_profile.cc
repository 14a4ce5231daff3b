#include "operator/api/hardware_profile.h"

#include "operator/api/checks.h"
#include "operator/api/read_object.h"

namespace janus::control {

static void Read(const At& at, PeakSpec& out) {
  Fields(at)
      .Require("bf16", out.bf16, "dense operations per second")
      .Take("fp8", out.fp8)
      .RefuseOthers();
}

static void Read(const At& at, HardwareProfileSpec& out) {
  Fields(at)
      .Take("accelerator", out.accelerator)
      .Require("memory", out.memory, "bytes, such as 80G")
      .Require("memoryBandwidth", out.memory_bandwidth, "bytes per second, such as 4.8T")
      .Require("peak", out.peak, "operations per second by type")
      .Require("intraNodeBandwidth", out.intra_node_bandwidth, "bytes per second, such as 450G")
      .Require("interNodeBandwidth", out.inter_node_bandwidth, "bytes per second, such as 50G")
      .Take("instancesPerNode", out.instances_per_node)
      .Take("rdmaResource", out.rdma_resource)
      .Take("price", out.price)
      .RefuseOthers();
}

Parsed<HardwareProfileObject> ParseHardwareProfile(const Node& root) {
  return ReadObject<HardwareProfileObject>(root, "HardwareProfile", "the data sheet");
}

FieldErrors ValidateSchema(const HardwareProfileObject& profile, Scope scope) {
  const HardwareProfileSpec& spec = profile.spec;
  Checks checks(scope);
  const auto positive = [&](std::string_view path, const Quantity& quantity) {
    if (quantity.value > 0) return;
    checks.Fail(path, "is " + quantity.text + "; want more than 0");
  };
  checks.Length("spec.accelerator", spec.accelerator, 63);
  positive("spec.memory", spec.memory);
  positive("spec.memoryBandwidth", spec.memory_bandwidth);
  positive("spec.peak.bf16", spec.peak.bf16);
  if (spec.peak.fp8) positive("spec.peak.fp8", *spec.peak.fp8);
  positive("spec.intraNodeBandwidth", spec.intra_node_bandwidth);
  positive("spec.interNodeBandwidth", spec.inter_node_bandwidth);
  checks.Range("spec.instancesPerNode", spec.instances_per_node, 1, 1024);
  checks.Length("spec.rdmaResource", spec.rdma_resource, 317);
  positive("spec.price", spec.price);
  return checks.TakeErrors();
}

HardwareProfile ToHardware(const HardwareProfileObject& profile) {
  const HardwareProfileSpec& spec = profile.spec;
  // `milli` saturates above 9.2e15.
  const auto number = [](const Quantity& quantity) {
    return quantity.value > int64_t{1} << 52 ? static_cast<double>(quantity.value)
                                             : static_cast<double>(quantity.milli) / 1e3;
  };
  HardwareProfile out;
  out.name = profile.metadata.name;
  out.memory_bytes = number(spec.memory);
  out.memory_bytes_per_second = number(spec.memory_bandwidth);
  out.bf16_operations_per_second = number(spec.peak.bf16);
  if (spec.peak.fp8) out.fp8_operations_per_second = number(*spec.peak.fp8);
  out.intra_node_bytes_per_second = number(spec.intra_node_bandwidth);
  out.inter_node_bytes_per_second = number(spec.inter_node_bandwidth);
  out.instances_per_node = spec.instances_per_node;
  out.price = number(spec.price);
  return out;
}

}  // namespace janus::control
