#include "operator/kube/warnings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "operator/kube/client.h"
#include "tests/support/kube/scripted_server.h"
#include "tests/support/passing_timeline.h"

namespace janus::control {
namespace {

using Texts = std::vector<std::string>;

TEST(WarningTexts, AreThoseOfTheApi) {
  EXPECT_EQ(WarningTexts({R"(299 - "unknown field \"spec.a\"")"}),
            Texts{R"(unknown field "spec.a")"});
  EXPECT_EQ(WarningTexts({R"(299 - "a", 299 kube "b" "Tue, 24 Nov 2026 20:00:00 GMT",299 - "c")",
                          R"(  299 - "d")"}),
            (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(WarningTexts({R"(199 - "stale", 299 - "a")"}), Texts{"a"});
}

TEST(WarningTexts, AreLeftOutWhereTheyCannotBeRead) {
  for (const char* const broken :
       {"", "299", "299 -", "299 - text", R"(299 - "text)", R"(299 - "text\)", R"(29 - "text")",
        R"(2990 - "text")", R"(299  "text")", "299 - \"a\tb\"", R"(299 - "")"}) {
    EXPECT_EQ(WarningTexts({broken}), Texts{}) << broken;
  }
  EXPECT_EQ(WarningTexts({R"(299 - "a" 299 - "b")", R"(299 - "c", nonsense, 299 - "d")"}),
            (Texts{"a", "c"}));
  EXPECT_EQ(WarningTexts(Texts(100, R"(299 - "a")")).size(), 64U);
}

class ServerWarningsTest : public testing::Test {
 protected:
  ServerWarningsTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~ServerWarningsTest() override {
    for (const int end : ends_) close(end);
  }
  Logger log() const { return Logger(ends_[1]); }
  // Logged lines without times; an extra last line marks the end.
  std::string Logged() {
    log().Info("end");
    std::string out(1 << 16, '\0');
    out.resize(static_cast<size_t>(read(ends_[0], out.data(), out.size())));
    std::string lines;
    for (size_t at = 0; at < out.size();) {
      const size_t end = out.find('\n', at);
      lines += out.substr(at + 25, end - at - 24);
      at = end + 1;
    }
    return lines.substr(0, lines.find("info message=\"end\""));
  }

  std::array<int, 2> ends_{};
};

TEST_F(ServerWarningsTest, TellEachTextOnce) {
  ServerWarnings warnings(log());
  warnings.Tell("a", "PUT", "/api/v1/pods");
  warnings.Tell("a", "GET", "/api/v1/nodes");
  warnings.Tell("b", "PUT", "/api/v1/pods");
  EXPECT_EQ(Logged(),
            "warning message=\"the API server warns\" text=a method=PUT path=/api/v1/pods\n"
            "warning message=\"the API server warns\" text=b method=PUT path=/api/v1/pods\n");
}

TEST_F(ServerWarningsTest, RememberSoManyTextsAndNoLongerOnes) {
  ServerWarnings warnings(log());
  warnings.Tell("first", "GET", "/");
  for (size_t i = 1; i < ServerWarnings::kMostRemembered; ++i) {
    warnings.Tell(std::to_string(i), "GET", "/");
  }
  EXPECT_FALSE(Logged().empty());
  warnings.Tell("first", "GET", "/");
  EXPECT_EQ(Logged(), "");
  warnings.Tell("another", "GET", "/");
  warnings.Tell("first", "GET", "/");
  EXPECT_EQ(Logged(),
            "warning message=\"the API server warns\" text=another method=GET path=/\n"
            "warning message=\"the API server warns\" text=first method=GET path=/\n");
  const std::string endless(4 * ServerWarnings::kMostShown, 'x');
  warnings.Tell(endless, "GET", "/");
  EXPECT_LT(Logged().size(), ServerWarnings::kMostShown + 100);
}

TEST_F(ServerWarningsTest, AreHeardInEveryAnswer) {
  ScriptedServer server([](const SeenRequest& request, Peer& peer) {
    const bool is_read = request.method == "GET";
    peer.Reply(is_read ? 200 : 404, R"({"metadata":{"name":"a"}})",
               is_read ? "Warning: 299 - \"a read\"\r\n" : "warning: 299 - \"a refusal\"\r\n");
    return true;
  });
  const PassingTimeline timeline;
  KubeClientOptions options;
  options.transport.warnings = std::make_shared<ServerWarnings>(log());
  KubeClient client(server.config(), options, timeline);
  const Resource pods{"", "v1", "pods", "Pod", true};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(client.Get(pods, {"prod", "a"}, Subresource::kNone, {}).ok());
    EXPECT_FALSE(client.Delete(pods, {"prod", "a"}, {}, {}).ok());
  }
  const std::string path = "path=/api/v1/namespaces/prod/pods/a\n";
  EXPECT_EQ(Logged(),
            "warning message=\"the API server warns\" text=\"a read\" method=GET " + path +
                "warning message=\"the API server warns\" text=\"a refusal\" method=DELETE " +
                path);
}

}  // namespace
}  // namespace janus::control
