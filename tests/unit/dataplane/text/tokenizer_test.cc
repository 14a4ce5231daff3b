#include "dataplane/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "dataplane/text/abi.h"
#include "dataplane/text/text_buffer.h"
#include "small_tokenizer.h"
#include "tests/support/contains.h"

namespace janus::text {
namespace {

using Ids = std::vector<int32_t>;

TEST(Tokenizer, EncodesWithAndWithoutWhatThePostProcessorAdds) {
  const auto tokenizer = SmallTokenizer();
  EXPECT_EQ(tokenizer->Encode("a b", true).value(), (Ids{10, 0, 1}));
  EXPECT_EQ(tokenizer->Encode("a b", false).value(), (Ids{0, 1}));
  EXPECT_EQ(tokenizer->Encode("", false).value(), (Ids{}));
}

TEST(Tokenizer, ReadsSpecialTokensSpelledInText) {
  EXPECT_EQ(SmallTokenizer()->Encode("a<s>a", false).value(), (Ids{0, 10, 0}));
}

TEST(Tokenizer, NeverTruncates) {  // the file asks for max_length 2
  EXPECT_EQ(SmallTokenizer()->Encode(std::string(100, 'a'), false).value().size(), 100u);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8NamingTheByte) {
  const auto got = SmallTokenizer()->Encode("ab\xff", true);
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(got.status().message(), "byte 2"));
}

TEST(Tokenizer, DecodesAndSkipsSpecialTokensOnRequest) {
  const auto tokenizer = SmallTokenizer();
  const std::vector<int32_t> ids = {10, 0, 1, 2, 3};
  EXPECT_EQ(tokenizer->Decode(ids, true).value(), "a b\u00e9");
  EXPECT_EQ(tokenizer->Decode(ids, false).value(), "<s>a b\u00e9");
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabularyWhenDecoding) {
  for (const int32_t id : {11, -1, std::numeric_limits<int32_t>::max()}) {
    const auto got = SmallTokenizer()->Decode(std::vector<int32_t>{0, id}, true);
    EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument) << id;
    EXPECT_TRUE(Contains(got.status().message(), "is not below the vocabulary's 11")) << id;
  }
}

TEST(Tokenizer, KnowsItsVocabulary) {
  const auto tokenizer = SmallTokenizer();
  EXPECT_EQ(tokenizer->vocabulary_size(), 11);
  EXPECT_EQ(tokenizer->id_limit(), 11);
  EXPECT_EQ(tokenizer->TokenToId("<s>").value(), 10);
  EXPECT_EQ(tokenizer->TokenToId("nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tokenizer->IdToToken(1).value(), "\u0120b");
  EXPECT_EQ(tokenizer->IdToToken(11).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(tokenizer->IsSpecial(10));
  EXPECT_FALSE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
}

TEST(Tokenizer, SpellsTheBytesOfAToken) {
  const auto tokenizer = SmallTokenizer();
  EXPECT_EQ(tokenizer->TokenBytes(1).value(), " b");
  EXPECT_EQ(tokenizer->TokenBytes(4).value(), "\xa9\xc3");
  EXPECT_EQ(tokenizer->TokenBytes(10).value(), "<s>");
  const auto fallback = ByteFallbackTokenizer();
  EXPECT_EQ(fallback->TokenBytes(0xf0).value(), "\xf0");
  EXPECT_EQ(fallback->TokenBytes(256).value(), " a");
}

struct Broken {
  const char* name;
  std::string json;
  const char* message;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

class BrokenTokenizer : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTokenizer, IsRefusedNamingFileAndFault) {
  const auto got = Tokenizer::FromJson(GetParam().json, "m/tokenizer.json");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(got.status().message().starts_with("m/tokenizer.json: ")) << got.status().message();
  EXPECT_TRUE(Contains(got.status().message(), GetParam().message));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenTokenizer,
    testing::Values(
        Broken{"Empty", "", "EOF while parsing"},
        Broken{"Truncated", kSmallTokenizer.substr(0, kSmallTokenizer.size() / 2), "EOF"},
        Broken{"NotUtf8", "{\"a\": \"\xc3\x28\"}", "not UTF-8: byte 7"},
        Broken{"AnotherJson", "{\"hidden_size\": 64}", "not a tokenizer"},
        Broken{"UnknownModel", Replaced(kSmallTokenizer, "\"BPE\"", "\"Magic\""),
               "the model is of type 'Magic'"},
        Broken{"HugeId", Replaced(kSmallTokenizer, "\"a\": 0", "\"a\": 4000000000"),
               "beyond the 16777216 supported"},
        Broken{"PostProcessorsId", Replaced(kSmallTokenizer, "\"ids\": [10]", "\"ids\": [11]"),
               "post_processor adds the id 11, which no token has"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Tokenizer, NamesAMissingFile) {
  const auto got = Tokenizer::Load("/nonexistent/tokenizer.json");
  EXPECT_EQ(got.status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Contains(got.status().message(), "/nonexistent/tokenizer.json"));
}

TEST(Tokenizer, IsUsedByManyThreadsAtOnce) {
  const auto tokenizer = SmallTokenizer();
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(tokenizer->Encode("a b", true).value(), (Ids{10, 0, 1}));
      }
    });
  }
}

TEST(RustBorder, TurnsAPanicIntoInternal) {
  TextBuffer error;
  EXPECT_EQ(janus_text_panic_for_test(error.out()), 13);
  EXPECT_TRUE(Contains(error.str(), "asked for by the test"));
}

}  // namespace
}  // namespace janus::text
