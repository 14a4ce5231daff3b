// The test of the preset `minimal`, which needs only a C++ compiler: a small random model gives the
// same tokens with one attention and one expert instance as with two and three and replicas.

#include <cstdio>
#include <vector>

#include "kernels/cpu/isa.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::dataplane {
namespace {

std::vector<int32_t> Tokens(const HeldModel& held, int m, const std::vector<int>& slots,
                            int micro_batches) {
  LoopbackCluster::Options options;
  options.topology =
      MakeTopology(m, slots, held.model.layers, held.model.moe.experts, micro_batches);
  options.attention.kv_bytes = int64_t{1} << 20;
  options.attention.max_batch = 8;
  if (const auto isa = kernels::SelectIsa(kernels::DetectCpu()); isa.ok()) {
    options.device = kernels::Device::kCpu;
    options.isa = *isa;
  }
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
  constexpr int kRequests = 4;
  for (uint64_t id = 0; id < kRequests; ++id) {
    Request request;
    request.key = {1, id, 1};
    for (int i = 0; i < 5 + static_cast<int>(id); ++i)
      request.prompt.push_back((7 * i + 1) % held.model.vocab);
    request.max_tokens = 12;
    request.temperature = id % 2 == 0 ? 0.0f : 0.8f;
    request.seed = id;
    const Status submitted = cluster.attention(static_cast<int>(id) % m).Submit(request);
    JANUS_CHECK(submitted.ok(), submitted.ToString());
  }
  std::vector<int32_t> all;
  for (uint64_t id = 0; id < kRequests; ++id) {
    const LoopbackCluster::Outcome outcome = cluster.Await({1, id, 1});
    JANUS_CHECK(outcome.finish == FinishReason::kLength, outcome.error.ToString());
    all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end());
  }
  return all;
}

}  // namespace
}  // namespace janus::dataplane

int main() {
  using namespace janus::dataplane;
  for (const janus::DType dtype : {janus::DType::kFloat32, janus::DType::kBFloat16}) {
    const HeldModel held = SmallRandomModel(dtype, 1);
    const int experts = held.model.moe.experts;
    const std::vector<int32_t> small = Tokens(held, 1, {experts}, 1);
    const std::vector<int32_t> large = Tokens(held, 2, {experts, 1 + experts / 2, experts / 2}, 2);
    if (small != large || small.size() != 48) {
      std::fprintf(stderr, "1A1E and 2A3E differ for %s\n", janus::ToString(dtype).data());
      return 1;
    }
  }
  std::printf("1A1E and 2A3E give the same 96 tokens\n");
  return 0;
}
