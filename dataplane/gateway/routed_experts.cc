#include "dataplane/gateway/routed_experts.h"

#include <algorithm>
#include <bit>

#include "common/base64.h"

namespace janus::gateway {
namespace {

constexpr uint16_t kNoExpert = 0xFFFF;  // as in proto/tokens.proto

}  // namespace

Result<int64_t> RoutedExperts::Put(int64_t from, std::span<const uint16_t> ids) {
  const auto at = static_cast<size_t>(from - first_) * static_cast<size_t>(width_);
  if (from < first_ || at > ids_.size()) {
    return Internal("the attention instance sent experts from position " + std::to_string(from) +
                    " on, and not those before");
  }
  const size_t before = ids_.size();
  ids_.resize(std::max(before, at + ids.size()));
  std::ranges::copy(ids, ids_.begin() + static_cast<ptrdiff_t>(at));
  return static_cast<int64_t>(ids_.size() - before) * kBytesOfId;
}

Result<std::string> RoutedExperts::TextTo(int64_t end) const {
  const auto count = static_cast<size_t>(std::max<int64_t>(end - first_, 0) * width_);
  if (count > ids_.size()) {
    return Internal("the attention instance sent " + std::to_string(ids_.size()) + " of " +
                    std::to_string(count) + " experts");
  }
  static_assert(std::endian::native == std::endian::little);
  // Base64 cuts bytes into threes, so pieces of twelve can be encoded one by one.
  constexpr size_t kPiece = 3072;
  std::string text;
  text.reserve((count * sizeof(int32_t) + 2) / 3 * 4);
  std::vector<int32_t> piece;
  for (size_t at = 0; at < count; at += piece.size()) {
    const auto ids = std::span(ids_).subspan(at, std::min(kPiece, count - at));
    piece.clear();
    for (const uint16_t id : ids) piece.push_back(id == kNoExpert ? -1 : id);
    text += EncodeBase64(
        {reinterpret_cast<const char*>(piece.data()), std::as_bytes(std::span(piece)).size()});
  }
  return text;
}

}  // namespace janus::gateway
