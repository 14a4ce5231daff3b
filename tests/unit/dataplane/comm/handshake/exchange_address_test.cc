#include "dataplane/comm/handshake/exchange_address.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

TEST(ExchangeAddresses, OneAddressIsForAllPeers) {
  for (const char* text : {"tcp:10.0.0.5:9001", "tcp:[::1]:9001", "unix:/run/janus/exchange-0",
                           "unix:/run/a,unix:/run/b"}) {
    const auto parsed = ParseExchangeAddresses(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(parsed->network, text);
    EXPECT_EQ(parsed->memory, text);
  }
}

TEST(ExchangeAddresses, OfTwoPeersThatShareMemoryUseTheUnixSocket) {
  for (const char* tcp : {"tcp:10.0.0.5:9001", "tcp:[fd00::5]:9001"}) {
    for (const char* file : {"unix:/run/janus/exchange-0", "unix:/with,comma"}) {
      const auto parsed = ParseExchangeAddresses(std::string(tcp) + "," + file);
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
      EXPECT_EQ(parsed->network, tcp);
      EXPECT_EQ(parsed->memory, file);
    }
  }
}

TEST(ExchangeAddresses, OthersAreRefusedByName) {
  for (const char* text :
       {"", ",", "tcp:10.0.0.5:9001,", "tcp:10.0.0.5,unix:/run/x",
        "tcp:10.0.0.5:9001,unix:", "tcp:10.0.0.5:9001,/run/x", "tcp:10.0.0.5:9001, unix:/run/x"}) {
    const Status status = ParseExchangeAddresses(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(Contains(status.message(), "exchange address")) << text;
  }
  EXPECT_TRUE(Contains(ParseExchangeAddresses("tcp:10.0.0.5:1,tcp:10.0.0.5:2").status().message(),
                       "the second address must be that of a Unix socket"));
  EXPECT_TRUE(Contains(
      ParseExchangeAddresses("tcp:10.0.0.5:1,unix:/" + std::string(200, 'x')).status().message(),
      "want 1 to 107"));
}

}  // namespace
}  // namespace janus::dataplane
