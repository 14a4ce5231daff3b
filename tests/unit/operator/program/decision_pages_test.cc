#include "operator/program/decision_pages.h"

#include <gtest/gtest.h>

#include "operator/page/page.h"

namespace janus::control {
namespace {

TEST(IsThisMachine, RefusesNamesOfOtherSites) {
  for (const char* host :
       {"localhost", "localhost:8082", "127.0.0.1:1", "127.0.0.1", "[::1]:80", "[::1]"}) {
    EXPECT_TRUE(IsThisMachine(host)) << host;
  }
  for (const char* host : {"", "example.com", "example.com:8082", "127.0.0.1.example.com:80",
                           "10.0.0.7:8082", "[fe80::1]:80"}) {
    EXPECT_FALSE(IsThisMachine(host)) << host;
  }
}

TEST(DecisionPages, ServesThePageAndTheRecordsThatItReads) {
  const RecordBook book;
  const SystemClock clock;
  const PageServer::OtherPages pages = DecisionPages(book, clock);
  const Page page = pages("/", "127.0.0.1:9");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(page.text, DecisionsPage());
  EXPECT_TRUE(DecisionsPage().starts_with("<!DOCTYPE html>")) << DecisionsPage().substr(0, 40);
  EXPECT_EQ(pages("/v1/services", "localhost").text, "{\"services\":[]}");
  EXPECT_EQ(pages("/v1/services/a/b", "localhost").status, 404);
  EXPECT_EQ(pages("/v1/services", "example.com").status, 421);
}

}  // namespace
}  // namespace janus::control
