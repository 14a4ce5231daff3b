#include "operator/program/page_server.h"

#include <gtest/gtest.h>
#include <httplib.h>

namespace janus::control {
namespace {

TEST(PageServer, AnswersEachPathWithItsPage) {
  Result<std::unique_ptr<PageServer>> server =
      PageServer::Create("127.0.0.1:0", {{"/healthz",
                                          [] {
                                            return Page{200, "ok\n"};
                                          }},
                                         {"/readyz", [] {
                                            return Page{503, "not yet\n"};
                                          }}});
  ASSERT_TRUE(server.ok()) << server.status().message();
  httplib::Client client("http://" + (*server)->address());
  const httplib::Result health = client.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  EXPECT_EQ(health->body, "ok\n");
  EXPECT_EQ(client.Get("/readyz")->status, 503);
  EXPECT_EQ(client.Get("/readyz")->body, "not yet\n");
  EXPECT_EQ(client.Get("/else")->status, 404);
}

TEST(PageServer, SaysWhyItCannotListen) {
  const Result<std::unique_ptr<PageServer>> server = PageServer::Create("127.0.0.1:0", {});
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(
      PageServer::Create((*server)->address(), {}).status(),
      Unavailable("cannot listen at '" + (*server)->address() + "'; check that the port is free"));
  for (const char* const bad : {"8080", ":8080", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"}) {
    EXPECT_EQ(PageServer::Create(bad, {}).status(),
              InvalidArgument("'" + std::string(bad) +
                              "' is not an address; want HOST:PORT, for example 0.0.0.0:8080"));
  }
}

}  // namespace
}  // namespace janus::control
