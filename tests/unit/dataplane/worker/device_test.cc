// Where a worker computes, and how it reports that.

#include <gtest/gtest.h>

#include "common/model/description.h"
#include "dataplane/comm/wire/wire.h"
#include "dataplane/worker/describe_model.h"
#include "dataplane/worker/numerics_class.h"
#include "dataplane/worker/open_device.h"
#include "dataplane/worker/settings.h"
#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"
#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

// A GPU with only the properties that a worker checks before it computes.
class NamedContext final : public kernels::Context {
 public:
  bool is_host() const override { return false; }
  std::string numerics() const override { return "cuda sm_90"; }
  std::string pci_address() const override { return {}; }
  kernels::Stream stream() override { return {.device = kernels::Device::kCuda}; }
  Result<kernels::DeviceMemory> memory() override { return None(); }
  Status CopyWithin(void*, const void*, size_t) override { return None(); }
  Result<std::unique_ptr<kernels::Event>> MakeEvent() override { return None(); }
  Status Record(kernels::Event&) override { return None(); }
  Status RecordLoads(kernels::Event&) override { return None(); }
  Result<std::unique_ptr<kernels::Event>> MakeTimedEvent() override { return None(); }
  Result<Seconds> TimeBetween(kernels::Event&, kernels::Event&) override { return None(); }
  kernels::NetworkMemory network_memory() const override { return kernels::NetworkMemory::kHost; }
  Status AdmitNetwork(kernels::NetworkUse) override { return None(); }

 protected:
  Result<std::byte*> AllocateDeviceMemory(size_t) override { return None(); }
  void FreeDevice(std::byte*, size_t) override {}
  Result<std::byte*> AllocateLoadMemory(size_t) override { return None(); }
  void FreeLoaded(std::byte*, size_t) override {}
  Result<std::byte*> AllocatePinnedMemory(size_t) override { return None(); }
  void FreePinned(std::byte*, size_t) override {}
  Result<std::byte*> AllocateSharedMemory(size_t, Fd&) override { return None(); }
  void FreeShared(std::byte*, size_t) override {}
  Result<std::byte*> Map(const Fd&, size_t) override { return None(); }
  void Unmap(std::byte*, size_t) override {}
  Status QueueIn(void*, const void*, size_t) override { return None(); }
  Status QueueOut(void*, const void*, size_t) override { return None(); }
  Status QueueLoad(void*, const void*, size_t) override { return None(); }
  Status QueueWait(kernels::Event&) override { return None(); }
  Result<std::unique_ptr<kernels::Graph>> Capture(
      FunctionRef<Status(const kernels::Stream&)>) override {
    return None();
  }
  Status QueueGraph(kernels::Graph&) override { return None(); }
  Status WaitForStream() override { return None(); }
  Status WaitForEvent(kernels::Event&) override { return None(); }
  Result<bool> QueryEvent(kernels::Event&) override { return None(); }
  Status RegisterFlagPages(std::byte*, size_t) override { return None(); }
  void UnregisterFlagPages(std::byte*, size_t) override {}
  Status PinHere(std::byte*, size_t) override { return None(); }
  void Unpin(std::byte*, size_t) override {}
  Result<std::byte*> OpenToNetwork(const kernels::SharedMemory&, kernels::NetworkUse) override {
    return None();
  }
  void CloseToNetwork(std::byte*, size_t) override {}
  Status QueueSignal(std::span<const kernels::FlagCount>) override { return None(); }
  Status QueueWaitFlags(std::span<const kernels::FlagCount>) override { return None(); }

 private:
  static Status None() { return Internal("only a name"); }
};

TEST(OpenDevice, CpuIsTheHostsContext) {
  const auto opened = OpenDevice("cpu", [] { return Internal("nobody asked"); });
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->get(), &kernels::HostContext());
}

TEST(OpenDevice, CudaIsAContextOfItsOwn) {
  const auto opened =
      OpenDevice("cuda", [] { return std::unique_ptr<kernels::Context>(new NamedContext); });
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->numerics(), "cuda sm_90");
}

#ifndef JANUS_TEST_WITH_CUDA
TEST(OpenDevice, ABuildWithoutCudaSaysSoAndWhatToDo) {
  const Status status = OpenDevice("cuda").status();
  EXPECT_EQ(status, Unimplemented("--device cuda: this build has no CUDA; use --device cpu, or a "
                                  "build with CUDA (cmake -DJANUS_CUDA=ON)"));
}
#endif

TEST(OpenDevice, AMachineWithoutAGpuIsToldWhatItMisses) {
  const Status status = OpenDevice("cuda", [] {
                          return Unavailable("no GPU that can be used: cudaErrorNoDevice");
                        }).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  for (const char* part : {"--device cuda: no GPU that can be used: cudaErrorNoDevice; give",
                           "nvidia.com/gpu", "NVIDIA's driver", "or use --device cpu"}) {
    EXPECT_TRUE(Contains(status.message(), part)) << part << " in " << status.message();
  }
}

TEST(OpenDevice, AGpuOfAnotherArchitectureIsToldWhatToBuild) {
  const Status status =
      OpenDevice("cuda", [] { return FailedPrecondition("no kernels for sm_70"); }).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(status.message(), "JANUS_CUDA_ARCHITECTURES")) << status.message();
}

// Errors without known advice keep the device's own words.
TEST(OpenDevice, AFailingDeviceIsQuoted) {
  EXPECT_EQ(OpenDevice("cuda", [] { return Internal("stream: cudaErrorUnknown"); }).status(),
            Internal("--device cuda: stream: cudaErrorUnknown"));
}

TEST(OpenDevice, RefusesOtherNames) {
  EXPECT_EQ(OpenDevice("tpu").status(), InvalidArgument("--device tpu: want cpu or cuda"));
}

TEST(NumericsClass, IsOfTheInstructionSetOnACpuAndOfTheArchitectureOnAGpu) {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  EXPECT_EQ(
      NumericsClass(model, false, Compression::kNone, {}, kernels::HostContext(),
                    kernels::Isa::kAvx512),
      "cpu AVX512 kernels" + std::to_string(kernels::kBitsVersion) + " BFloat16 tp1 uncompressed");
  // Independent of the CPU.
  for (const kernels::Isa isa : {kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    EXPECT_EQ(NumericsClass(model, false, Compression::kNone, {}, NamedContext(), isa),
              "cuda sm_90 kernels" + std::to_string(kernels::kCudaBitsVersion) +
                  " BFloat16 tp1 uncompressed");
  }
}

TEST(NumericsClass, NamesACacheInFp8) {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  EXPECT_EQ(NumericsClass(model, true, Compression::kNone, {}, kernels::HostContext(),
                          kernels::Isa::kAvx512),
            "cpu AVX512 kernels" + std::to_string(kernels::kBitsVersion) +
                " BFloat16 kv fp8 tp1 uncompressed");
}

TEST(NumericsClass, NamesAnExchangeInFp8) {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  EXPECT_EQ(
      NumericsClass(model, false, Compression::kFp8, {}, kernels::HostContext(),
                    kernels::Isa::kAvx512),
      "cpu AVX512 kernels" + std::to_string(kernels::kBitsVersion) + " BFloat16 tp1 exchange fp8");
}

TEST(NumericsClass, NamesExactSumsAndTheirExponents) {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  const auto of = [&](const FixedPointSums& sums, Compression compression = Compression::kNone) {
    return NumericsClass(model, false, compression, sums, kernels::HostContext(),
                         kernels::Isa::kAvx512);
  };
  const std::string one = of({32, {-17, -12}});
  EXPECT_TRUE(Contains(one, " tp1 sum32-")) << one;
  EXPECT_NE(one, of({32, {-17, -13}}));
  EXPECT_NE(one, of({24, {-17, -12}}));
  EXPECT_EQ(of({32, {-17, -12}}, Compression::kFp8), one + "+8");
}

TEST(NumericsClass, FitsIntoAHello) {
  ModelDescription model;
  const FixedPointSums sums{32, {1}};
  for (const kernels::Isa isa :
       {kernels::Isa::kAvx2, kernels::Isa::kAvx512, kernels::Isa::kAvx512Bf16}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      model.dtype = dtype;
      // A longer version number, or the extra digit of sm_100.
      const size_t more = 2;
      EXPECT_LT(
          NumericsClass(model, true, Compression::kFp8, sums, kernels::HostContext(), isa).size() +
              more,
          Hello::kNumericsChars);
      EXPECT_LT(
          NumericsClass(model, true, Compression::kFp8, sums, NamedContext(), isa).size() + more,
          Hello::kNumericsChars);
    }
  }
}

Result<InstanceSettings> Resolve(kernels::Context& context, const v1::WorkerConfig& config,
                                 int64_t kv_bytes) {
  ModelDescription model;
  const SequenceRoom room{.max_batch_size = 4, .kv_bytes = kv_bytes};
  constexpr int64_t kMachine = 1 << 20;
  return ResolveInstanceSettings(config, room, model, context, kernels::CpuFeatures(), kMachine);
}

TEST(ResolveInstanceSettings, OnAGpuNeitherTheCpuNorTheMachinesMemoryIsAskedFor) {
  NamedContext gpu;
  const Result<InstanceSettings> settings = Resolve(gpu, {}, int64_t{1} << 40);
  ASSERT_FALSE(settings.ok()) << "what is swapped out is the machine's";
  EXPECT_TRUE(Contains(settings.status().message(), "swap_bytes")) << settings.status().ToString();
  const Result<InstanceSettings> small = Resolve(gpu, {}, 1 << 19);
  ASSERT_TRUE(small.ok()) << "this CPU has no features at all: " << small.status().ToString();
  EXPECT_EQ(small->attention.context, &gpu);
  EXPECT_FALSE(Resolve(kernels::HostContext(), {}, 1 << 19).ok());
}

// While prompts wait, every step takes this long: at the target itself, half of all steps would
// miss it.
TEST(ResolveEpoch, AStepWithPromptsStaysBelowTheTarget) {
  v1::WorkerConfig config;
  config.set_tpot_target_ms(60);
  EXPECT_NEAR(ResolveEpoch(config)->attention.prompt_step.count(), .057, 1e-9);
  EXPECT_NEAR(ResolveEpoch({})->attention.prompt_step.count(), .095, 1e-9);  // of 100 ms
}

TEST(ResolveInstanceSettings, HostMemoryForPrefixesIsForAGpuWithSoMuchBesideIt) {
  NamedContext gpu;
  const auto resolve = [](kernels::Context& context, int64_t bytes) {
    ModelDescription model;
    const SequenceRoom room{.max_batch_size = 4, .kv_bytes = 1 << 10, .prefix_host_bytes = bytes};
    return ResolveInstanceSettings({}, room, model, context, kernels::DetectCpu(), 1 << 20);
  };
  EXPECT_EQ(resolve(gpu, 1 << 19)->attention.prefix_host_bytes, 1 << 19);
  EXPECT_EQ(resolve(gpu, 0)->attention.prefix_host_bytes, 0);
  const Status too_much = resolve(gpu, 1 << 21).status();
  EXPECT_EQ(too_much.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(too_much.message(), "sequences.prefix_host_bytes")) << too_much.ToString();
  EXPECT_TRUE(resolve(kernels::HostContext(), 0).ok());
  EXPECT_EQ(resolve(kernels::HostContext(), 1).status(),
            InvalidArgument("sequences.prefix_host_bytes 1: this worker computes on CPUs, and has "
                            "all keys and values in host memory"));
}

TEST(ResolveInstanceSettings, TakesTheCachesFormatAlong) {
  NamedContext context;
  v1::WorkerConfig config;
  EXPECT_FALSE(Resolve(context, config, 1 << 10)->attention.fp8_cache);
  config.set_fp8_kv_cache(true);
  EXPECT_TRUE(Resolve(context, config, 1 << 10)->attention.fp8_cache);
}

TEST(ResolveInstanceSettings, AnInstructionSetIsNoneOfAGpus) {
  NamedContext gpu;
  v1::WorkerConfig config;
  config.set_isa("avx512");
  EXPECT_EQ(Resolve(gpu, config, 1 << 19).status(),
            InvalidArgument("config.isa 'avx512' is for CPUs; this worker computes on cuda sm_90"));
}

}  // namespace
}  // namespace janus::dataplane
