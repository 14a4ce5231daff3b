#include "dataplane/comm/handshake/hello.h"

#include <algorithm>
#include <cstring>

#include "common/fingerprint.h"

namespace janus::dataplane {
namespace {

template <size_t N>
void Put(std::string_view text, char (&to)[N]) {
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

// Makes text from outside safe for a message.
template <size_t N>
std::string Take(const char (&from)[N]) {
  std::string text(from, strnlen(from, N));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string SumText(uint8_t sum) {
  if (sum == static_cast<uint8_t>(SumRule::kContributions)) return "Contributions";
  if (sum == static_cast<uint8_t>(SumRule::kFixedPoint)) return "FixedPoint";
  return std::to_string(sum);
}

std::string CompressionText(uint8_t compression) {
  if (compression > static_cast<uint8_t>(Compression::kFp8)) return std::to_string(compression);
  return std::string(ToString(static_cast<Compression>(compression)));
}

// 16 bits of a hash; within a role the numerics class has 24 more.
uint16_t CheckOf(uint64_t hash) {
  return static_cast<uint16_t>(hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48);
}

std::string TransportText(PairTransport transport) {
  if (transport == PairTransport::kSharedMemory) return "shared memory";
  if (transport == PairTransport::kUcx) return "UCX";
  return std::to_string(static_cast<int>(transport));
}

Status Differ(const std::string& field, const Hello& theirs, const std::string& their_value,
              const Hello& other, const std::string& other_value) {
  return FailedPrecondition("exchange: " + ToString(SenderOf(theirs)) + " has " + field + " " +
                            their_value + ", " + ToString(SenderOf(other)) + " has " + other_value);
}

}  // namespace

Hello MakeHello(const ExchangeIdentity& identity, const TransportLayout& layout,
                PairTransport transport, size_t address_bytes) {
  JANUS_CHECK(identity.numerics.size() < Hello::kNumericsChars, identity.numerics);
  JANUS_CHECK(address_bytes <= Hello::kMostAddressBytes, address_bytes);
  Hello hello;
  hello.role = static_cast<uint8_t>(layout.self.role);
  hello.sum_rule = static_cast<uint8_t>(identity.sum);
  hello.sums_check = CheckOf(identity.sums_hash);
  hello.compression = static_cast<uint8_t>(identity.compression);
  hello.rank = static_cast<uint16_t>(layout.self.rank.value);
  hello.epoch = identity.epoch;
  hello.key_check = EpochKeyCheck(identity.epoch_key, identity.epoch);
  hello.model_digest = identity.model_digest;
  hello.topology_hash = identity.topology_hash;
  hello.layout_hash = LayoutHash(layout);
  hello.transport = transport;
  hello.address_bytes = static_cast<uint32_t>(address_bytes);
  Put(identity.numerics, hello.numerics);
  return hello;
}

PeerId SenderOf(const Hello& hello) {
  return {hello.role == 0 ? Role::kAttention : Role::kExperts, Rank{hello.rank}};
}

HelloVerdict Admit(const Hello& theirs, const Hello& ours, const TransportLayout& layout) {
  const PeerId peer = SenderOf(theirs);
  if (theirs.protocol_version != ours.protocol_version) {
    return {Differ("protocol version", theirs, std::to_string(theirs.protocol_version), ours,
                   std::to_string(ours.protocol_version)),
            ExchangeRefusal::kMalformed};
  }
  if (theirs.epoch != ours.epoch) {
    return {Differ("epoch", theirs, std::to_string(theirs.epoch), ours, std::to_string(ours.epoch)),
            ExchangeRefusal::kEpoch};
  }
  if (theirs.key_check != ours.key_check) {
    return {FailedPrecondition("exchange: " + ToString(peer) + " has another epoch key than " +
                               ToString(SenderOf(ours))),
            ExchangeRefusal::kKey};
  }
  const int limit = peer.role == Role::kAttention ? layout.m : layout.n;
  if (theirs.role > 1 || peer.rank.value >= limit || peer == layout.self) {
    return {FailedPrecondition("exchange: " + ToString(peer) + " is not in the topology of " +
                               ToString(layout.self)),
            ExchangeRefusal::kMember};
  }
  return {OkStatus()};
}

Status Judge(const Hello& theirs, const Hello& ours, const TransportLayout& layout,
             const Hello* of_its_role) {
  JANUS_RETURN_IF_ERROR(Admit(theirs, ours, layout).status);
  const auto differs = [&](const std::string& field, const std::string& their_value,
                           const std::string& our_value) {
    return Differ(field, theirs, their_value, ours, our_value);
  };
  const auto hex = [](uint64_t value) { return Fingerprint::Hex(value); };
  if (theirs.model_digest != ours.model_digest) {
    return differs("model digest", hex(theirs.model_digest), hex(ours.model_digest));
  }
  if (of_its_role != nullptr) {
    const std::string their_class = Take(theirs.numerics);
    const std::string its_class = Take(of_its_role->numerics);
    if (their_class != its_class) {
      return Differ("numerics class", theirs, "'" + their_class + "'", *of_its_role,
                    "'" + its_class + "'");
    }
  }
  if (theirs.sum_rule != ours.sum_rule) {
    return differs("sum rule", SumText(theirs.sum_rule), SumText(ours.sum_rule));
  }
  if (theirs.sums_check != ours.sums_check) {
    return differs("exponents of sums, or other bits, with the check",
                   std::to_string(theirs.sums_check), std::to_string(ours.sums_check));
  }
  if (theirs.compression != ours.compression) {
    return differs("compression", CompressionText(theirs.compression),
                   CompressionText(ours.compression));
  }
  if (theirs.topology_hash != ours.topology_hash) {
    return differs("topology hash", hex(theirs.topology_hash), hex(ours.topology_hash));
  }
  if (theirs.layout_hash != ours.layout_hash) {
    return differs("slot layout", hex(theirs.layout_hash), hex(ours.layout_hash));
  }
  if (theirs.transport != ours.transport) {
    return differs("transport", TransportText(theirs.transport), TransportText(ours.transport));
  }
  return OkStatus();
}

Hello MakeRefusal(const Hello& ours, const Status& why) {
  // Any process may get this. So it leaves out our key_check and all fields that must be equal:
  // with them the receiver could send the HELLO of a member.
  Hello refusal;
  refusal.role = ours.role;
  refusal.rank = ours.rank;
  refusal.epoch = ours.epoch;
  Put(why.message(), refusal.refusal);
  return refusal;
}

std::string RefusalText(const Hello& hello) {
  return Take(hello.refusal);
}

}  // namespace janus::dataplane
