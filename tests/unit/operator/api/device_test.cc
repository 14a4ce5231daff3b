#include "operator/api/device.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/parse.h"
#include "operator/api/yaml.h"

namespace janus::control {
namespace {

// `attention` and `experts`: fields of the roles besides replicas; `spec`: fields of spec.
MoEService Asked(const std::string& attention, const std::string& experts,
                 const std::string& spec = "") {
  const Result<Node> root = ParseYaml(
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: demo}\nspec:\n"
      "  model: {source: {type: Image, image: {path: /m}}}\n  roles:\n    attention: {replicas: 1" +
          attention + "}\n    experts: {replicas: 2" + experts + "}\n" +
          (spec.empty() ? "" : "  " + spec + "\n"),
      "s.yaml");
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  ParsedService parsed = ParseMoEService(*root);
  EXPECT_EQ(FormatErrors("s.yaml", parsed.errors), "");
  return std::move(parsed.object);
}

constexpr const char* kNone = "";
constexpr const char* kOne = ", resources: {limits: {nvidia.com/gpu: 1}}";
constexpr const char* kSlice = ", resources: {limits: {nvidia.com/mig-1g.10gb: 1, memory: 9Gi}}";
constexpr const char* kShared = ", resources: {limits: {nvidia.com/gpu.shared: 1}}";
constexpr const char* kTwo = ", resources: {limits: {nvidia.com/gpu: 2}}";
constexpr const char* kZero = ", resources: {limits: {nvidia.com/gpu: 0}}";
constexpr const char* kTwoSlices =
    ", resources: {limits: {nvidia.com/mig-1g.10gb: 1, nvidia.com/mig-2g.20gb: 1}}";
constexpr const char* kOfOthers = ", resources: {limits: {amd.com/gpu: 1}}";
constexpr const char* kRdma =
    ", resources: {limits: {rdma/hca_shared_devices_a: 1, nvidia.com/hostdev: 1, "
    "openshift.io/mlnx_sriov: 1}}";
constexpr const char* kRequested = ", resources: {requests: {nvidia.com/gpu: 1}}";
constexpr const char* kRequestedToo =
    ", resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}";
constexpr const char* kRequestedOfNone =
    ", resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 0}}";
constexpr const char* kRequestedInTemplate =
    ", podTemplate: {spec: {containers: [{name: worker, resources: {requests: {nvidia.com/gpu: "
    "1}}}]}}";
constexpr const char* kPages = ", resources: {limits: {hugepages-2Mi: 1Gi, cpu: 4}}";
constexpr const char* kInTemplate =
    ", podTemplate: {spec: {containers: [{name: side}, {name: worker, resources: {limits: "
    "{nvidia.com/gpu: 1}}}]}}";
constexpr const char* kOfASidecar =
    ", podTemplate: {spec: {containers: [{name: side, resources: {limits: {nvidia.com/gpu: 1}}}, "
    "{name: worker}]}}";
constexpr const char* kClaimed =
    ", podTemplate: {spec: {containers: [{name: worker, resources: {claims: [{name: gpu}]}}]}}";
// The typed field overrides the template, as in the pod.
constexpr const char* kTakenBack =
    ", resources: {limits: {nvidia.com/gpu: 0}}, podTemplate: {spec: {containers: [{name: worker, "
    "resources: {limits: {nvidia.com/gpu: 1}}}]}}";

TEST(DeviceOf, IsWhatIsSaidAndElseCudaWhereBothRolesAreGivenGpus) {
  EXPECT_EQ(DeviceOf(Asked(kNone, kNone)), Device::kCpu);
  EXPECT_EQ(DeviceOf(Asked(kNone, kNone, "device: CUDA")), Device::kCuda);
  EXPECT_EQ(DeviceOf(Asked(kOne, kOne, "device: CPU")), Device::kCpu);
  for (const char* gpu : {kOne, kSlice, kShared, kInTemplate}) {
    EXPECT_EQ(DeviceOf(Asked(gpu, kOne)), Device::kCuda) << gpu;
    EXPECT_EQ(DeviceOf(Asked(kOne, gpu)), Device::kCuda) << gpu;
    EXPECT_EQ(DeviceOf(Asked(gpu, kNone)), Device::kCpu) << gpu;
    EXPECT_EQ(DeviceOf(Asked(kNone, gpu)), Device::kCpu) << gpu;
  }
  for (const char* none :
       {kZero, kOfOthers, kRequested, kPages, kOfASidecar, kClaimed, kTakenBack}) {
    EXPECT_EQ(DeviceOf(Asked(none, none)), Device::kCpu) << none;
  }
}

std::string Refused(const MoEService& service) {
  FieldErrors errors = ValidateDevice(service);
  std::string out;
  for (const FieldError& one : errors) out += one.path + ": " + one.message + "\n";
  return out;
}

// They only carry messages; a worker without a GPU would end at its start.
TEST(ValidateDevice, DevicesOfTheNetworkAreNoGpus) {
  EXPECT_NE(Refused(Asked(kOne, kRdma, "device: CUDA")).find("has no GPU"), std::string::npos);
  EXPECT_NE(Refused(Asked(kRdma, kRdma, "device: CUDA")).find("has no GPU"), std::string::npos);
  EXPECT_EQ(Refused(Asked(kRdma, kRdma)), "");
}

TEST(ValidateDevice, TakesOneGpuForEachWorkerOfBothRolesOrNone) {
  for (const char* spec : {"", "device: CUDA"}) {
    for (const char* gpu : {kOne, kSlice, kShared, kInTemplate}) {
      EXPECT_EQ(Refused(Asked(gpu, kOne, spec)), "") << gpu;
    }
  }
  EXPECT_EQ(Refused(Asked(kNone, kNone)), "");
  EXPECT_EQ(Refused(Asked(kPages, kOfOthers)), "");
  for (const char* any : {kNone, kOne, kTwo}) {
    EXPECT_EQ(Refused(Asked(any, kNone, "device: CPU")), "") << any;
  }
  // We do not know what these devices are.
  for (const char* other : {kClaimed, kOfOthers}) {
    EXPECT_EQ(Refused(Asked(other, other, "device: CUDA")), "") << other;
  }
}

TEST(ValidateDevice, NamesTheRoleThatLacksAGpuAndWhoWantsIt) {
  EXPECT_EQ(Refused(Asked(kOne, kNone, "device: CUDA")),
            "spec.roles.experts.resources.limits: has no GPU, and spec.device is CUDA; add "
            "nvidia.com/gpu: 1, or a slice of one as nvidia.com/mig-1g.10gb, or set spec.device: "
            "CPU\n");
  EXPECT_EQ(Refused(Asked(kNone, kSlice)),
            "spec.roles.attention.resources.limits: has no GPU, and spec.roles.experts has "
            "nvidia.com/mig-1g.10gb; add nvidia.com/gpu: 1, or a slice of one as "
            "nvidia.com/mig-1g.10gb, or set spec.device: CPU\n");
  for (const char* none : {kNone, kZero, kPages, kOfASidecar, kTakenBack}) {
    const std::string said = Refused(Asked(none, none, "device: CUDA"));
    EXPECT_NE(said.find("spec.roles.attention.resources.limits: has no GPU"), std::string::npos)
        << none << said;
    EXPECT_NE(said.find("spec.roles.experts.resources.limits: has no GPU"), std::string::npos)
        << none << said;
  }
}

TEST(ValidateDevice, RefusesAGpuThatIsRequestedAndInNoLimit) {
  for (const char* spec : {"", "device: CUDA"}) {
    for (const char* requested : {kRequested, kRequestedInTemplate, kRequestedOfNone}) {
      EXPECT_EQ(Refused(Asked(kOne, requested, spec)),
                "spec.roles.experts.resources.limits: has no nvidia.com/gpu but "
                "resources.requests has it; Kubernetes allocates devices by limits, so add "
                "nvidia.com/gpu: 1 here\n")
          << requested;
    }
    EXPECT_EQ(Refused(Asked(kRequestedToo, kRequestedToo, spec)), "");
  }
}

TEST(ValidateDevice, RefusesGpusThatAWorkerWouldLeaveIdle) {
  for (const char* spec : {"", "device: CUDA"}) {
    EXPECT_EQ(Refused(Asked(kOne, kTwo, spec)),
              "spec.roles.experts.resources.limits: has 2 GPUs (nvidia.com/gpu), and a worker "
              "computes on one; set it to 1, and replicas to the number of instances\n");
    EXPECT_EQ(Refused(Asked(kTwoSlices, kOne, spec)),
              "spec.roles.attention.resources.limits: has 2 GPUs (nvidia.com/mig-1g.10gb, "
              "nvidia.com/mig-2g.20gb), and a worker computes on one; set it to 1, and replicas to "
              "the number of instances\n");
  }
}

}  // namespace
}  // namespace janus::control
