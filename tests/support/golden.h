#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/model/load_weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// A case of tests/golden/<family>/golden.json.
struct GoldenCase {
  std::string family;  // its folder
  std::string name;
  std::string config;  // file name
  std::vector<int32_t> prompt;
  std::vector<float> logits;  // [positions, vocab]
  int first_position = 0;
  int vocab = 0;
  float range = 0.0f;
  std::vector<int32_t> greedy_ids;  // empty: logits only
  std::vector<float> greedy_margins;
  std::vector<uint16_t> experts;  // [prompt and greedy_ids, layers, K], as TokenEvent has them
};
void PrintTo(const GoldenCase& c, std::ostream* out);

struct Golden {
  std::string folder;
  float tolerance = 0.0f;  // relative to the range
  float least_margin = 0.0f;
  std::vector<GoldenCase> cases;
  const GoldenCase& Case(const std::string& name) const;
};
// Aborts with a message if the files are missing or malformed, because they are part of the tree.
Golden ReadGolden(const std::string& family);
// The folders of tests/golden with a model. In the last two all experts of a layer lie together.
inline constexpr const char* kGoldenFamilies[] = {
    "mixtral", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "glm4_moe", "minimax_m2",
    "olmoe",   "qwen2_moe",   "qwen3_moe",        "gpt_oss",     "llama4"};
// Those whose experts have tensors of their own.
inline constexpr std::span kSeparateExperts(kGoldenFamilies, std::size(kGoldenFamilies) - 2);
std::string ReadText(const std::string& path);
// All tensors of a one-file checkpoint, in Float32.
FileTensors ReadInFloat32(const std::string& folder);

// A checkpoint loaded for every instance of a topology, with the share of each.
struct LoadedModel {
  ModelDescription model;
  Loaded<AttentionWeights> attention;
  std::vector<Loaded<ExpertWeights>> experts;
  std::vector<const ExpertWeights*> expert_pointers() const;
};
Result<LoadedModel> LoadForTopology(const std::string& folder, const ModelDescription& model,
                                    const Topology& topology);

// The checkpoint of a family, for any placement.
HeldModel HoldGolden(const std::string& family, DType dtype);
// HeldByName for the small models, otherwise HoldGolden of the folder.
HeldModel HoldByName(const std::string& model, DType dtype, uint64_t seed);

// The result of one case: logits of the prompt's last positions, and the greedy tokens.
struct CaseRun {
  std::map<int, std::vector<float>> logits;  // by position
  std::vector<int32_t> tokens;
  std::vector<uint16_t> experts;  // as GoldenCase has them, without the last token's
};
// The service that runs a case.
struct CaseService {
  KernelChoice kernels;
  int m = 1;
  int n = 1;
  Connect connect = ConnectLoopback;
  FixedPointSums sums = {};  // instead of those of kernels.sum_bits
};
// Runs a case's prompt with the checkpoint in `folder`, at every attention instance at once;
// returns the result of the last one. Errors: those of loading, or of a step loop.
Result<CaseRun> RunCase(const std::string& folder, const GoldenCase& c,
                        const ModelDescription& model, const CaseService& service, int tokens);
// The same with the checkpoint and the config of the case. A model that ties its output head to its
// embeddings is loaded from a copy of the checkpoint without a head.
Result<CaseRun> RunCase(const Golden& golden, const GoldenCase& c, const CaseService& service,
                        int tokens);
// The absolute difference; infinite if one of them is not a number, or the sizes differ.
float LargestDifference(std::span<const float> ours, std::span<const float> theirs);
// The difference of the logits; infinite also if a position is missing.
float LargestDifference(const CaseRun& run, const GoldenCase& c);

}  // namespace janus::dataplane
