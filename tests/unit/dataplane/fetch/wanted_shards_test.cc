#include "dataplane/fetch/wanted_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/model/config.h"
#include "dataplane/model/load_weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

// The tensors of a one-file checkpoint as they are stored.
FileTensors StoredIn(const std::string& file) {
  const std::string bytes = ReadText(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t data = sizeof header + header;
  FileTensors out;
  const Json tensors = Json::parse(bytes.substr(sizeof header, header));
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    out[name] = {tensor["dtype"], tensor["shape"], bytes.substr(data + begin, end - begin)};
  }
  return out;
}

// A checkpoint with one file per tensor.
class OneFileEach {
 public:
  explicit OneFileEach(const Golden& golden, const FileTensors& more = {}) {
    FileTensors tensors = StoredIn(golden.folder + "/model.safetensors");
    for (const auto& [name, tensor] : more) tensors[name] = tensor;
    WriteSharded(folder, tensors, static_cast<int>(tensors.size()));
    const Json index = Json::parse(ReadText(folder.path() + "/model.safetensors.index.json"));
    for (const auto& [tensor, file] : index["weight_map"].items()) file_of[tensor] = file;
    model = *ParseModelConfig(ReadText(golden.folder + "/config.json"));
  }
  Names Wanted(FetchFor reader) const {
    Result<Names> out = WantedShards(folder.path(), model, reader);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? *out : Names();
  }
  void Keep(const Names& files) const {
    for (const auto& [tensor, file] : file_of) {
      if (!files.contains(file)) std::filesystem::remove(folder.path() + "/" + file);
    }
  }
  TempFolder folder;
  std::map<std::string, std::string> file_of;
  ModelDescription model;
};

class WantedShardsTest : public testing::TestWithParam<const char*> {};

TEST_P(WantedShardsTest, AttentionLoadsFromItsFilesAlone) {
  const OneFileEach checkpoint(ReadGolden(GetParam()));
  checkpoint.Keep(checkpoint.Wanted(FetchFor::kAttention));
  const auto loaded =
      LoadAttention(checkpoint.folder.path(), checkpoint.model, nullptr, {}, nullptr, true);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
}

TEST_P(WantedShardsTest, ExpertsLoadFromTheirFilesAlone) {
  const OneFileEach checkpoint(ReadGolden(GetParam()));
  checkpoint.Keep(checkpoint.Wanted(FetchFor::kExperts));
  const ModelDescription& model = checkpoint.model;
  const Topology topology =
      MakeTopology(1, {model.moe.experts}, model.moe_layers(), model.moe.experts);
  const auto loaded =
      LoadExperts(checkpoint.folder.path(), model, topology.placement, Rank{0}, nullptr, {});
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
}

TEST_P(WantedShardsTest, OnlyGatesAreWantedByBothAndEachFileByOne) {
  const OneFileEach checkpoint(ReadGolden(GetParam()));
  Names both = checkpoint.Wanted(FetchFor::kAttention);
  const Names experts = checkpoint.Wanted(FetchFor::kExperts);
  size_t shared = 0;
  for (const auto& [tensor, file] : checkpoint.file_of) {
    shared += both.contains(file) && experts.contains(file);
  }
  const int of_layer = checkpoint.model.moe.has_gate_bias() ? 2 : 1;
  EXPECT_EQ(shared, static_cast<size_t>(of_layer * checkpoint.model.moe_layers()));
  both.insert(experts.begin(), experts.end());
  EXPECT_EQ(both, checkpoint.Wanted(FetchFor::kAll));
  EXPECT_EQ(checkpoint.Wanted(FetchFor::kGateway), Names());
}

INSTANTIATE_TEST_SUITE_P(Families, WantedShardsTest, testing::ValuesIn(kGoldenFamilies));

TEST(WantedShards, TensorsOfALayerBehindTheLastAskForNoFile) {
  const FileTensor tensor{"F32", {1}, std::string(4, '\0')};
  const OneFileEach checkpoint(ReadGolden("deepseek_v3"),
                               {{"model.layers.61.mlp.experts.0.up_proj.weight", tensor},
                                {"model.layers.61.eh_proj.weight", tensor}});
  for (const FetchFor reader : {FetchFor::kAttention, FetchFor::kExperts}) {
    const Names wanted = checkpoint.Wanted(reader);
    for (const char* rest : {"mlp.experts.0.up_proj.weight", "eh_proj.weight"}) {
      EXPECT_FALSE(wanted.contains(checkpoint.file_of.at("model.layers.61." + std::string(rest))));
    }
  }
}

TEST(WantedShards, TensorsOfAVisionModelAskForNoFile) {
  const OneFileEach checkpoint(ReadGolden("llama4"));
  const Names wanted = checkpoint.Wanted(FetchFor::kAll);
  for (const char* name :
       {"vision_model.class_embedding", "multi_modal_projector.linear_1.weight"}) {
    EXPECT_FALSE(wanted.contains(checkpoint.file_of.at(name))) << name;
  }
}

TEST(WantedShards, WithoutAnIndexThereIsOneFile) {
  const Golden golden = ReadGolden("mixtral");
  const ModelDescription model = *ParseModelConfig(ReadText(golden.folder + "/config.json"));
  EXPECT_EQ(*WantedShards(golden.folder, model, FetchFor::kExperts), Names{"model.safetensors"});
}

TEST(WantedShards, AnIndexOfAnotherModelIsRefused) {
  const Golden golden = ReadGolden("mixtral");
  const ModelDescription model = *ParseModelConfig(ReadText(golden.folder + "/config.json"));
  const TempFolder folder;
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"transformer.h.0.w": "a.safetensors"}})");
  EXPECT_EQ(WantedShards(folder.path(), model, FetchFor::kExperts).status().message(),
            folder.path() +
                "/model.safetensors.index.json: names no tensor of the experts; is "
                "config.json of the same model?");
  folder.Write("model.safetensors.index.json", "{}");
  EXPECT_EQ(WantedShards(folder.path(), model, FetchFor::kAll).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::dataplane
