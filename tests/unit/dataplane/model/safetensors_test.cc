#include "dataplane/model/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

Result<SafetensorsHeader> Parse(const std::string& bytes) {
  return ParseSafetensors({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                          "the.file");
}

TEST(Safetensors, ReadsNamesShapesAndBytes) {
  FileTensors tensors;
  tensors["a"] = RandomTensor(DType::kFloat32, {2, 3}, 1);
  tensors["b"] = RandomTensor(DType::kBFloat16, {5}, 2);
  tensors["scalar"] = RandomTensor(DType::kFloat16, {}, 3);
  tensors["empty"] = RandomTensor(DType::kFloat16, {0, 7}, 3);
  const std::string bytes = SafetensorsBytes(tensors);
  const Result<SafetensorsHeader> header = Parse(bytes);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  for (const auto& [name, tensor] : tensors) {
    const StoredTensor& stored = header->tensors.at(name);
    EXPECT_EQ(stored.shape, tensor.shape);
    ASSERT_EQ(stored.bytes.size(), tensor.bytes.size());
    EXPECT_EQ(std::memcmp(stored.bytes.data(), tensor.bytes.data(), tensor.bytes.size()), 0);
  }
  EXPECT_EQ(header->tensors.at("b").dtype, DType::kBFloat16);
}

TEST(Safetensors, KeepsForeignFormatsByName) {
  FileTensors tensors;
  tensors["a"] = RandomTensor(DType::kFloat32, {2}, 1);
  tensors["ids"] = {"I64", {1}, std::string(8, '\0')};
  tensors["small"] = {"F8_E5M2", {3}, std::string(3, '\0')};
  const Result<SafetensorsHeader> header = Parse(SafetensorsBytes(tensors));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->tensors.size(), 1u);
  EXPECT_EQ(header->foreign.at("ids"), "I64");
  EXPECT_EQ(header->foreign.at("small"), "F8_E5M2");
}

TEST(Safetensors, HasBytesBesideWhatItHasNumbersOf) {
  FileTensors tensors;
  tensors["codes"] = {"U8", {2, 3}, "abcdef"};
  const std::string file = SafetensorsBytes(tensors);
  const Result<SafetensorsHeader> header = Parse(file);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_TRUE(header->tensors.empty());
  EXPECT_EQ(header->foreign.at("codes"), "U8") << "for who asks for numbers";
  const StoredTensor& stored = header->bytes.at("codes");
  EXPECT_EQ(stored.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(stored.bytes.size(), 6u);
  EXPECT_EQ(std::memcmp(stored.bytes.data(), "abcdef", 6), 0);
  tensors["codes"].shape = {2, 4};
  const std::string longer = SafetensorsBytes(tensors);
  const Result<SafetensorsHeader> broken = Parse(longer);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.status().message().find("shape [2,4] of U8 does not fill its 6 bytes"),
            std::string::npos)
      << broken.status().ToString();
}

struct Broken {
  std::string name;
  std::string bytes;
  std::string says;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}
std::string Length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

class BrokenTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTest, IsRefusedNamingTheFileAndWhat) {
  const Result<SafetensorsHeader> header = Parse(GetParam().bytes);
  ASSERT_EQ(header.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(header.status().message(), "the.file"));
  EXPECT_TRUE(Contains(header.status().message(), GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenTest,
    testing::Values(
        Broken{"Empty", "", "too short"}, Broken{"SevenBytes", std::string(7, 'x'), "too short"},
        Broken{"AbsurdHeaderLength", Length(UINT64_MAX, "{}"), "header claims"},
        Broken{"HeaderLongerThanFile", Length(3, "{}"), "header claims"},
        Broken{"HugeHeader", Length(uint64_t{200} << 20, "{}"), "header claims"},
        Broken{"GitLfsPointer",
               "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
               "is a git-LFS pointer, not the file itself; fetch it: git lfs pull"},
        Broken{"NoJson", SafetensorsBytes("{\"a\":", ""), "not a JSON object"},
        Broken{"JsonList", SafetensorsBytes("[1]", ""), "not a JSON object"},
        Broken{"InvalidUtf8", SafetensorsBytes("{\"\xff\":1}", ""), "not a JSON object"},
        Broken{"DeepJson", SafetensorsBytes(std::string(100'000, '['), ""), "not a JSON object"},
        Broken{"EntryIsNumber", SafetensorsBytes("{\"a\":3}", ""), "tensor 'a'"},
        Broken{"NoDtype", SafetensorsBytes(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234"),
               "has no dtype"},
        Broken{"DtypeIsNumber",
               SafetensorsBytes(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", "1234"),
               "has no dtype"},
        Broken{"NoShape", SafetensorsBytes(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"),
               "malformed"},
        Broken{
            "NegativeExtent",
            SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
            "malformed"},
        Broken{
            "FractionalExtent",
            SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234"),
            "malformed"},
        Broken{"OneOffset",
               SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234"),
               "malformed"},
        Broken{
            "OffsetsReversed",
            SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
            "malformed"},
        Broken{
            "NegativeOffset",
            SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234"),
            "malformed"},
        Broken{
            "BeyondTheEnd",
            SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234"),
            "truncated"},
        Broken{
            "OffsetsOverflow",
            SafetensorsBytes(
                R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]}})",
                "1234"),
            "truncated"},
        Broken{"ShapeDoesNotFill",
               SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                                "12345678"),
               "does not fill"},
        Broken{"ShapeOverflows",
               SafetensorsBytes(
                   R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                   ""),
               "does not fill"},
        Broken{
            "TensorsShareBytes",
            SafetensorsBytes(
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                "123456"),
            "tensors 'a' and 'b' share bytes"},
        Broken{"ExtentBeyondInt64",
               SafetensorsBytes(
                   R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
                   "1234"),
               "does not fill"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, TruncatedAnywhereItIsRefusedOrHoldsOnlyWhatIsThere) {
  FileTensors tensors;
  tensors["a"] = RandomTensor(DType::kFloat32, {4}, 1);
  tensors["b"] = RandomTensor(DType::kFloat32, {2}, 2);
  const std::string bytes = SafetensorsBytes(tensors);
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A buffer of exactly that size, so that a sanitizer sees a read beyond it.
    const std::string cut(bytes.data(), size);
    EXPECT_EQ(Parse(cut).status().code(), StatusCode::kInvalidArgument) << size;
  }
}

TEST(Safetensors, AnyDamageToTheHeaderIsSafe) {
  FileTensors tensors;
  tensors["a"] = RandomTensor(DType::kFloat32, {4}, 1);
  const std::string bytes = SafetensorsBytes(tensors);
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = bytes;
    for (int i = random.Between(1, 4); i > 0; --i) {
      damaged[static_cast<size_t>(random.Between(0, static_cast<int>(bytes.size()) - 1))] =
          static_cast<char>(random.Next());
    }
    const Result<SafetensorsHeader> header = Parse(damaged);
    if (!header.ok()) continue;
    for (const auto& [name, stored] : header->tensors) {
      const auto* begin = reinterpret_cast<const std::byte*>(damaged.data());
      EXPECT_GE(stored.bytes.data(), begin);
      EXPECT_LE(stored.bytes.data() + stored.bytes.size(), begin + damaged.size());
    }
  }
}

TEST(Checkpoint, AFolderWithoutWeightsSaysWhatItWants) {
  const TempFolder folder;
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_EQ(checkpoint.status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Contains(checkpoint.status().message(), folder.path()));
  EXPECT_TRUE(Contains(checkpoint.status().message(), "--model"));
}

TEST(Checkpoint, ABrokenIndexIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 3}})",
                           R"({"metadata": {}, "weight_map": {}})"}) {
    const TempFolder folder;
    folder.Write("model.safetensors.index.json", text);
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_EQ(checkpoint.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(Contains(checkpoint.status().message(), "weight_map"));
  }
}

TEST(Checkpoint, ATensorNamedTwiceIsRefused) {
  const TempFolder folder;
  folder.Write("model.safetensors.index.json",
               R"({"metadata": {"total_size": 8}, "weight_map": {"a": "x", "b": "x", "a": "y"}})");
  EXPECT_EQ(Checkpoint::Open(folder.path()).status().message(),
            folder.path() + "/model.safetensors.index.json: names tensor 'a' twice");
  const std::string header = R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},)"
                             R"( "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},)"
                             R"( "a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})";
  const uint64_t length = header.size();
  const std::string file = std::string(reinterpret_cast<const char*>(&length), sizeof length) +
                           header + std::string(12, '\0');
  EXPECT_EQ(ParseSafetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "file")
                .status()
                .message(),
            "file: names tensor 'a' twice");
}

TEST(Checkpoint, AnIndexCannotPointOutOfItsFolder) {
  const TempFolder outside;
  FileTensors tensors;
  tensors["a"] = RandomTensor(DType::kFloat32, {2}, 1);
  outside.Write("secret.safetensors", SafetensorsBytes(tensors));
  for (const std::string& path :
       {outside.path() + "/secret.safetensors",
        "../" + outside.path().substr(outside.path().rfind('/') + 1) + "/secret.safetensors",
        std::string(".."), std::string("."), std::string()}) {
    const TempFolder folder;
    folder.Write("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"" + path + "\"}}");
    const auto checkpoint = Checkpoint::Open(folder.path());
    const Status status = checkpoint.ok() ? (*checkpoint)->Find("a").status() : checkpoint.status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path << ": " << status.ToString();
    EXPECT_TRUE(Contains(status.message(), folder.path()));
  }
}

}  // namespace
}  // namespace janus::dataplane
