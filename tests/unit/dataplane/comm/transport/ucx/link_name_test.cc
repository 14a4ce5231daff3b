#include <gtest/gtest.h>

#include <cstdlib>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/networks.h"

namespace janus::dataplane {
namespace {

TEST(LinkName, IsTheTransportAndDeviceThatCarryThePair) {
  // e2e/rdma sets it where UCX uses RDMA; tests/support/networks.h.
  const char* given = std::getenv("JANUS_UCX_LANE");
  const std::string expected = std::string("UCX ") + (given == nullptr ? "tcp/lo" : given);
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = shape.n = 1;
  const TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, PeerId{});
  int seen = 0;
  for (const NetworkKind& kind : AllNetworks()) {
    if (!kind.name.starts_with("Ucx")) continue;
    Network network = kind.connect(layout, WaitPolicy());
    EXPECT_EQ(network.attention(0).Describe({Role::kExperts, Rank{0}}), expected) << kind.name;
    EXPECT_EQ(network.experts(0).Describe({Role::kAttention, Rank{0}}), expected) << kind.name;
    ++seen;
  }
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace janus::dataplane
