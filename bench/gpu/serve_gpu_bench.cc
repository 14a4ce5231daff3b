// A model end to end on one GPU: attention and expert instances as threads of this process, each
// with streams of its own, over a model of random weights that are made on the device and shared by
// all. Greedy answers from 1A1E to 2A3E, which must be the same tokens, with tokens a second, the
// time per output token, and the shares of steps that wait and that the host takes. One JSON line
// per topology in the file that --results names; what stands there is not run again.

#include <iostream>

#include "bench/gpu/device_tensors.h"
#include "bench/gpu/serving.h"
#include "kernels/device/cuda_context.h"

namespace janus::bench {
namespace {

ModelDescription DeepSeekV2Lite() {
  ModelDescription model;
  model.family = "deepseek_v2";
  model.architecture = "DeepseekV2ForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 102400;
  model.hidden = 2048;
  model.layers = 27;
  model.dense_layers = {0};
  model.dense_intermediate = 10944;
  model.max_positions = 4096;
  AttentionDescription& a = model.attention;
  a.heads = a.kv_heads = 16;
  a.head_dim = 192;
  a.scale = 1.0f / std::sqrt(192.0f);
  a.rope.rotary_dim = 64;
  a.rope.pairing = RopePairing::kInterleaved;
  a.latent = LatentDescription{.rank = 512, .value_dim = 128, .query_rank = 0};
  model.moe.experts = 64;
  model.moe.top_k = 6;
  model.moe.intermediate = 1408;
  model.moe.shared_intermediate = 2816;
  return model;
}

// Mixtral 8x7B with a quarter of its layers, which fits any of these GPUs.
ModelDescription MixtralOfEightLayers() {
  ModelDescription model;
  model.family = "mixtral";
  model.architecture = "MixtralForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 32000;
  model.hidden = 4096;
  model.layers = 8;
  model.max_positions = 4096;
  AttentionDescription& a = model.attention;
  a.heads = 32;
  a.kv_heads = 8;
  a.head_dim = 128;
  a.scale = 1.0f / std::sqrt(128.0f);
  a.rope.theta = 1e6;
  a.rope.rotary_dim = 128;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 14336;
  model.moe.renormalize = true;
  return model;
}

bool ServeModel(const std::string& name, const ModelDescription& model,
                kernels::cuda::Results& results) {
  const auto context = kernels::MakeCudaContext();
  if (!context.ok()) {
    std::cerr << context.status().ToString() << '\n';
    std::exit(3);
  }
  DeviceTensors tensors(**context, 1);
  const dataplane::HeldModel held = RandomModel(model, tensors);
  JANUS_CHECK((*context)->Wait().ok());
  dataplane::LoopbackCluster::Options options;
  options.device = kernels::Device::kCuda;
  options.make_context = [] { return *kernels::MakeCudaContext(); };
  options.weights_are_placed = true;
  const int experts = model.moe.experts;
  const int half = experts - experts / 4, third = experts / 2;  // with replicas of half of them
  const std::vector<ServingTopology> topologies = {{1, {experts}},
                                                   {1, {half, half}},
                                                   {2, {half, half}},
                                                   {2, {third, third, third}},
                                                   {2, {third, third, third}, 2}};
  bool alike = true;
  for (const ServingLoad& load :
       {ServingLoad{1, 128, 64}, ServingLoad{64, 128, 64}, ServingLoad{256, 128, 64}}) {
    alike = ServeAll(name, held, options, topologies, load, results) && alike;
  }
  return alike;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--results") {
    std::cerr << "usage: " << argv[0] << " --results FILE\n";
    return 2;
  }
  janus::kernels::cuda::Results results(argv[2]);
  if (!results.ok()) {
    std::cerr << "cannot write " << argv[2] << '\n';
    return 2;
  }
  const bool lite = janus::bench::ServeModel("V2-Lite", janus::bench::DeepSeekV2Lite(), results);
  const bool mixtral = janus::bench::ServeModel("Mixtral of 8 layers",
                                                janus::bench::MixtralOfEightLayers(), results);
  return lite && mixtral ? 0 : 1;
}
