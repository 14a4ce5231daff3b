#include "operator/kube/proxy.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/contains.h"

namespace janus::control {
namespace {

using Environment = std::map<std::string, std::string>;

Status Judge(const std::string& host, const Environment& environment, bool use_tls = true) {
  ClusterConfig config;
  config.origin = "test";
  config.host = host;
  config.port = 6443;
  config.use_tls = use_tls;
  return RefuseProxy(config, [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

bool IsExcepted(const std::string& host, const std::string& no_proxy) {
  return Judge(host, {{"HTTPS_PROXY", "http://proxy:3128"}, {"NO_PROXY", no_proxy}}).ok();
}

TEST(Proxy, OneOnTheWayIsRefusedByName) {
  const Status refusal = Judge("api.test", {{"HTTPS_PROXY", "http://me:secret@proxy:3128"}});
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refusal.message(),
            "test: HTTPS_PROXY is set, and the API server at 'api.test' would be called past it: "
            "proxies are not supported; add 'api.test' to NO_PROXY, or unset HTTPS_PROXY");
  EXPECT_TRUE(Contains(Judge("10.0.0.1", {{"https_proxy", "http://proxy"}}).message(),
                       "https_proxy is set"));
  EXPECT_TRUE(Judge("api.test", {}).ok());
}

TEST(Proxy, OnlyThatOfTheSchemeCounts) {
  EXPECT_TRUE(Judge("api.test", {{"HTTP_PROXY", "http://proxy"}}).ok());
  EXPECT_FALSE(Judge("api.test", {{"HTTP_PROXY", "http://proxy"}}, false).ok());
  EXPECT_TRUE(Judge("api.test", {{"HTTPS_PROXY", "http://proxy"}}, false).ok());
}

TEST(Proxy, ThisMachineIsBehindNone) {
  for (const char* const host : {"localhost", "127.0.0.1", "127.8.8.8", "::1", "unix:/run/api"}) {
    EXPECT_TRUE(IsExcepted(host, "")) << host;
  }
  EXPECT_FALSE(IsExcepted("128.0.0.1", ""));
}

TEST(Proxy, ExceptionsAreReadAsGoReadsThem) {
  for (const auto& [host, list] :
       std::vector<std::pair<std::string, std::string>>{{"api.test", "*"},
                                                        {"api.test", "other, API.test"},
                                                        {"a.api.test", "api.test"},
                                                        {"a.api.test", ".api.test"},
                                                        {"a.api.test", "*.api.test"},
                                                        {"api.test", "api.test:6443"},
                                                        {"10.96.0.1", "10.96.0.1"},
                                                        {"10.96.0.1", " 10.96.0.0/12 ,x"},
                                                        {"10.96.0.1", "10.96.0.1:6443"},
                                                        {"fd00::1", "fd00::1"},
                                                        {"fd00::1", "[fd00::1]:6443"},
                                                        {"fd00::1", "fd00::/8"}}) {
    EXPECT_TRUE(IsExcepted(host, list)) << host << " " << list;
  }
  for (const auto& [host, list] :
       std::vector<std::pair<std::string, std::string>>{{"api.test", ".api.test"},
                                                        {"xapi.test", "api.test"},
                                                        {"api.test", "api.test:443"},
                                                        {"10.96.0.1", "10.0.0.0/12"},
                                                        {"10.96.0.1", "10.96.0.0/x"},
                                                        {"10.96.0.1", "10.96.0.0/33"},
                                                        {"10.96.0.1", "6.0.1"},
                                                        {"10.96.0.1", "10.96.0.1:443"},
                                                        {"fd00::1", "fd00::2,0.0.0.0/0"},
                                                        {"api.test", ","}}) {
    EXPECT_FALSE(IsExcepted(host, list)) << host << " " << list;
  }
  EXPECT_TRUE(Judge("api.test", {{"https_proxy", "x"}, {"no_proxy", "api.test"}}).ok());
}

}  // namespace
}  // namespace janus::control
