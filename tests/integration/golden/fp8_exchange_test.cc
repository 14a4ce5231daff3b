// The cost of an exchange in fp8, and of exact sums: how far the logits of published checkpoints
// move, and what that means for the next token of the demo model, which was trained.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "dataplane/calibrate/calibrate.h"
#include "dataplane/model/load_weights.h"
#include "dataplane/text/tokenizer.h"
#include "tests/support/golden.h"
#include "tests/support/paths.h"

namespace janus::dataplane {
namespace {

// Relative to the range of the logits, root mean square over all positions. Weights are random, so
// the gate's scores lie close together: a row that moves a little may choose another expert. Of a
// model with few experts, single positions then move by a third of the range.
double MovedAtMost(const std::string& family) {
  return family == "mixtral" ? 0.1 : 0.03;
}

class Fp8ExchangeTest : public testing::TestWithParam<const char*> {};

TEST_P(Fp8ExchangeTest, MovesLogitsLittle) {
  const Golden golden = ReadGolden(GetParam());
  const GoldenCase& c = golden.cases[0];
  const auto run = [&](Compression compression) {
    CaseService service{.kernels = BestCpu()};
    service.kernels.compression = compression;
    return *RunCase(golden, c, service, 1);
  };
  const CaseRun plain = run(Compression::kNone);
  const CaseRun packed = run(Compression::kFp8);
  float largest = 0.0f;
  double squares = 0.0;
  size_t count = 0;
  for (const auto& [position, logits] : plain.logits) {
    const std::vector<float>& others = packed.logits.at(position);
    largest = std::max(largest, LargestDifference(others, logits));
    for (size_t i = 0; i < logits.size(); ++i) squares += std::pow(others[i] - logits[i], 2);
    count += logits.size();
  }
  ASSERT_TRUE(std::isfinite(largest));
  const double moved = std::sqrt(squares / static_cast<double>(count)) / c.range;
  EXPECT_LE(moved, MovedAtMost(GetParam()));
  // More than rounding in fp32 would move: rows and contributions were packed.
  EXPECT_GT(largest, golden.tolerance * c.range);
  RecordProperty("moved_of_range", std::to_string(moved));
  std::cout << moved << " of the range, at most " << largest / c.range << '\n';
}

INSTANTIATE_TEST_SUITE_P(All, Fp8ExchangeTest, testing::ValuesIn(kGoldenFamilies),
                         [](const auto& info) { return std::string(info.param); });

// Jane Austen, of the kind that the model was trained on.
constexpr const char* kTexts[] = {
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the feelings or views of such a man may be on "
    "his first entering a neighbourhood, this truth is so well fixed in the minds of the "
    "surrounding families, that he is considered as the rightful property of some one or other of "
    "their daughters. \"My dear Mr. Bennet,\" said his lady to him one day, \"have you heard that "
    "Netherfield Park is let at last?\" Mr. Bennet replied that he had not.",
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home and happy disposition, "
    "seemed to unite some of the best blessings of existence; and had lived nearly twenty-one "
    "years "
    "in the world with very little to distress or vex her. She was the youngest of the two "
    "daughters of a most affectionate, indulgent father; and had, in consequence of her sister's "
    "marriage, been mistress of his house from a very early period.",
    "The family of Dashwood had long been settled in Sussex. Their estate was large, and their "
    "residence was at Norland Park, in the centre of their property, where, for many generations, "
    "they had lived in so respectable a manner as to engage the general good opinion of their "
    "surrounding acquaintance.",
};

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  std::vector<double> out;
  for (const float x : logits) out.push_back(x - most - std::log(sum));
  return out;
}

struct Divergence {
  double kl = 0;         // of the exact distribution to the other, mean, nats
  double agreement = 0;  // positions with the same most likely token
  double loss = 0;       // added to the text's mean negative log likelihood, nats
  int positions = 0;
};

const std::string& DemoFolder() {
  static const std::string folder = test::SourceDir() + "/examples/demo-model";
  return folder;
}

struct Way {
  Compression compression = Compression::kNone;
  FixedPointSums sums = {};
  DType dtype = DType::kBFloat16;
};

// Of the demo model, from one way to the other.
Divergence OfTheDemoModel(const Way& exact, const Way& other) {
  const std::string& folder = DemoFolder();
  const auto tokenizer = *text::Tokenizer::Load(folder + "/tokenizer.json");
  Divergence out;
  for (const char* text : kTexts) {
    GoldenCase c;
    c.prompt = *tokenizer->Encode(text, true);
    const auto run = [&](const Way& way) {
      ModelDescription model = *ParseModelConfig(ReadText(folder + "/config.json"));
      model.dtype = way.dtype;
      c.vocab = model.vocab;
      c.logits.resize(c.prompt.size() * static_cast<size_t>(c.vocab));
      CaseService service{.kernels = BestCpu()};
      service.kernels.compression = way.compression;
      service.sums = way.sums;
      return *RunCase(folder, c, model, service, 1);
    };
    const CaseRun plain = run(exact);
    const CaseRun packed = run(other);
    EXPECT_EQ(plain.logits.size(), c.prompt.size());
    for (const auto& [position, logits] : plain.logits) {
      const std::vector<float>& others = packed.logits.at(position);
      const std::vector<double> p = LogSoftmax(logits), q = LogSoftmax(others);
      for (size_t i = 0; i < p.size(); ++i) out.kl += std::exp(p[i]) * (p[i] - q[i]);
      const auto best = [](const std::vector<float>& of) {
        return std::max_element(of.begin(), of.end()) - of.begin();
      };
      out.agreement += best(logits) == best(others) ? 1 : 0;
      const auto next = static_cast<size_t>(position) + 1;
      if (next < c.prompt.size()) {
        const auto token = static_cast<size_t>(c.prompt[next]);
        out.loss += p[token] - q[token];
      }
      ++out.positions;
    }
  }
  out.kl /= out.positions;
  out.agreement /= out.positions;
  out.loss /= out.positions - static_cast<int>(std::size(kTexts));
  return out;
}

TEST(Fp8ExchangeOfTheDemoModel, KeepsTheNextToken) {
  const Divergence d = OfTheDemoModel({}, {.compression = Compression::kFp8});
  std::cout << "demo model, exchange in fp8: KL " << d.kl << " nats, top-1 agreement "
            << d.agreement << ", loss " << (d.loss < 0 ? "" : "+") << d.loss << " nats, "
            << d.positions << " positions\n";
  RecordProperty("kl", std::to_string(d.kl));
  RecordProperty("agreement", std::to_string(d.agreement));
  EXPECT_GT(d.positions, 250);
  EXPECT_GT(d.kl, 1e-6) << "nothing was packed";
  EXPECT_LT(d.kl, 0.01);
  EXPECT_GE(d.agreement, 0.95);
  EXPECT_LT(std::abs(d.loss), 0.01);
}

// Calibrated as `janusctl calibrate` does it: on other texts than those that are compared.
FixedPointSums CalibratedSums(int bits) {
  const std::string& folder = DemoFolder();
  const ModelDescription model = *ParseModelConfig(ReadText(folder + "/config.json"));
  const auto tokenizer = *text::Tokenizer::Load(folder + "/tokenizer.json");
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : CalibrationTexts()) {
    prompts.push_back(*tokenizer->Encode(text, true));
  }
  Topology all;
  all.placement.layers = model.moe_layers();
  all.placement.slots_of_instance = {model.moe.experts};
  for (int i = 0; i < model.moe_layers() * model.moe.experts; ++i) {
    all.placement.expert_of.push_back(static_cast<uint16_t>(i % model.moe.experts));
  }
  const auto attention = *LoadAttention(folder, model, nullptr, {});
  const auto experts = *LoadExperts(folder, model, all.placement, Rank{0}, nullptr, {});
  kernels::Team team(1);
  const kernels::Stream stream{BestCpu().device, &team, BestCpu().isa, nullptr};
  return *ChooseExponents(
      *MeasureContributions(model, attention.weights, experts.weights, prompts, stream), bits,
      model.moe.top_k);
}

// Beside bfloat16: both ways are compared with the model in fp32 weights and rows.
TEST(ExactSumsOfTheDemoModel, MoveTheNextTokenLessThanRoundingDoes) {
  const Divergence beside = OfTheDemoModel({.dtype = DType::kFloat32}, {});
  for (const int bits : {32, 24}) {
    const FixedPointSums sums = CalibratedSums(bits);
    for (const int8_t exponent : sums.exponents) EXPECT_LT(exponent, -8);
    const Divergence from_exact = OfTheDemoModel({.dtype = DType::kFloat32}, {.sums = sums});
    const Divergence d = OfTheDemoModel({}, {.sums = sums});
    std::cout << "demo model, sums of " << bits << " bits beside contributions in bf16: KL " << d.kl
              << " nats, top-1 agreement " << d.agreement << ", loss " << (d.loss < 0 ? "" : "+")
              << d.loss << " nats, " << d.positions << " positions; KL from fp32: " << from_exact.kl
              << ", of contributions " << beside.kl << "\n";
    EXPECT_GT(d.positions, 250);
    EXPECT_GT(d.kl, 1e-9) << "nothing was added";
    EXPECT_LT(d.kl, 0.001);
    EXPECT_GE(d.agreement, 0.97);
    EXPECT_LT(std::abs(d.loss), 0.005);
    // Rows are in bf16 in all of them; sums have at least the bits of a contribution in bf16.
    EXPECT_LT(from_exact.kl, 1.25 * beside.kl);
  }
}

}  // namespace
}  // namespace janus::dataplane
