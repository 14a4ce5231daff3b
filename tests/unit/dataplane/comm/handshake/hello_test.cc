#include "dataplane/comm/handshake/hello.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

TransportLayout LayoutOf(PeerId self) {
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = 1;
  shape.n = 2;
  return LayoutFor(ExchangeMode::kDirect, shape, self);
}

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr PeerId kExperts1{Role::kExperts, Rank{1}};

ExchangeIdentity Identity() {
  ExchangeIdentity identity;
  identity.epoch = 3;
  identity.epoch_key[0] = std::byte{9};
  identity.model_digest = 0xabc;
  identity.numerics = "cpu avx2 bf16 tp1";
  identity.topology_hash = 0x77;
  return identity;
}

Hello From(const ExchangeIdentity& identity, PeerId self) {
  return MakeHello(identity, LayoutOf(self), PairTransport::kSharedMemory, 0);
}

// Attention 0 judges, with the HELLO of experts 0.
Status Judged(const Hello& theirs) {
  const Hello experts0 = From(Identity(), kExperts0);
  return Judge(theirs, From(Identity(), kAttention0), LayoutOf(kAttention0), &experts0);
}

TEST(Judge, TakesAPeerThatAgrees) {
  EXPECT_EQ(Judged(From(Identity(), kExperts1)), OkStatus());
}

TEST(Judge, LetsRolesComputeDifferently) {
  ExchangeIdentity identity = Identity();
  identity.numerics = "cpu avx512 bf16 tp1";
  EXPECT_EQ(Judge(From(identity, kExperts1), From(Identity(), kAttention0), LayoutOf(kAttention0),
                  nullptr),
            OkStatus());
}

struct Mismatch {
  std::string name;
  std::function<void(ExchangeIdentity&)> identity;  // of the peer
  std::function<void(Hello&)> hello;                // what it sends
  std::string message;
};
void PrintTo(const Mismatch& mismatch, std::ostream* out) {
  *out << mismatch.name;
}

class MismatchTest : public testing::TestWithParam<Mismatch> {};

TEST_P(MismatchTest, IsRefusedByNameWithBothValues) {
  ExchangeIdentity identity = Identity();
  if (GetParam().identity) GetParam().identity(identity);
  Hello theirs = From(identity, kExperts1);
  if (GetParam().hello) GetParam().hello(theirs);
  EXPECT_EQ(Judged(theirs), FailedPrecondition("exchange: " + GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, MismatchTest,
    testing::Values(
        Mismatch{"Protocol",
                 {},
                 [](Hello& h) { h.protocol_version = 1; },
                 "experts 1 has protocol version 1, attention 0 has 6"},
        Mismatch{"Epoch",
                 [](ExchangeIdentity& i) { i.epoch = 4; },
                 {},
                 "experts 1 has epoch 4, attention 0 has 3"},
        Mismatch{"Key",
                 [](ExchangeIdentity& i) { i.epoch_key[15] = std::byte{1}; },
                 {},
                 "experts 1 has another epoch key than attention 0"},
        Mismatch{"Model",
                 [](ExchangeIdentity& i) { i.model_digest = 0xabd; },
                 {},
                 "experts 1 has model digest 0000000000000abd, attention 0 has 0000000000000abc"},
        Mismatch{"Numerics",
                 [](ExchangeIdentity& i) { i.numerics = "cpu avx512 bf16 tp1"; },
                 {},
                 "experts 1 has numerics class 'cpu avx512 bf16 tp1', experts 0 has "
                 "'cpu avx2 bf16 tp1'"},
        Mismatch{"Sum",
                 [](ExchangeIdentity& i) { i.sum = SumRule::kFixedPoint; },
                 {},
                 "experts 1 has sum rule FixedPoint, attention 0 has Contributions"},
        Mismatch{"Exponents",
                 [](ExchangeIdentity& i) { i.sums_hash = 0x0102; },
                 {},
                 "experts 1 has exponents of sums, or other bits, with the check 258, attention 0 "
                 "has 0"},
        Mismatch{"Compression",
                 [](ExchangeIdentity& i) { i.compression = Compression::kFp8; },
                 {},
                 "experts 1 has compression FP8, attention 0 has None"},
        Mismatch{"UnknownCompression",
                 {},
                 [](Hello& h) { h.compression = 7; },
                 "experts 1 has compression 7, attention 0 has None"},
        Mismatch{"Topology",
                 [](ExchangeIdentity& i) { i.topology_hash = 0x78; },
                 {},
                 "experts 1 has topology hash 0000000000000078, attention 0 has "
                 "0000000000000077"},
        Mismatch{"Transport",
                 {},
                 [](Hello& h) { h.transport = PairTransport::kUcx; },
                 "experts 1 has transport UCX, attention 0 has shared memory"},
        Mismatch{"Rank",
                 {},
                 [](Hello& h) { h.rank = 2; },
                 "experts 2 is not in the topology of attention 0"},
        Mismatch{"Role",
                 {},
                 [](Hello& h) { h.role = 9; },
                 "experts 1 is not in the topology of attention 0"},
        Mismatch{"Ourselves",
                 {},
                 [](Hello& h) { h.role = 0, h.rank = 0; },
                 "attention 0 is not in the topology of attention 0"}),
    [](const auto& info) { return info.param.name; });

TEST(Judge, NamesAnotherSlotLayout) {
  ExchangeShape shape;
  shape.hidden = 16;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = 1;
  shape.n = 2;
  const Hello theirs = MakeHello(Identity(), LayoutFor(ExchangeMode::kDirect, shape, kExperts1),
                                 PairTransport::kSharedMemory, 0);
  EXPECT_TRUE(Contains(Judged(theirs).message(), "experts 1 has slot layout "));
}

TEST(Judge, PrintsNothingThatAPeerCouldHideInItsTexts) {
  Hello theirs = From(Identity(), kExperts1);
  std::memset(theirs.numerics, 'x', sizeof theirs.numerics);  // without a terminator
  theirs.numerics[1] = '\n';
  const Status status = Judged(theirs);
  EXPECT_TRUE(Contains(status.message(), "'x?xx"));
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

TEST(Admit, TellsTheReasonByWhichARefusalIsCounted) {
  const auto refused = [](const std::function<void(Hello&)>& change) {
    Hello theirs = From(Identity(), kExperts1);
    change(theirs);
    const HelloVerdict verdict =
        Admit(theirs, From(Identity(), kAttention0), LayoutOf(kAttention0));
    EXPECT_EQ(verdict.status, Judged(theirs));
    return std::string(verdict.status.ok() ? "" : ToString(verdict.refusal));
  };
  EXPECT_EQ(refused([](Hello&) {}), "");
  EXPECT_EQ(refused([](Hello& h) { h.protocol_version = 1; }), "exchange_malformed");
  EXPECT_EQ(refused([](Hello& h) { h.key_check ^= 1; }), "exchange_key");
  EXPECT_EQ(refused([](Hello& h) { h.rank = 9; }), "exchange_member");
  // A member of another epoch also has another key, and possibly another place.
  EXPECT_EQ(refused([](Hello& h) { h.epoch = 2, h.key_check = 0, h.rank = 9; }), "exchange_epoch");
}

TEST(MakeRefusal, CarriesItsReasonBoundedAndNoAddress) {
  Hello ours = MakeHello(Identity(), LayoutOf(kAttention0), PairTransport::kUcx, 100);
  EXPECT_EQ(RefusalText(ours), "");
  const Hello refusal = MakeRefusal(ours, FailedPrecondition(std::string(300, 'n')));
  EXPECT_EQ(RefusalText(refusal), std::string(255, 'n'));
  EXPECT_EQ(refusal.address_bytes, 0u);
}

}  // namespace
}  // namespace janus::dataplane
