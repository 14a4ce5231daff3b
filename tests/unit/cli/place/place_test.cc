#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/place/command.h"
#include "cli/place/routing_file.h"
#include "cli/plan/inputs.h"
#include "tests/support/paths.h"

namespace janus::cli {
namespace {

class PlaceFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("place_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const char* name, const char* text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string ErrorOf(const char* text) {
    return ReadRouting(Write("broken.csv", text), 0).status().message();
  }

  std::filesystem::path folder_;
};

TEST_F(PlaceFiles, ReadsAFoldersFilesInOrder) {
  Write("a.csv", "seq,token,layer3,layer7\n0,0,1 2,0 3\n");
  Write("b.csv", "seq,token,layer3,layer7\n0,1,3 0,2 1\n");
  const auto layers = ReadRouting(folder_.string(), 0);
  ASSERT_TRUE(layers.ok()) << layers.status().ToString();
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_EQ((*layers)[0].ids, (std::vector<uint16_t>{1, 2, 3, 0}));
  EXPECT_EQ((*layers)[1].ids, (std::vector<uint16_t>{0, 3, 2, 1}));
  EXPECT_EQ((*layers)[0].experts, 4);
  EXPECT_EQ((*layers)[0].top_k, 2);
}

TEST_F(PlaceFiles, AFoldersFilesMeasureTheSameLayers) {
  Write("a.csv", "layer0,layer1\n1 2,0 3\n");
  Write("b.csv", "layer5,layer9\n3 0,2 1\n");
  const Status status = ReadRouting(folder_.string(), 0).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(
      status.message().find("b.csv: has the layers layer5, layer9, but the files before it have "
                            "layer0, layer1; all files of a folder must have the same layers"),
      std::string::npos)
      << status.message();
  // Columns in another order are the same layers.
  Write("b.csv", "layer1,layer0\n3 0,2 1\n");
  const auto layers = ReadRouting(folder_.string(), 0);
  ASSERT_TRUE(layers.ok()) << layers.status().ToString();
  EXPECT_EQ((*layers)[0].ids, (std::vector<uint16_t>{1, 2, 2, 1}));
  EXPECT_EQ((*layers)[1].ids, (std::vector<uint16_t>{0, 3, 3, 0}));
}

// Every layer must belong to the model, not only the first.
TEST_F(PlaceFiles, ALayerOfAnotherModelIsRefused) {
  std::string text = "layer0,layer1\n";
  for (int i = 0; i < 8; ++i) {
    const std::string two = std::to_string(i) + " " + std::to_string((i + 1) % 8);
    text += two + "," + two + " " + std::to_string((i + 2) % 8) + "\n";
  }
  SettingOptions options;
  options.model = "mixtral-8x22b";  // 2 of 8
  options.routing = Write("a.csv", text.c_str());
  const Status status = ReadSetting(options).status();
  EXPECT_NE(status.message().find(
                "layer 1: routes to 3 of 8 experts, but mixtral-8x22b routes to 2 of 8"),
            std::string::npos)
      << status.message();
  std::string wide = "layer0";
  std::string row = "0 1";
  for (int l = 1; l < 57; ++l) {
    wide += ",layer" + std::to_string(l);
    row += ",6 7";
  }
  options.routing = Write("wide.csv", (wide + "\n" + row + "\n").c_str());
  EXPECT_NE(ReadSetting(options).status().message().find(
                "has 57 layers, but mixtral-8x22b has 56 layers with"),
            std::string::npos)
      << ReadSetting(options).status().message();
}

TEST_F(PlaceFiles, SaysWhatIsWrongWithAFile) {
  EXPECT_NE(ErrorOf("seq,token\n0,0\n").find("line 1: want columns layer<number>"),
            std::string::npos);
  EXPECT_NE(ErrorOf("layer1\n1 2\n1 x\n").find("line 3: column layer1 is '1 x'; want 2 expert ids"),
            std::string::npos);
  EXPECT_NE(ErrorOf("layer1\n1 2\n1\n").find("line 3"), std::string::npos);
  // For the first row it is not known yet how many ids a token has.
  for (const char* row : {"1 nan", "1 70000", "1 -2"}) {
    EXPECT_NE(
        ErrorOf((std::string("layer1\n") + row + "\n").c_str())
            .find(std::string("is '") + row + "'; want expert ids from 0 to 65535, separated"),
        std::string::npos)
        << row;
  }
  EXPECT_NE(ErrorOf("layer1\n1 1\n").find("layer 0: routing: token 0 chose expert 1 twice"),
            std::string::npos);
  EXPECT_NE(ErrorOf("layer1\n-3\n").find("line 2"), std::string::npos);
  EXPECT_EQ(ReadRouting((folder_ / "none").string(), 0).status().code(), StatusCode::kNotFound);
}

TEST_F(PlaceFiles, AnExpertBeyondTheModelIsRefused) {
  const std::string path = Write("a.csv", "layer0\n5 2\n");
  EXPECT_NE(ReadRouting(path, 4).status().message().find("chose expert 5 of 4"), std::string::npos);
}

// On real decode routing, judged on the unused half, with 50 % spare slots and 8 instances.
TEST(Place, SearchBeatsThePaperOnUnseenRoutingOfARealModel) {
  PlaceOptions options;
  options.routing = test::SourceDir() + "/data/routing/gptoss20b_decode/part0.csv.gz";
  options.instances = 8;
  options.slots_per_instance = 6;
  options.batch = 16;
  options.evaluations = 200;
  options.json = true;
  const Result<std::string> text = Place(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto json = nlohmann::json::parse(*text);
  double coactivation = 0;
  double search = 0;
  for (const auto& judged : json["judged"]) {
    if (judged["method"] == "coactivation") coactivation = judged["busiestActivatedExperts"];
    if (judged["method"] == "search") search = judged["busiestActivatedExperts"];
  }
  EXPECT_LT(search, coactivation);
  EXPECT_GT(search, json["activatedExperts"].get<double>() / 8);
  EXPECT_EQ(json["expertsOfInstance"].size(), 24u);
  EXPECT_EQ(json["expertsOfInstance"][0].size(), 8u);
}

TEST(Place, SaysWhatToChange) {
  PlaceOptions options;
  options.routing = test::SourceDir() + "/data/routing/deepseek_v2_lite_law.csv";
  options.method = "magic";
  EXPECT_EQ(Place(options).status().message(),
            "--method magic: want best, round-robin, rows, coactivation or search");
  options.method = "search";
  options.slots_per_instance = 4;
  EXPECT_NE(Place(options).status().message().find("raise slotsPerInstance to 8"),
            std::string::npos);
}

}  // namespace
}  // namespace janus::cli
