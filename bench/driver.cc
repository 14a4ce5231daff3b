// Serves a random model end to end with attention and expert instances in this process, one thread
// each. Prints the answer to the given tokens, a digest of the logits behind each token, and the
// time per token and per step. Weights are made from a seed; for the large shapes on a GPU they are
// made on the device. The same model and seed give the same answer and digest for every topology,
// but CPU and GPU differ.
//
//   driver --model small_latent --topology 2x3 --tokens 5,17,3 --max-tokens 16
//   driver --device cuda --model v2-lite --topology 1x2
//
// Needs only a compiler (preset minimal). Includes the CUDA kernels if the build has them.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/flags.h"
#include "bench/gpu/shapes.h"
#include "common/free_memory.h"
#include "kernels/cpu/isa.h"
#include "kernels/device/cuda_context.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#ifdef JANUS_HAS_GPU_MODEL
#include "bench/gpu/gpu_model.h"
#endif

namespace janus::bench {
namespace {

using dataplane::HeldModel;
using dataplane::LoopbackCluster;

constexpr const char* kSmallModels[] = {"small",          "small_latent", "grouped_heads",
                                        "deepseek_heads", "small_fp8",    "small_mxfp4",
                                        "small_sigmoid"};
const std::map<std::string, ModelDescription, std::less<>>& LargeModels() {
  static const std::map<std::string, ModelDescription, std::less<>> models = {
      {"v2-lite", DeepSeekV2Lite()},
      {"v2", DeepSeekV2()},
      {"v3", DeepSeekV3()},
      {"mixtral", Mixtral(32)}};
  return models;
}

constexpr int kMostAttention = 64;  // threads

struct Options {
  bool on_gpu = false;
  std::string model = "small";
  int layers = 0;  // 0: all
  int attention = 1;
  int experts = 1;
  std::vector<int32_t> tokens = {1, 2, 3};
  int max_tokens = 16;
  uint32_t seed = 1;
};

template <class Number>
bool ReadNumber(std::string_view text, Number least, Number* into) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *into);
  return error == std::errc() && stop == end && *into >= least;
}

bool ReadTopology(std::string_view text, Options* into) {
  const size_t by = text.find('x');
  return by != std::string_view::npos && ReadNumber(text.substr(0, by), 1, &into->attention) &&
         ReadNumber(text.substr(by + 1), 1, &into->experts);
}

bool ReadTokens(std::string_view text, std::vector<int32_t>* into) {
  into->clear();
  for (;;) {
    const size_t comma = text.find(',');
    if (!ReadNumber(text.substr(0, comma), 0, &into->emplace_back())) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

std::string ModelNames() {
  std::string names;
  for (const char* const name : kSmallModels) names += std::string(name) + ", ";
  for (const auto& [name, model] : LargeModels()) names += name + ", ";
  return "one of " + names.substr(0, names.size() - 2);
}

std::vector<Flag> FlagsInto(Options* options) {
  const auto take_model = [options](std::string_view name) {
    options->model = name;
    return LargeModels().contains(name) ||
           std::ranges::find(kSmallModels, name) != std::ranges::end(kSmallModels);
  };
  const auto take_device = [options](std::string_view name) {
    options->on_gpu = name == "cuda";
    return name == "cuda" || name == "cpu";
  };
  return {{"--device", "cpu or cuda", take_device},
          {"--model", ModelNames(), take_model},
          NumberFlag("--layers", 1, &options->layers),
          {"--topology", "attention by expert instances, as 2x3",
           [options](std::string_view text) { return ReadTopology(text, options); }},
          {"--tokens", "numbers with commas between them, as 1,2,3",
           [options](std::string_view text) { return ReadTokens(text, &options->tokens); }},
          NumberFlag("--max-tokens", 1, &options->max_tokens),
          NumberFlag("--seed", uint32_t{0}, &options->seed)};
}

Status RefuseRequest(const ModelDescription& model, const Options& options) {
  for (const int32_t token : options.tokens) {
    if (token < model.vocab) continue;
    return InvalidArgument("--tokens: " + std::to_string(token) + " is none of " + options.model +
                           "'s, which are below " + std::to_string(model.vocab));
  }
  const size_t positions = options.tokens.size() + static_cast<size_t>(options.max_tokens);
  if (positions > static_cast<size_t>(model.max_positions)) {
    return InvalidArgument(std::to_string(options.tokens.size()) + " tokens and " +
                           std::to_string(options.max_tokens) + " more are beyond the " +
                           std::to_string(model.max_positions) + " positions of " + options.model);
  }
  if (options.attention > kMostAttention) {
    return InvalidArgument("--topology: " + std::to_string(options.attention) +
                           " attention instances; give at most " + std::to_string(kMostAttention));
  }
  if (options.experts > model.moe.experts) {
    return InvalidArgument("--topology: " + std::to_string(options.experts) +
                           " expert instances, and " + options.model + " has " +
                           std::to_string(model.moe.experts) + " experts");
  }
  return OkStatus();
}

// Bytes of experts, embedding and head in bfloat16: nearly all of a large model.
int64_t LeastWeightBytes(const ModelDescription& model) {
  const int64_t expert = int64_t{3} * model.moe.intermediate * model.hidden;
  return 2 * (int64_t{model.moe_layers()} * model.moe.experts * expert +
              int64_t{2} * model.vocab * model.hidden);
}

Status RefuseSize(const ModelDescription& model, const Options& options, uint64_t free_bytes) {
  const auto bytes = static_cast<uint64_t>(LeastWeightBytes(model));
  if (bytes <= free_bytes / 10 * 9) return OkStatus();
  return InvalidArgument("--layers: " + std::to_string(model.layers) + " of " + options.model +
                         " have weights of " + std::to_string(bytes >> 30) + " GiB and " +
                         std::to_string(free_bytes >> 30) + " are free; give fewer");
}

// Makes the model, with weights where `cluster` computes, and gives `cluster` its device. Checks
// the options against the model before it makes the weights.
Result<HeldModel> MakeModel(const Options& options, LoopbackCluster::Options& cluster) {
  uint64_t free_bytes = 0;
  if (options.on_gpu) {
    const Result<std::unique_ptr<kernels::Context>> tried = kernels::MakeCudaContext();
    if (!tried.ok()) return tried.status();
    JANUS_ASSIGN_OR_RETURN(const kernels::DeviceMemory memory, (*tried)->memory());
    free_bytes = memory.free;
    cluster.device = kernels::Device::kCuda;
    cluster.make_context = [] {
      Result<std::unique_ptr<kernels::Context>> context = kernels::MakeCudaContext();
      JANUS_CHECK(context.ok(), context.status().ToString());
      return *std::move(context);
    };
  } else if (const auto isa = kernels::SelectIsa(kernels::DetectCpu()); isa.ok()) {
    cluster.device = kernels::Device::kCpu;
    cluster.isa = *isa;
  }
  const auto large = LargeModels().find(options.model);
  if (large == LargeModels().end()) {
    if (options.layers > 0) {
      return InvalidArgument("--layers is for v2-lite, v2, v3 and mixtral; " + options.model +
                             " has the layers that it has");
    }
    HeldModel held = *dataplane::HeldByName(options.model, DType::kBFloat16, options.seed);
    JANUS_RETURN_IF_ERROR(RefuseRequest(held.model, options));
    return held;
  }
  ModelDescription model = large->second;
  if (options.layers > model.layers) {
    return InvalidArgument("--layers: " + options.model + " has " + std::to_string(model.layers) +
                           ", not " + std::to_string(options.layers));
  }
  if (options.layers > 0) model.layers = options.layers;
  std::erase_if(model.dense_layers, [&](int layer) { return layer >= model.layers; });
  if (model.moe_layers() == 0) {
    return InvalidArgument("--layers: the first " + std::to_string(model.layers) + " of " +
                           options.model + " have no experts; give more");
  }
  JANUS_RETURN_IF_ERROR(RefuseRequest(model, options));
  if (!options.on_gpu) {
    JANUS_ASSIGN_OR_RETURN(const int64_t available, AvailableMemoryBytes());
    free_bytes = static_cast<uint64_t>(available);
  }
  JANUS_RETURN_IF_ERROR(RefuseSize(model, options, free_bytes));
#ifdef JANUS_HAS_GPU_MODEL
  if (options.on_gpu) {
    cluster.weights_are_placed = true;
    return RandomModelOnGpu(model, options.seed);
  }
#endif
  return dataplane::RandomModel(model, options.seed);
}

// Slots of each expert instance. A single instance holds all experts; several hold a share each,
// and replicas of a quarter of the experts.
std::vector<int> SlotsOf(int experts, int instances) {
  const int share = (experts + instances - 1) / instances;
  const int slots = instances == 1 ? experts : std::min(experts, share + (experts + 3) / 4);
  return std::vector<int>(static_cast<size_t>(instances), slots);
}

struct Answer {
  std::vector<int32_t> tokens;
  uint64_t digest = 0;
  double token_ms = 0.0;  // mean time per token, with the prompt's share
  double step_ms = 0.0;   // median step of the instance
};

// Asks one attention instance. The others have no request meanwhile.
Result<Answer> Ask(LoopbackCluster& cluster, const Options& options, int rank) {
  dataplane::Request request;
  request.key = {1, static_cast<uint64_t>(rank), 1};
  request.prompt = options.tokens;
  request.max_tokens = options.max_tokens;
  request.ignore_stop_tokens = true;
  request.want_logits_hash = true;
  const dataplane::RequestKey key = request.key;
  const MonotonicTime begin = MonotonicClock::now();
  JANUS_RETURN_IF_ERROR(cluster.attention(rank).Submit(std::move(request)));
  LoopbackCluster::Outcome outcome;
  for (int tokens = 1; tokens <= options.max_tokens; ++tokens) {
    outcome = cluster.Await(key, tokens);
    JANUS_RETURN_IF_ERROR(outcome.error);
  }
  outcome = cluster.Await(key);
  JANUS_RETURN_IF_ERROR(outcome.error);
  const MonotonicTime end = MonotonicClock::now();
  Answer answer{.tokens = outcome.tokens};
  answer.token_ms = 1e3 * Seconds(end - begin).count() / options.max_tokens;
  answer.step_ms = 1e3 * cluster.attention(rank).statistics().step_seconds_median;
  answer.digest = 0xCBF29CE484222325u;  // FNV-1a over the hashes
  for (const dataplane::TokenEvent& event : outcome.events) {
    if (event.token < 0) continue;
    JANUS_CHECK(event.has_logits_hash, event.token);
    for (int i = 0; i < 64; i += 8) {
      answer.digest = (answer.digest ^ (event.logits_hash >> i & 0xFFu)) * 0x100000001B3u;
    }
  }
  return answer;
}

Status Serve(const Options& options) {
  LoopbackCluster::Options cluster_options;
  JANUS_ASSIGN_OR_RETURN(const HeldModel held, MakeModel(options, cluster_options));
  const ModelDescription& model = held.model;
  const auto positions = static_cast<int>(options.tokens.size()) + options.max_tokens;
  cluster_options.topology = dataplane::MakeTopology(
      options.attention, SlotsOf(model.moe.experts, options.experts), model.moe_layers(),
      model.moe.experts, 1, std::clamp(static_cast<int>(options.tokens.size()), 64, 512));
  cluster_options.attention.max_batch = 1;
  cluster_options.attention.swap_bytes = 0;
  cluster_options.attention.kv_bytes = dataplane::KvPagePool::PagesFor(positions) *
                                       dataplane::CachePageBytes(model, WireType(model)) *
                                       model.layers;
  const std::vector<dataplane::ExpertWeights> shares =
      held.Shares(cluster_options.topology.placement);
  LoopbackCluster cluster(cluster_options, model, held.attention, dataplane::PointersTo(shares));
  Answer first;
  for (int rank = 0; rank < options.attention; ++rank) {
    JANUS_ASSIGN_OR_RETURN(const Answer answer, Ask(cluster, options, rank));
    if (rank == 0) first = answer;
    if (answer.tokens == first.tokens && answer.digest == first.digest) continue;
    return Internal("attention instance " + std::to_string(rank) +
                    " answers otherwise than instance 0");
  }
  std::string ids;
  for (const int32_t token : first.tokens) ids += (ids.empty() ? "" : ",") + std::to_string(token);
  std::printf("%s of %d layers, %dA%dE on %s\n", options.model.c_str(), model.layers,
              cluster_options.topology.m(), cluster_options.topology.n(),
              options.on_gpu ? "cuda" : "cpu");
  std::printf("tokens %s\nlogits %016llx\n%.3f ms a token with the prompt, %.3f ms a step\n",
              ids.c_str(), static_cast<unsigned long long>(first.digest), first.token_ms,
              first.step_ms);
  return OkStatus();
}

int Main(const std::vector<std::string>& arguments) {
  Options options;
  if (!TakeFlags("driver", arguments, FlagsInto(&options))) return 2;
  const Status served = Serve(options);
  if (served.ok()) return 0;
  std::fprintf(stderr, "driver: %s\n", served.ToString().c_str());
  return served.code() == StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  return janus::bench::Main({argv + 1, argv + argc});
}
