#include "dataplane/attention/rope_table.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

RopeDescription Rope(double theta, int dim) {
  RopeDescription rope;
  rope.theta = theta;
  rope.rotary_dim = dim;
  return rope;
}

void ExpectTable(const RopeDescription& rope, const std::vector<float>& want) {
  const std::vector<float> got = InverseFrequencies(rope);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1.0f, 3e-7f) << i;
}

TEST(RopeTable, PlainPairsFallByPowersOfTheta) {
  ExpectTable(Rope(10000.0, 8), {1.0f, 0.1f, 0.01f, 0.001f});
}

// With theta 10000 a pair turns 8192 / (2 pi) = 1304, 130.4, 13.04 and 1.304 times within 8192
// positions. The second keeps its frequency, the last has a share of (1.304 - 1) / (4 - 1) of it.
TEST(RopeTable, Llama3DividesWhatTurnsSeldom) {
  RopeDescription rope = Rope(10000.0, 8);
  rope.llama3 = Llama3RopeDescription{.factor = 8.0, .original_positions = 8192.0};
  const double turns = 8192.0 / (2 * 3.14159265358979 * 1000.0);
  const double kept = (turns - 1.0) / 3.0;
  ExpectTable(rope, {1.0f, 0.1f, 0.01f, static_cast<float>(0.001 * (kept + (1.0 - kept) / 8.0))});
  rope.llama3->original_positions = 2048.0;  // the last one turns 0.3 times
  ExpectTable(rope, {1.0f, 0.1f,
                     static_cast<float>(0.01 * ((2048.0 / 628.318530718 - 1.0) / 3.0 +
                                                (4.0 - 2048.0 / 628.318530718) / 24.0)),
                     0.001f / 8.0f});
  rope.llama3->low_turns = 4.0;  // nothing lies between
  ExpectTable(rope, {1.0f, 0.1f, 0.01f / 8.0f, 0.001f / 8.0f});
}

TEST(RopeTable, TheTemperatureRisesWithTheLogarithmOfItsSteps) {
  const std::vector<float> factors = TemperatureFactors({.scale = 0.1, .floor = 8192}, 20000);
  ASSERT_EQ(factors.size(), 3u) << "of positions up to 8190, 16382 and 19999";
  EXPECT_EQ(factors[0], 1.0f);
  EXPECT_FLOAT_EQ(factors[1], 1.06931472f);
  EXPECT_FLOAT_EQ(factors[2], 1.10986123f);
}

// Values of transformers 5.23.0 for DeepSeek-V2's published file: pairs up to 10 keep their
// frequency, and from 23 on it is divided by 40.
TEST(RopeTable, YarnIsThatOfDeepseekV2) {
  RopeDescription rope = Rope(10000.0, 64);
  rope.yarn = YarnDescription{.factor = 40.0, .original_positions = 4096.0};
  ExpectTable(rope, {1.0f,
                     0.749894202f,
                     0.562341332f,
                     0.421696514f,
                     0.316227764f,
                     0.237137362f,
                     0.177827939f,
                     0.133352146f,
                     0.100000001f,
                     0.0749894157f,
                     0.0562341288f,
                     0.0390069261f,
                     0.0268793609f,
                     0.0183781441f,
                     0.012447956f,
                     0.0083345091f,
                     0.00550000044f,
                     0.00356199732f,
                     0.00224936521f,
                     0.00137051346f,
                     0.000790569407f,
                     0.000414990413f,
                     0.00017782794f,
                     3.3338034e-05f,
                     2.49999994e-05f,
                     1.87473543e-05f,
                     1.40585325e-05f,
                     1.05424124e-05f,
                     7.90569447e-06f,
                     5.92843435e-06f,
                     4.44569832e-06f,
                     3.33380353e-06f});
}

TEST(RopeTable, YarnsRampFollowsItsBetas) {
  RopeDescription rope = Rope(100.0, 16);
  rope.yarn = YarnDescription{.factor = 4.0, .original_positions = 128.0, .beta_fast = 4.0};
  ExpectTable(rope, {1.0f, 0.562341332f, 0.316227764f, 0.144485191f, 0.0625f, 0.0246024318f,
                     0.00790569466f, 0.00444569858f});
}

}  // namespace
}  // namespace janus::dataplane
