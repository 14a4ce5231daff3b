#include "dataplane/gateway/content_coding.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

namespace janus::gateway {

namespace {

constexpr size_t kPiece = 64 << 10;

// Memory that a frame may request, whatever its header says: the format's own recommendation.
constexpr int kZstdWindowLog = 23;

Status Broken(std::string_view coding, std::string_view why) {
  return InvalidArgument("the body is not valid " + std::string(coding) + ": " + std::string(why));
}

Status TooLarge(size_t most) {
  return ResourceExhausted("the body decodes to more than " + std::to_string(most) + " bytes");
}

// Makes room for the next piece, but for at most one byte beyond `most`.
size_t Room(std::string* out, size_t filled, size_t most) {
  const size_t room = std::min(kPiece, most + 1 - filled);
  out->resize(filled + room);
  return room;
}

Result<std::string> Inflate(std::string_view body, int window_bits, std::string_view coding,
                            size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, window_bits) != Z_OK) return Internal("zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  std::string out;
  size_t filled = 0;
  while (true) {
    const size_t room = Room(&out, filled, most);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int got = inflate(&stream, Z_NO_FLUSH);
    filled += room - stream.avail_out;
    if (filled > most) return TooLarge(most);
    if (got == Z_STREAM_END && stream.avail_in == 0) break;
    if (got == Z_STREAM_END) return Broken(coding, "bytes follow its end");
    if (got == Z_BUF_ERROR || (got == Z_OK && stream.avail_in == 0 && stream.avail_out > 0)) {
      return Broken(coding, "it is cut short");
    }
    if (got != Z_OK) return Broken(coding, stream.msg != nullptr ? stream.msg : "it is damaged");
  }
  out.resize(filled);
  return out;
}

// "deflate" means the zlib format, but some senders omit its header.
bool HasZlibHeader(std::string_view body) {
  if (body.size() < 2) return false;
  const auto first = static_cast<uint8_t>(body[0]), second = static_cast<uint8_t>(body[1]);
  return (first & 0x0F) == 8 && (first * 256 + second) % 31 == 0;
}

Result<std::string> Unzstd(std::string_view body, size_t most) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (!context) return Internal("zstd has no memory");
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  std::string out;
  size_t filled = 0;
  while (true) {
    const size_t room = Room(&out, filled, most);
    ZSTD_outBuffer to{out.data() + filled, room, 0};
    const size_t left = ZSTD_decompressStream(context.get(), &to, &in);
    filled += to.pos;
    if (ZSTD_isError(left) != 0) return Broken("zstd", ZSTD_getErrorName(left));
    if (filled > most) return TooLarge(most);
    if (left == 0 && in.pos == in.size) break;
    if (left != 0 && in.pos == in.size && to.pos < room) return Broken("zstd", "it is cut short");
  }
  out.resize(filled);
  return out;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

}  // namespace

std::optional<ContentCoding> ParseContentCoding(std::string_view name) {
  const std::string coding = Lower(name);
  if (coding.empty() || coding == "identity") return ContentCoding::kIdentity;
  if (coding == "gzip" || coding == "x-gzip") return ContentCoding::kGzip;
  if (coding == "deflate") return ContentCoding::kDeflate;
  if (coding == "zstd") return ContentCoding::kZstd;
  return std::nullopt;
}

Result<std::string> Decode(ContentCoding coding, std::string_view body, size_t most) {
  switch (coding) {
    case ContentCoding::kIdentity:
      return std::string(body);
    case ContentCoding::kGzip:
      return Inflate(body, 16 + MAX_WBITS, "gzip", most);
    case ContentCoding::kDeflate:
      return Inflate(body, HasZlibHeader(body) ? MAX_WBITS : -MAX_WBITS, "deflate", most);
    case ContentCoding::kZstd:
      return Unzstd(body, most);
  }
  return Internal("a coding of no kind");
}

}  // namespace janus::gateway
