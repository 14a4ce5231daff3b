#include "tests/integration/golden/mutations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/model/config.h"

namespace janus::dataplane {
namespace {

using nlohmann::json;

// The checkpoint's bytes with one fp32 tensor multiplied.
std::string Scaled(std::string bytes, const std::string& tensor, float scale) {
  const SafetensorsHeader header = *ParseSafetensors(
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "model.safetensors");
  const StoredTensor& stored = header.tensors.at(tensor);
  JANUS_CHECK(stored.dtype == DType::kFloat32, tensor);
  const auto at =
      static_cast<size_t>(stored.bytes.data() - reinterpret_cast<const std::byte*>(bytes.data()));
  for (size_t i = 0; i < stored.bytes.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + at + i, sizeof value);
    value *= scale;
    std::memcpy(bytes.data() + at + i, &value, sizeof value);
  }
  return bytes;
}

}  // namespace

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.family << " " << mutation.name;
}

std::vector<Mutation> MutationsOf(const std::string& family) {
  std::vector<Mutation> mutations;
  const json all = json::parse(ReadText(ReadGolden(family).folder + "/sensitivity.json"));
  for (const json& entry : all.at("mutations")) {
    Mutation m;
    m.family = family;
    m.name = entry.at("name").get<std::string>();
    m.how = entry.at("how");
    m.of_config = entry.at("kind") == "config";
    m.config = entry.at("config").get<std::string>();
    m.golden_case = entry.at("case").get<std::string>();
    const auto expect = entry.at("expect").get<std::string>();
    m.may_move = expect != "refused";
    m.may_be_refused = expect != "moves";
    m.least_move = all.at("least_move").get<float>();
    mutations.push_back(std::move(m));
  }
  return mutations;
}

void ExpectThatItShows(const Mutation& mutation, const CaseService& service) {
  const Golden golden = ReadGolden(mutation.family);
  const GoldenCase& c = golden.Case(mutation.golden_case);
  const TempFolder folder;
  json config = json::parse(ReadText(golden.folder + "/" + mutation.config));
  const std::string weights = golden.folder + "/model.safetensors";
  if (mutation.of_config) {
    for (const auto& [pointer, value] : mutation.how.at("set").items()) {
      config[json::json_pointer(pointer)] = value;
    }
    std::filesystem::create_symlink(weights, folder.path() + "/model.safetensors");
  } else {
    folder.Write("model.safetensors",
                 Scaled(ReadText(weights), mutation.name, mutation.how.at("scale").get<float>()));
  }
  folder.Write("config.json", config.dump());

  const Result<CaseRun> run = [&]() -> Result<CaseRun> {
    JANUS_ASSIGN_OR_RETURN(const ModelDescription model, LoadModelConfig(folder.path()));
    return RunCase(folder.path(), c, model, service, 1);
  }();
  if (!run.ok()) {
    EXPECT_TRUE(mutation.may_be_refused) << run.status().ToString();
    EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument) << run.status().ToString();
    return;
  }
  ASSERT_TRUE(mutation.may_move) << "was served";
  const float moved = LargestDifference(*run, c) / c.range;
  EXPECT_TRUE(std::isfinite(moved)) << moved;
  EXPECT_GE(moved, mutation.least_move);
  EXPECT_GE(moved, 100 * golden.tolerance);
}

}  // namespace janus::dataplane
