#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "common/model/config.h"
#include "common/wait_policy.h"
#include "dataplane/calibrate/calibrate.h"
#include "dataplane/model/load_weights.h"
#include "dataplane/text/tokenizer.h"
#include "kernels/cpu/isa.h"

namespace janus::dataplane {
namespace {

struct Flags {
  std::string model;
  std::string prompts;
  int bits = 32;
  int threads = 0;
};

Result<std::vector<std::string>> ReadTexts(const std::string& file) {
  if (file.empty()) return CalibrationTexts();
  constexpr size_t kMostTexts = 1000;
  std::ifstream in(file);
  if (!in) return NotFound(file + ": cannot read this file");
  std::vector<std::string> texts;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    if (texts.size() == kMostTexts) {
      return InvalidArgument(file + ": more than " + std::to_string(kMostTexts) + " prompts");
    }
    texts.push_back(std::move(line));
  }
  if (texts.empty()) return InvalidArgument(file + ": no prompt; want one in each line");
  return texts;
}

Result<std::vector<std::vector<int32_t>>> ReadPrompts(const Flags& flags,
                                                      const ModelDescription& model) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<std::string> texts, ReadTexts(flags.prompts));
  JANUS_ASSIGN_OR_RETURN(const std::shared_ptr<const text::Tokenizer> tokenizer,
                         text::Tokenizer::LoadOf(flags.model));
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : texts) {
    JANUS_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode(text, true));
    std::erase_if(ids, [&](int32_t id) { return id >= model.vocab; });
    if (!ids.empty()) prompts.push_back(std::move(ids));
  }
  return prompts;
}

Result<std::string> Calibrate(const Flags& flags) {
  JANUS_ASSIGN_OR_RETURN(const ModelDescription model, LoadModelConfig(flags.model));
  if (model.moe.top_k > FixedPointSums::kMostTerms) {
    return InvalidArgument("the model adds " + std::to_string(model.moe.top_k) +
                           " experts for a row; FixedPoint adds at most " +
                           std::to_string(FixedPointSums::kMostTerms));
  }
  JANUS_ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::SelectIsa(kernels::DetectCpu()));
  JANUS_ASSIGN_OR_RETURN(const auto prompts, ReadPrompts(flags, model));
  Placement placement;
  placement.layers = model.moe_layers();
  placement.slots_of_instance = {model.moe.experts};
  for (int layer = 0; layer < placement.layers; ++layer) {
    for (int expert = 0; expert < model.moe.experts; ++expert) {
      placement.expert_of.push_back(static_cast<uint16_t>(expert));
    }
  }
  std::fprintf(stderr, "reading the weights of %s\n", flags.model.c_str());
  JANUS_ASSIGN_OR_RETURN(const Loaded<AttentionWeights> attention,
                         LoadAttention(flags.model, model, nullptr, {}));
  JANUS_ASSIGN_OR_RETURN(const Loaded<ExpertWeights> experts,
                         LoadExperts(flags.model, model, placement, Rank{0}, nullptr, {}));
  kernels::Team team(flags.threads > 0 ? flags.threads : UsableCores());
  const kernels::Stream stream{kernels::Device::kCpu, &team, isa, nullptr};
  size_t positions = 0;
  for (const auto& prompt : prompts) {
    positions += std::min<size_t>(prompt.size(), kMostCalibratedPositions);
  }
  const CalibrationProgress progress = [&](size_t done) {
    std::fprintf(stderr, "computed %zu of %zu prompts\n", done, prompts.size());
  };
  JANUS_ASSIGN_OR_RETURN(
      const std::vector<ContributionRange> ranges,
      MeasureContributions(model, attention.weights, experts.weights, prompts, stream, progress));
  JANUS_ASSIGN_OR_RETURN(const FixedPointSums sums,
                         ChooseExponents(ranges, flags.bits, model.moe.top_k));
  return ToYaml(sums, "janusctl calibrate: " + std::to_string(prompts.size()) + " prompts, " +
                          std::to_string(positions) + " positions");
}

}  // namespace

int CalibrateMain(int argc, char** argv) {
  CLI::App app{
      "janus-worker calibrate runs a model on this machine's CPUs and prints the exponents for "
      "exchange.sum: FixedPoint. janusctl calibrate calls it."};
  Flags flags;
  app.add_option("--model", flags.model, "checkpoint folder")->required();
  app.add_option("--prompts", flags.prompts,
                 "file with one prompt in each line. Default: built in");
  app.add_option("--sum-bits", flags.bits, "bits of an element of a sum: 32 or 24")
      ->check(CLI::IsMember({24, 32}))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "threads to compute with. Default: one for each core")
      ->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  const Result<std::string> yaml = Calibrate(flags);
  if (!yaml.ok()) {
    std::fprintf(stderr, "%s\n", yaml.status().message().c_str());
    return yaml.status().code() == StatusCode::kInvalidArgument ? 2 : 1;
  }
  std::fputs(yaml->c_str(), stdout);
  return 0;
}

}  // namespace janus::dataplane
