#include "dataplane/comm/wire/wire.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace janus::dataplane {
namespace {

constexpr uint64_t Rotl(uint64_t x, int bits) {
  return (x << bits) | (x >> (64 - bits));
}

// SipHash-2-4 of 64-bit words under the epoch key (Aumasson and Bernstein 2012).
uint64_t SipHash(const EpochKey& key, std::initializer_list<uint64_t> words) {
  uint64_t k0, k1;
  std::memcpy(&k0, key.data(), 8);
  std::memcpy(&k1, key.data() + 8, 8);
  uint64_t v0 = k0 ^ 0x736f6d6570736575ULL, v1 = k1 ^ 0x646f72616e646f6dULL;
  uint64_t v2 = k0 ^ 0x6c7967656e657261ULL, v3 = k1 ^ 0x7465646279746573ULL;
  const auto round = [&] {
    v0 += v1, v1 = Rotl(v1, 13), v1 ^= v0, v0 = Rotl(v0, 32);
    v2 += v3, v3 = Rotl(v3, 16), v3 ^= v2;
    v0 += v3, v3 = Rotl(v3, 21), v3 ^= v0;
    v2 += v1, v1 = Rotl(v1, 17), v1 ^= v2, v2 = Rotl(v2, 32);
  };
  const auto absorb = [&](uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  };
  for (const uint64_t word : words) absorb(word);
  absorb(uint64_t{words.size() * 8} << 56);
  v2 ^= 0xff;
  round(), round(), round(), round();
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace

Header MakeHeader(MessageKind kind, const RoundKey& key, uint16_t sender, uint32_t count) {
  Header header;
  header.epoch = key.epoch;
  header.step = key.step;
  header.view = key.view;
  header.stream = key.stream;
  header.layer = key.layer;
  header.kind = kind;
  header.micro_batch = key.micro_batch;
  header.sender = sender;
  header.count = count;
  return header;
}

Status ReadTicketShares(std::span<const std::byte> payload, int m, int max_rows,
                        std::vector<TicketShare>& shares) {
  if (payload.size() != static_cast<size_t>(m) * sizeof(TicketShare)) {
    return Internal("a ticket of " + std::to_string(payload.size()) + " bytes for " +
                    std::to_string(m) + " attention instances");
  }
  shares.resize(static_cast<size_t>(m));
  std::memcpy(shares.data(), payload.data(), payload.size());
  for (size_t a = 0; a < shares.size(); ++a) {
    if (shares[a].row_limit <= max_rows && shares[a].prefill_budget <= shares[a].row_limit) {
      continue;
    }
    return Internal("a ticket with " + std::to_string(shares[a].row_limit) + " rows and " +
                    std::to_string(shares[a].prefill_budget) + " prompt positions for attention " +
                    std::to_string(a) + "; a round carries " + std::to_string(max_rows) + " rows");
  }
  return OkStatus();
}

std::string ReadReason(std::span<const std::byte> payload) {
  const std::span<const std::byte> text = payload.first(std::min(payload.size(), kMostReasonChars));
  std::string reason;
  for (const std::byte byte : text) {
    const auto c = std::to_integer<char>(byte);
    reason += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return reason;
}

std::span<const std::byte> WriteReason(std::string_view reason) {
  return std::as_bytes(std::span(reason.substr(0, kMostReasonChars)));
}

uint64_t EpochTag(const EpochKey& key, uint64_t epoch) {
  return SipHash(key, {epoch});
}

uint64_t EpochKeyCheck(const EpochKey& key, uint64_t epoch) {
  return SipHash(key, {epoch, 1});
}

}  // namespace janus::dataplane
