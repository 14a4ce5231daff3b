#include "tests/support/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/model/config.h"
#include "dataplane/model/cast.h"
#include "tests/support/paths.h"

namespace janus::dataplane {

void PrintTo(const GoldenCase& c, std::ostream* out) {
  *out << c.family << " " << c.name;
}

const GoldenCase& Golden::Case(const std::string& name) const {
  for (const GoldenCase& c : cases) {
    if (c.name == name) return c;
  }
  JANUS_CHECK(false, "no golden case", name);
  return cases.front();
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  JANUS_CHECK(in.good(), "cannot read", path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Golden ReadGolden(const std::string& family) {
  Golden golden;
  // For a program that was built elsewhere.
  const char* const source = std::getenv("JANUS_SOURCE_DIR");
  golden.folder = (source != nullptr ? source : test::SourceDir()) + "/tests/golden/" + family;
  const auto json = nlohmann::json::parse(ReadText(golden.folder + "/golden.json"));
  const std::string bytes = ReadText(golden.folder + "/golden_logits.safetensors");
  const SafetensorsHeader logits = *ParseSafetensors(
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "golden_logits");
  const std::string routed = ReadText(golden.folder + "/golden_experts.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, routed.data(), sizeof header_bytes);
  const size_t first_expert = sizeof header_bytes + header_bytes;
  const auto experts = nlohmann::json::parse(routed.substr(sizeof header_bytes, header_bytes));
  golden.tolerance = json.at("tolerance").get<float>();
  golden.least_margin = json.at("least_margin").get<float>();
  for (const auto& c : json.at("cases")) {
    GoldenCase out;
    out.family = family;
    out.name = c.at("name").get<std::string>();
    out.config = c.at("config").get<std::string>();
    out.prompt = c.at("prompt").get<std::vector<int32_t>>();
    out.first_position = c.at("first_position").get<int>();
    out.range = c.at("range").get<float>();
    if (c.contains("greedy_ids")) {
      out.greedy_ids = c.at("greedy_ids").get<std::vector<int32_t>>();
      out.greedy_margins = c.at("greedy_margins").get<std::vector<float>>();
    }
    const StoredTensor& tensor = logits.tensors.at(c.at("logits").get<std::string>());
    out.vocab = static_cast<int>(tensor.shape.at(1));
    out.logits.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(out.logits.data(), tensor.bytes.data(), tensor.bytes.size());
    if (const auto of = experts.find(out.name + ".experts"); of != experts.end()) {
      const auto range = of->at("data_offsets").get<std::pair<size_t, size_t>>();
      for (size_t at = range.first; at < range.second; ++at) {
        const auto id = static_cast<uint8_t>(routed.at(first_expert + at));
        out.experts.push_back(id == 255 ? kNoExpert : id);
      }
    }
    golden.cases.push_back(std::move(out));
  }
  return golden;
}

FileTensors ReadInFloat32(const std::string& folder) {
  const std::string bytes = ReadText(folder + "/model.safetensors");
  const auto header = *ParseSafetensors(std::as_bytes(std::span(bytes)), "model.safetensors");
  FileTensors tensors;
  for (const auto& [name, stored] : header.tensors) {
    FileTensor& tensor = tensors[name];
    tensor = {"F32", stored.shape, ""};
    const auto size = static_cast<size_t>(SizeOf(stored.dtype));
    tensor.bytes.resize(stored.bytes.size() / size * 4);
    JANUS_CHECK(CastAndCheck(stored.bytes, stored.dtype,
                             reinterpret_cast<std::byte*>(tensor.bytes.data()), DType::kFloat32),
                name);
  }
  return tensors;
}

std::vector<const ExpertWeights*> LoadedModel::expert_pointers() const {
  std::vector<const ExpertWeights*> pointers;
  for (const Loaded<ExpertWeights>& e : experts) pointers.push_back(&e.weights);
  return pointers;
}

Result<LoadedModel> LoadForTopology(const std::string& folder, const ModelDescription& model,
                                    const Topology& topology) {
  LoadedModel loaded;
  loaded.model = model;
  JANUS_ASSIGN_OR_RETURN(loaded.attention,
                         LoadAttention(folder, model, nullptr, {}, nullptr, true));
  for (int e = 0; e < topology.n(); ++e) {
    JANUS_ASSIGN_OR_RETURN(Loaded<ExpertWeights> experts,
                           LoadExperts(folder, model, topology.placement, Rank{e}, nullptr, {}));
    loaded.experts.push_back(std::move(experts));
  }
  return loaded;
}

HeldModel HoldGolden(const std::string& family, DType dtype) {
  const std::string folder = ReadGolden(family).folder;
  HeldModel held;
  held.model = *LoadModelConfig(folder);
  held.model.dtype = dtype;
  const Topology all =
      MakeTopology(1, {held.model.moe.experts}, held.model.moe_layers(), held.model.moe.experts);
  auto loaded = std::make_shared<LoadedModel>(*LoadForTopology(folder, held.model, all));
  held.attention = loaded->attention.weights;
  const ExpertWeights& dealt = loaded->experts.front().weights;  // layers are rotated: undo that
  held.experts = dealt;
  for (int l = 0; l < held.model.moe_layers(); ++l) {
    for (int s = 0; s < held.model.moe.experts; ++s) {
      held.experts.layers[static_cast<size_t>(l)].slots[all.placement.at(l, s)] =
          dealt.layers[static_cast<size_t>(l)].slots[static_cast<size_t>(s)];
    }
  }
  held.keep = loaded;
  return held;
}

HeldModel HoldByName(const std::string& model, DType dtype, uint64_t seed) {
  if (std::optional<HeldModel> held = HeldByName(model, dtype, seed)) return *std::move(held);
  return HoldGolden(model, dtype);
}

Result<CaseRun> RunCase(const std::string& folder, const GoldenCase& c,
                        const ModelDescription& model, const CaseService& service, int tokens) {
  // Room for every expert once, dealt in turn; every second instance has one slot more.
  std::vector<int> slots(static_cast<size_t>(service.n));
  for (size_t e = 0; e < slots.size(); ++e) {
    slots[e] = (model.moe.experts + service.n - 1) / service.n + static_cast<int>(e % 2);
  }
  LoopbackCluster::Options options;
  options.topology = MakeTopology(service.m, slots, model.moe_layers(), model.moe.experts);
  options.device = service.kernels.device;
  options.isa = service.kernels.isa;
  options.make_context = service.kernels.make_context;
  options.attention.fp8_cache = service.kernels.fp8_cache;
  options.compression = service.kernels.compression;
  options.sums = service.sums.on() ? service.sums : TestSums(model, service.kernels.sum_bits);
  options.connect = service.connect;
  options.attention.kv_bytes = int64_t{8} << 20;
  options.attention.max_batch = 8;
  CaseRun run;
  const int last = c.first_position + static_cast<int>(c.logits.size()) / c.vocab;
  const auto key_of = [](int a) { return RequestKey{1, static_cast<uint64_t>(a), 1}; };
  const RequestKey wanted = key_of(service.m - 1);
  options.steering.logits_tap = [&](const RequestKey& key, int position,
                                    std::span<const float> logits) {
    if (key == wanted && position >= c.first_position && position < last)
      run.logits[position].assign(logits.begin(), logits.end());
  };
  JANUS_ASSIGN_OR_RETURN(const LoadedModel loaded,
                         LoadForTopology(folder, model, options.topology));
  {
    LoopbackCluster cluster(options, model, loaded.attention.weights, loaded.expert_pointers());
    for (int a = 0; a < service.m; ++a) {
      Request request;
      request.key = key_of(a);
      request.prompt = c.prompt;
      request.max_tokens = tokens;
      request.routed_from = 0;
      JANUS_RETURN_IF_ERROR(cluster.attention(a).Submit(std::move(request)));
    }
    LoopbackCluster::Outcome outcome = cluster.Await(wanted);
    JANUS_RETURN_IF_ERROR(outcome.error);
    run.tokens = std::move(outcome.tokens);
    for (const TokenEvent& event : outcome.events) {
      run.experts.insert(run.experts.end(), event.routed.begin(), event.routed.end());
    }
  }
  return run;
}

Result<CaseRun> RunCase(const Golden& golden, const GoldenCase& c, const CaseService& service,
                        int tokens) {
  const ModelDescription model = *ParseModelConfig(ReadText(golden.folder + "/" + c.config));
  if (!model.tied_embeddings) return RunCase(golden.folder, c, model, service, tokens);
  FileTensors tensors = ReadInFloat32(golden.folder);
  std::erase_if(tensors, [](const auto& one) { return one.first.ends_with("lm_head.weight"); });
  const TempFolder headless;
  headless.Write("model.safetensors", SafetensorsBytes(tensors));
  return RunCase(headless.path(), c, model, service, tokens);
}

float LargestDifference(std::span<const float> ours, std::span<const float> theirs) {
  if (ours.size() != theirs.size()) return INFINITY;
  float largest = 0.0f;
  for (size_t i = 0; i < ours.size(); ++i) {
    const float difference = std::fabs(ours[i] - theirs[i]);
    if (std::isnan(difference)) return INFINITY;
    largest = std::max(largest, difference);
  }
  return largest;
}

float LargestDifference(const CaseRun& run, const GoldenCase& c) {
  const std::span<const float> logits(c.logits);
  const auto vocab = static_cast<size_t>(c.vocab);
  float largest = 0.0f;
  for (size_t p = 0; p < logits.size() / vocab; ++p) {
    const auto at = run.logits.find(c.first_position + static_cast<int>(p));
    if (at == run.logits.end()) return INFINITY;
    largest = std::max(largest, LargestDifference(at->second, logits.subspan(p * vocab, vocab)));
  }
  return largest;
}

}  // namespace janus::dataplane
