// Services with workers on GPUs: the image and pods they get, and how they move from CPUs and back,
// in simulated time.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
// For both roles, as a patch of the spec.
constexpr const char* kGpus =
    R"({"spec":{"roles":{"attention":{"resources":{"limits":{"nvidia.com/gpu":"1"}}},
                         "experts":{"resources":{"limits":{"nvidia.com/gpu":"1"}}}}}})";
constexpr const char* kNoGpus =
    R"({"spec":{"roles":{"attention":{"resources":null},"experts":{"resources":null}}}})";

class GpuServiceTest : public testing::Test {
 protected:
  GpuServiceTest() {
    sim_.options.worker_cuda_image = "worker-cuda:1";
    sim_.RestartOperator();
  }
  void ServeOnGpus(int attention, int experts) {
    sim_.Apply(attention, experts);
    sim_.Patch(kGpus);  // before the first pass
    sim_.RunUntil("Ready");
    sim_.Run(Seconds(2));
  }
  std::string Status(std::string_view field) {
    return std::string(TextAt(sim_.Service(), {"status", field}));
  }
  static const Node& WorkerOf(const Node& pod) {
    return FindAt(pod, {"spec", "containers"})->items.at(0);
  }
  static bool Computes(const Node& pod, const std::string& device) {
    for (const Node& argument : WorkerOf(pod).Find("args")->items) {
      if (argument.text.starts_with("--device=")) return argument.text == "--device=" + device;
    }
    return false;
  }
  // At any time each live pod has the image for its device.
  void ExpectImagesFitDevices() {
    for (const Node& pod : sim_.List(kPods)) {
      const std::string_view image = TextAt(WorkerOf(pod), {"image"});
      EXPECT_TRUE(image.starts_with(Computes(pod, "cuda") ? "worker-cuda:" : "worker:")) << image;
    }
  }
  int PodsOn(const std::string& device) {
    int out = 0;
    for (const Node& pod : sim_.List(kPods)) out += Computes(pod, device);
    return out;
  }

  SimulatedService sim_;
};

TEST_F(GpuServiceTest, PodsWithGpusHaveTheImageForThem) {
  ServeOnGpus(1, 2);
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(Status("workerImage"), "worker-cuda:1");
  EXPECT_EQ(Status("imageDevice"), "CUDA");
  EXPECT_EQ(TextAt(sim_.Service(), {"status", "effective", "device"}), "CUDA");
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 3u);
  for (const Node& pod : sim_.List(kPods)) {
    const Node& worker = WorkerOf(pod);
    EXPECT_EQ(TextAt(worker, {"image"}), "worker-cuda:1");
    EXPECT_TRUE(Computes(pod, "cuda"));
    EXPECT_EQ(TextAt(worker, {"resources", "limits", "nvidia.com/gpu"}), "1");
    // The device plugin decides which GPUs a container sees, and the image which driver features it
    // needs. Pods share nothing with each other or with their node.
    for (const Node& variable : worker.Find("env")->items) {
      EXPECT_FALSE(TextAt(variable, {"name"}).starts_with("NVIDIA_"));
    }
    for (const std::string_view shared : {"hostIPC", "hostPID", "hostNetwork"}) {
      EXPECT_EQ(FindAt(pod, {"spec", shared}), nullptr) << shared;
    }
  }
}

TEST_F(GpuServiceTest, WithoutGpusAllIsAsBefore) {
  sim_.Apply(1, 2);
  sim_.RunUntil("Ready");
  EXPECT_EQ(Status("workerImage"), "worker:1");
  EXPECT_EQ(Status("imageDevice"), "CPU");
  EXPECT_EQ(PodsOn("cpu"), 3);
}

TEST_F(GpuServiceTest, AnImageThatIsNamedIsTakenForEitherDevice) {
  sim_.Apply(1, 2, "  image: worker-cuda:mine\n");
  sim_.Patch(kGpus);
  sim_.RunUntil("Ready");
  EXPECT_EQ(Status("workerImage"), "worker-cuda:mine");
  sim_.Patch(R"({"spec":{"image":null}})");
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(30));
  EXPECT_EQ(Status("workerImage"), "worker-cuda:1");
  EXPECT_EQ(PodsOn("cuda"), 3);
}

TEST_F(GpuServiceTest, TheImageIsPinnedUntilARestart) {
  ServeOnGpus(1, 2);
  sim_.options.worker_cuda_image = "worker-cuda:2";
  sim_.RestartOperator();
  sim_.Run(Seconds(30));
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 3u) << "an upgrade of the operator rolls nothing";
  sim_.Patch(R"({"metadata":{"annotations":{"serving.janus.dev/restartedAt":"now"}}})");
  sim_.Run(Seconds(60));
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(Status("workerImage"), "worker-cuda:2");
}

// Members of a role refuse each other if their devices differ.
TEST_F(GpuServiceTest, FromCpusToGpusIsAnotherModelWithItsOwnImage) {
  sim_.Apply(1, 2);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(2));
  const std::string before = sim_.Topology()->metadata.name;
  std::set<std::string> old;
  for (const Node& pod : sim_.List(kPods)) old.insert(std::string(UidOf(pod)));
  sim_.on_step = [&] {
    EXPECT_EQ(sim_.Condition("Available"), "True/Serving") << sim_.MessageOf("Available");
    ExpectImagesFitDevices();
    for (const Node& node : sim_.List(kTopologies)) {
      const auto& committed = ParseMoETopology(node).object.spec.committed;
      if (!committed) continue;
      int of_old = 0, all = 0;
      for (const TopologyInstance& one : committed->instances) {
        of_old += old.contains(one.pod_uid);
        ++all;
      }
      EXPECT_TRUE(of_old == 0 || of_old == all) << "a mixed epoch";
    }
  };
  sim_.Patch(kGpus);
  sim_.Run(Seconds(2));
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Replacing") << sim_.MessageOf("Progressing");
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(90));
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(PodsOn("cuda"), 3);
  EXPECT_NE(sim_.Topology()->metadata.name, before);
  EXPECT_EQ(Status("workerImage"), "worker-cuda:1");

  sim_.Patch(kNoGpus);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(90));
  sim_.on_step = [] {};
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(PodsOn("cpu"), 3);
  EXPECT_EQ(Status("workerImage"), "worker:1");
  EXPECT_EQ(sim_.Topology()->metadata.name, before);
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 9u);
}

// A lost pod of the old side is replaced by an equal one, not by a worker for the other device.
TEST_F(GpuServiceTest, WhileGpusAreAwaitedLossesAreMendedOnCpus) {
  sim_.Apply(2, 2);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(2));
  sim_.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.");
  sim_.Patch(kGpus);
  sim_.Run(Seconds(20));
  EXPECT_EQ(sim_.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_NE(sim_.MessageOf("CapacityAvailable").find("nvidia.com/gpu"), std::string::npos);
  std::string lost;
  for (const Node& pod : sim_.List(kPods)) {
    if (!Computes(pod, "cpu")) continue;
    if (TextAt(pod, {"metadata", "labels", kRoleLabel}) == "attention") {
      lost = TextAt(pod, {"metadata", "name"});
    }
  }
  ASSERT_FALSE(lost.empty());
  sim_.on_step = [&] { ExpectImagesFitDevices(); };
  ASSERT_TRUE(sim_.user.Delete(kPods, {"default", lost}, {}, kLimits).ok());
  sim_.Run(Seconds(40));
  EXPECT_EQ(PodsOn("cpu"), 4);
  EXPECT_EQ(sim_.Condition("Available"), "True/Serving") << sim_.MessageOf("Available");
  sim_.cluster.MakeRoom("experts");
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(90));
  sim_.on_step = [] {};
  sim_.ExpectWhole(2, 2);
  EXPECT_EQ(PodsOn("cuda"), 4);
}

TEST_F(GpuServiceTest, OtherHostMemoryForPrefixesTakesOtherAttentionPods) {
  ServeOnGpus(1, 2);
  const auto bytes = [&] { return sim_.workers.last().attention[0].sequences.prefix_host_bytes; };
  EXPECT_EQ(bytes(), 0);
  sim_.Patch(R"({"spec":{"roles":{"attention":{"kvCache":{"prefixHostMemory":"1Mi"}}}}})");
  sim_.Run(Seconds(40));
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(bytes(), 1 << 20);
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 4u) << "the experts' stay";

  // While an edit does not fit, a lost pod's successor gets what that had.
  sim_.Patch(
      R"({"spec":{"roles":{"attention":{"kvCache":{"size":"1Ti","prefixHostMemory":"2Mi"}}}}})");
  sim_.Run(Seconds(20));
  EXPECT_EQ(sim_.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  const std::string lost = sim_.Pods(Role::kAttention).at(0).name;
  ASSERT_TRUE(sim_.user.Delete(kPods, {"default", lost}, {}, kLimits).ok());
  sim_.Run(Seconds(60));
  sim_.ExpectMembers(1, 2);
  EXPECT_NE(sim_.Pods(Role::kAttention).at(0).name, lost);
  EXPECT_EQ(bytes(), 1 << 20);
}

TEST_F(GpuServiceTest, RollingCannotTakeAServiceToOtherDevices) {
  sim_.Apply(1, 2, "  rollout: {type: Rolling}\n");
  sim_.RunUntil("Ready");
  sim_.Patch(kGpus);
  sim_.Run(Seconds(30));
  EXPECT_EQ(sim_.Condition("Stalled"), "True/NotSupported");
  EXPECT_NE(sim_.MessageOf("Stalled").find("cannot change weights, dtype, device, kvCache.dtype"),
            std::string::npos)
      << sim_.MessageOf("Stalled");
  sim_.ExpectMembers(1, 2);
  ExpectImagesFitDevices();
}

TEST_F(GpuServiceTest, WhatNoClusterCanCarryOutIsSaidAtItsField) {
  sim_.Apply(1, 2, "  device: CUDA\n");
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim_.MessageOf("Stalled").find("spec.roles.experts.resources.limits: has no GPU, and "
                                           "spec.device is CUDA"),
            std::string::npos)
      << sim_.MessageOf("Stalled");
  EXPECT_TRUE(sim_.List(kPods).empty());
  sim_.Patch(kGpus);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(2));
  sim_.ExpectWhole(1, 2);
  // The serving pods stay.
  sim_.Patch(R"({"spec":{"roles":{"experts":{"resources":{"limits":{"nvidia.com/gpu":"2"}}}}}})");
  sim_.Run(Seconds(20));
  EXPECT_EQ(sim_.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim_.MessageOf("Stalled").find("has 2 GPUs (nvidia.com/gpu)"), std::string::npos);
  sim_.ExpectMembers(1, 2);
  EXPECT_EQ(PodsOn("cuda"), 3);
}

TEST_F(GpuServiceTest, AnOperatorWithoutSuchAnImageSaysSoAndTakesOneThatIsNamed) {
  sim_.options.worker_cuda_image.clear();
  sim_.RestartOperator();
  sim_.Apply(1, 2);
  sim_.Patch(kGpus);
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim_.MessageOf("Stalled").find("spec.image: is empty"), std::string::npos)
      << sim_.MessageOf("Stalled");
  EXPECT_NE(sim_.MessageOf("Stalled").find("defaults.workerCudaImage"), std::string::npos);
  EXPECT_TRUE(sim_.List(kPods).empty());
  sim_.Patch(R"({"spec":{"image":"worker-cuda:mine"}})");
  sim_.RunUntil("Ready");
  EXPECT_EQ(Status("workerImage"), "worker-cuda:mine");
}

}  // namespace
}  // namespace janus::control
