// Any bytes to the exchange's port: they are read without waiting and judged. A HELLO that passes
// agrees in every field, and its texts never reach a message unescaped.

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/check.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/handshake/hello.h"
#include "dataplane/comm/handshake/hello_reader.h"

namespace janus::dataplane {
namespace {

void CheckPrintable(const std::string& text) {
  for (const char c : text) JANUS_CHECK(static_cast<unsigned char>(c) >= 0x20, text);
}

// The HELLO of a member of the epoch.
Hello HelloOf(const TransportLayout& layout) {
  ExchangeIdentity identity;
  identity.epoch = 3;
  identity.model_digest = 7;
  identity.numerics = "cpu avx2 bf16 tp1";
  return MakeHello(identity, layout, PairTransport::kUcx, 0);
}

void CheckHello(const HelloReader& reader, const TransportLayout& layout) {
  const Hello ours = HelloOf(layout);
  JANUS_CHECK(reader.address.size() == reader.hello.address_bytes);
  CheckPrintable(RefusalText(reader.hello));
  const HelloVerdict admitted = Admit(reader.hello, ours, layout);
  for (const Hello* alike : {static_cast<const Hello*>(nullptr), &ours}) {
    const Status judged = Judge(reader.hello, ours, layout, alike);
    if (!judged.ok()) {
      CheckPrintable(judged.message());
      const Hello refusal = MakeRefusal(ours, judged);
      JANUS_CHECK(!RefusalText(refusal).empty());
      JANUS_CHECK(!Admit(refusal, ours, layout).status.ok());
      continue;
    }
    JANUS_CHECK(admitted.status.ok());
    const PeerId peer = SenderOf(reader.hello);
    JANUS_CHECK(peer.rank.value < (peer.role == Role::kAttention ? layout.m : layout.n));
    JANUS_CHECK(reader.hello.epoch == 3 && reader.hello.key_check == ours.key_check);
    JANUS_CHECK(reader.hello.transport == PairTransport::kUcx);
  }
}

// The first byte chooses the size of the pieces. If the second byte is even, the rest overwrites a
// valid HELLO, so that every field is reached at once.
void Run(std::span<const uint8_t> input) {
  if (input.size() < 2) return;
  const size_t piece = size_t{input[0]} * 4 + 1;
  const bool over_a_right_one = input[1] % 2 == 0;
  std::vector<uint8_t> bytes(input.begin() + 2, input.end());
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = shape.n = 2;
  const auto layout_of = [&](PeerId self) { return LayoutFor(ExchangeMode::kDirect, shape, self); };
  if (over_a_right_one) {
    const Hello right = HelloOf(layout_of({Role::kExperts, Rank{1}}));
    const auto* from = reinterpret_cast<const uint8_t*>(&right);
    std::vector<uint8_t> whole(from, from + sizeof right);
    // (offset, byte) pairs; the rest is the address.
    size_t at = 0;
    for (; at + 3 <= bytes.size(); at += 3) {
      whole[(bytes[at] | size_t{bytes[at + 1]} << 8) % whole.size()] ^= bytes[at + 2];
    }
    whole.insert(whole.end(), bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end());
    whole.resize(whole.size() + 64);
    bytes = std::move(whole);
  }
  int ends[2];
  JANUS_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  HelloReader reader;
  HelloReader::State state = HelloReader::State::kMore;
  for (size_t at = 0; at < bytes.size() && state == HelloReader::State::kMore; at += piece) {
    const size_t count = std::min(piece, bytes.size() - at);
    JANUS_CHECK(send(theirs.get(), bytes.data() + at, count, 0) == static_cast<ssize_t>(count));
    state = reader.Read(ours.get());
  }
  if (state == HelloReader::State::kMore) {
    theirs = Fd();
    JANUS_CHECK(reader.Read(ours.get()) == HelloReader::State::kBroken);
  } else if (state == HelloReader::State::kWhole) {
    CheckHello(reader, layout_of({Role::kAttention, Rank{0}}));
  }
}

}  // namespace
}  // namespace janus::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  janus::dataplane::Run({data, size});
  return 0;
}
