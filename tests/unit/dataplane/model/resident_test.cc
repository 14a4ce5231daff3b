// A role touches only its own weights. The test measures which pages of the mapped checkpoint are
// resident in this process.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dataplane/model/load_weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::dataplane {
namespace {

// Bytes of `file` that are mapped and resident here.
int64_t ResidentOf(const std::string& file) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool of_file = false;
  int64_t bytes = 0;
  while (std::getline(smaps, line)) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.find('-') != std::string::npos && first.back() != ':') {
      of_file = line.find(file) != std::string::npos;
    } else if (of_file && first == "Rss:") {
      bytes += std::stoll(second) * 1024;
    }
  }
  return bytes;
}

class ResidentTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    model_ = SmallModelDescription(DType::kFloat32);
    model_.hidden = 512;
    model_.vocab = 2000;
    model_.layers = 3;
    model_.moe.experts = 16;
    model_.moe.intermediate = 336;
    // All zeros: only the places in the file matter.
    nlohmann::json header;
    uint64_t end = 0;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      uint64_t bytes = 4;
      for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
      end += bytes;
      (name.find("experts") != std::string::npos ? expert_bytes_ : other_bytes_) +=
          static_cast<int64_t>(bytes);
    };
    for (const auto& [name, shape] : ShapesOf(model_)) add(name, shape);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::string head = SafetensorsBytes(text, "");
    std::ofstream out(folder_->path() + "/model.safetensors", std::ios::binary);
    out << head;
    const std::string zeros(1 << 20, '\0');
    for (uint64_t at = 0; at < end; at += zeros.size()) {
      out.write(zeros.data(),
                static_cast<std::streamsize>(std::min<uint64_t>(zeros.size(), end - at)));
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::vector<std::pair<std::string, std::vector<int64_t>>> ShapesOf(
      const ModelDescription& model) {
    const int64_t h = model.hidden, i = model.moe.intermediate;
    const int64_t q = int64_t{model.attention.heads} * model.attention.head_dim;
    const int64_t kv = int64_t{model.attention.kv_heads} * model.attention.head_dim;
    std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
        {"model.embed_tokens.weight", {model.vocab, h}},
        {"model.norm.weight", {h}},
        {"lm_head.weight", {model.vocab, h}}};
    for (int l = 0; l < model.layers; ++l) {
      const std::string layer = "model.layers." + std::to_string(l) + ".";
      shapes.push_back({layer + "input_layernorm.weight", {h}});
      shapes.push_back({layer + "self_attn.q_proj.weight", {q, h}});
      shapes.push_back({layer + "self_attn.k_proj.weight", {kv, h}});
      shapes.push_back({layer + "self_attn.v_proj.weight", {kv, h}});
      shapes.push_back({layer + "self_attn.o_proj.weight", {h, q}});
      shapes.push_back({layer + "post_attention_layernorm.weight", {h}});
      shapes.push_back({layer + "block_sparse_moe.gate.weight", {model.moe.experts, h}});
      for (int e = 0; e < model.moe.experts; ++e) {
        const std::string expert = layer + "block_sparse_moe.experts." + std::to_string(e) + ".";
        shapes.push_back({expert + "w1.weight", {i, h}});
        shapes.push_back({expert + "w3.weight", {i, h}});
        shapes.push_back({expert + "w2.weight", {h, i}});
      }
    }
    return shapes;
  }

  static TempFolder* folder_;
  static ModelDescription model_;
  static int64_t expert_bytes_;
  static int64_t other_bytes_;
};
TempFolder* ResidentTest::folder_ = nullptr;
ModelDescription ResidentTest::model_;
int64_t ResidentTest::expert_bytes_ = 0;
int64_t ResidentTest::other_bytes_ = 0;

// A page fault also maps pages around it from the page cache: up to this many bytes for each piece
// of the file that is read.
constexpr int64_t kAroundPiece = int64_t{512} << 10;

TEST_F(ResidentTest, AttentionDoesNotTouchTheRoutedExperts) {
  ASSERT_GT(expert_bytes_, int64_t{90} << 20);
  const auto loaded = LoadAttention(folder_->path(), model_, nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const int64_t resident = ResidentOf(folder_->path());
  EXPECT_GE(resident, static_cast<int64_t>(loaded->bytes)) << "every value was read";
  // Header, embedding with head and norm, and a piece per layer.
  EXPECT_LE(resident, other_bytes_ + (2 + model_.layers) * kAroundPiece);
}

TEST_F(ResidentTest, AnExpertInstanceTouchesItsOwnSlots) {
  const Topology topology = MakeTopology(1, {4, 4, 8}, model_.layers, model_.moe.experts);
  const auto loaded =
      LoadExperts(folder_->path(), model_, topology.placement, Rank{1}, nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const int64_t resident = ResidentOf(folder_->path());
  EXPECT_GE(resident, expert_bytes_ / 4);
  // Header, and per layer the gate and four experts.
  EXPECT_LE(resident, expert_bytes_ / 4 + (1 + model_.layers * 5) * kAroundPiece);
}

TEST_F(ResidentTest, NothingStaysWhenTheWeightsGo) {
  { ASSERT_TRUE(LoadAttention(folder_->path(), model_, nullptr, {}).ok()); }
  EXPECT_EQ(ResidentOf(folder_->path()), 0);
}

}  // namespace
}  // namespace janus::dataplane
