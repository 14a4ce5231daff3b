#include "dataplane/gateway/content_coding.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

std::string Deflated(std::string_view text, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Encoded(ContentCoding coding, std::string_view text) {
  if (coding == ContentCoding::kGzip) return Deflated(text, 16 + MAX_WBITS);
  if (coding == ContentCoding::kDeflate) return Deflated(text, MAX_WBITS);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

constexpr ContentCoding kCodings[] = {ContentCoding::kGzip, ContentCoding::kDeflate,
                                      ContentCoding::kZstd};

TEST(ContentCoding, KnowsTheNamesThatItTakes) {
  EXPECT_EQ(ParseContentCoding(""), ContentCoding::kIdentity);
  EXPECT_EQ(ParseContentCoding("GZip"), ContentCoding::kGzip);
  EXPECT_EQ(ParseContentCoding("zstd"), ContentCoding::kZstd);
  EXPECT_EQ(ParseContentCoding("br"), std::nullopt);
  EXPECT_EQ(ParseContentCoding("gzip, zstd"), std::nullopt);
}

TEST(ContentCoding, DecodesUpToTheBound) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{300'000}}) {
    const std::string text(size, 'x');
    for (const ContentCoding coding : kCodings) {
      EXPECT_EQ(Decode(coding, Encoded(coding, text), size).value(), text);
      if (size == 0) continue;
      const Result<std::string> larger = Decode(coding, Encoded(coding, text), size - 1);
      EXPECT_EQ(larger.status().code(), StatusCode::kResourceExhausted);
    }
  }
}

TEST(ContentCoding, TakesDeflateWithoutItsHeader) {
  EXPECT_EQ(Decode(ContentCoding::kDeflate, Deflated("hello", -MAX_WBITS), 100).value(), "hello");
}

TEST(ContentCoding, NamesTheCodingOfABrokenBody) {
  const char* names[] = {"gzip", "deflate", "zstd"};
  for (size_t i = 0; i < std::size(kCodings); ++i) {
    const std::string whole = Encoded(kCodings[i], "a body of some length, and more");
    for (const std::string& broken :
         {std::string(), whole.substr(0, whole.size() - 1), whole.substr(0, 5), whole + "x",
          std::string("plain text, not compressed")}) {
      const Result<std::string> got = Decode(kCodings[i], broken, 1000);
      ASSERT_FALSE(got.ok()) << names[i] << " " << broken.size();
      EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
      EXPECT_TRUE(Contains(got.status().message(), names[i]));
    }
  }
}

}  // namespace
}  // namespace janus::gateway
