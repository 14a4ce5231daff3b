#include "operator/kube/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stop_token>
#include <thread>
#include <vector>

#include "operator/api/rfc3339.h"
#include "operator/kube/program.h"
#include "tests/support/contains.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

// A plugin that prints the content of the file `answer`, and records each run in the file `runs`.
// While its gate is closed it hangs.
class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    config_.origin = "test";
    config_.host = "api.test";
  }

  void UsePlugin(const std::string& last_words = "") {
    folder_.Write("plugin", "#!/bin/sh\ncd '" + folder_.path() +
                                "'\necho \"$KUBERNETES_EXEC_INFO $EXTRA $1\" >> runs\n"
                                "[ ! -p gate ] || read -r word < gate\n"
                                "cat answer\n" +
                                last_words);
    chmod((folder_.path() + "/plugin").c_str(), 0700);
    config_.exec = ExecPlugin{"client.authentication.k8s.io/v1",
                              folder_.path() + "/plugin",
                              {"get-token"},
                              {{"EXTRA", "more"}},
                              "",
                              false};
  }
  void Answer(const std::string& token, const std::string& ends = "") {
    std::string status = R"("token":")" + token + "\"";
    if (!ends.empty()) status += R"(,"expirationTimestamp":")" + ends + "\"";
    folder_.Write("answer", R"({"apiVersion":"client.authentication.k8s.io/v1",)"
                            R"("kind":"ExecCredential","status":{)" +
                                status + "}}");
  }
  int Runs() const {
    std::ifstream file(folder_.path() + "/runs");
    int runs = 0;
    for (std::string line; std::getline(file, line);) ++runs;
    return runs;
  }
  void CloseGate() { ASSERT_EQ(mkfifo((folder_.path() + "/gate").c_str(), 0600), 0); }
  // Returns when a hanging plugin, or the next run, continues.
  void OpenGate() {
    const std::string gate = folder_.path() + "/gate";
    std::ofstream(gate) << "on\n";
    unlink(gate.c_str());
  }
  std::string Token(CredentialSource& source, Seconds timeout = Scaled(Seconds(60))) {
    const Result<Credentials> got = source.Get({timeout, {}});
    return got.ok() ? got->token : got.status().ToString();
  }
  // Repeats until the token differs: callers do not wait for an early run.
  std::string TokenAfter(const std::string& old, CredentialSource& source) {
    for (;;) {
      std::string token = Token(source);
      if (token != old) return token;
      std::this_thread::yield();
    }
  }

  TempFolder folder_;
  FakeClock clock_;
  ClusterConfig config_;
};

TEST_F(CredentialsTest, AFilesTokenIsReadAgainWithoutARestart) {
  folder_.Write("token", " one\n");
  config_.token.file = folder_.path() + "/token";
  CredentialSource source(config_, clock_);
  const Credentials first = *source.Get({});
  EXPECT_EQ(first.token, "one");
  folder_.Write("token", "two");
  EXPECT_EQ(Token(source), "one");  // not on each call
  clock_.Advance(Seconds(11));
  const Credentials second = *source.Get({});
  EXPECT_EQ(second.token, "two");
  EXPECT_GT(second.version, first.version);
  EXPECT_EQ(second.tls_version, first.tls_version);  // connections are kept
}

TEST_F(CredentialsTest, ARefusalLooksAnewAtOnce) {
  folder_.Write("token", "one");
  config_.token.file = folder_.path() + "/token";
  CredentialSource source(config_, clock_);
  const uint64_t version = source.Get({})->version;
  folder_.Write("token", "two");
  source.Refuse(version);
  EXPECT_EQ(Token(source), "two");
  folder_.Write("token", "three");
  source.Refuse(version);  // a late refusal of the first one
  EXPECT_EQ(Token(source), "two");
}

TEST_F(CredentialsTest, ARotatedCaMakesConnectionsAnew) {
  folder_.Write("ca.crt", "old");
  config_.ca.file = folder_.path() + "/ca.crt";
  CredentialSource source(config_, clock_);
  const uint64_t before = source.Get({})->tls_version;
  clock_.Advance(Seconds(11));
  EXPECT_EQ(source.Get({})->tls_version, before);
  folder_.Write("ca.crt", "old and new");
  clock_.Advance(Seconds(11));
  EXPECT_GT(source.Get({})->tls_version, before);
}

TEST_F(CredentialsTest, AFileThatIsGoneForAMomentDoesNoHarm) {
  config_.token.file = folder_.path() + "/token";
  CredentialSource source(config_, clock_);
  EXPECT_TRUE(Contains(Token(source), "NotFound: credentials (test): "));
  folder_.Write("token", "one");
  EXPECT_EQ(Token(source), "one");
  for (const std::string_view broken : {"", "\n"}) {
    folder_.Write("token", std::string(broken));
    clock_.Advance(Seconds(11));
    EXPECT_EQ(Token(source), "one");
  }
  folder_.Write("token", "two");
  clock_.Advance(Seconds(11));
  EXPECT_EQ(Token(source), "two");
}

TEST_F(CredentialsTest, APluginRunsAgainBeforeItsTokenEnds) {
  UsePlugin();
  const WallTime ends = clock_.WallNow() + std::chrono::minutes(10);
  Answer("one", FormatTime(ends));
  CredentialSource source(config_, clock_);
  EXPECT_EQ(Token(source), "one");
  clock_.Advance(Seconds(539));
  EXPECT_EQ(Token(source), "one");
  EXPECT_EQ(Runs(), 1);
  clock_.Advance(Seconds(2));  // less than a minute before it expires
  Answer("two");
  EXPECT_EQ(TokenAfter("one", source), "two");
  clock_.Advance(Seconds(1e6));  // it never expires
  EXPECT_EQ(Token(source), "two");
  EXPECT_EQ(Runs(), 2);
}

TEST_F(CredentialsTest, APluginThatHangsHoldsNoCallPastItsLimits) {
  UsePlugin();
  Answer("one");
  CloseGate();
  CredentialSource source(config_, clock_);
  const std::string late = Token(source, Seconds(0.05));
  EXPECT_TRUE(Contains(late, "DeadlineExceeded: credentials (test): '")) << late;
  EXPECT_TRUE(Contains(late, "has printed no credentials in the call's time")) << late;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(source.Get({Seconds(600), stop.get_token()}).status().code(), StatusCode::kCancelled);
  // A caller that gives up does not end the run, and all others wait for that one run.
  std::vector<std::jthread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] { EXPECT_EQ(Token(source, Seconds(600)), "one"); });
  }
  OpenGate();
  callers.clear();
  EXPECT_EQ(Runs(), 1);
}

TEST_F(CredentialsTest, WhatAPluginGaveIsUsedToItsEndWhileItIsRunAhead) {
  UsePlugin();
  Answer("one", FormatTime(clock_.WallNow() + std::chrono::minutes(10)));
  CredentialSource source(config_, clock_);
  EXPECT_EQ(Token(source), "one");
  Answer("two");
  CloseGate();
  clock_.Advance(Seconds(590));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Token(source, Seconds(0)), "one");
  clock_.Advance(Seconds(11));
  EXPECT_TRUE(Contains(Token(source, Seconds(0.01)), "DeadlineExceeded"));
  OpenGate();
  EXPECT_EQ(Token(source), "two");
  EXPECT_EQ(Runs(), 2);
}

TEST_F(CredentialsTest, ATokenOfAShortLifeDoesNotKeepItsPluginRunning) {
  UsePlugin();
  Answer("one", FormatTime(clock_.WallNow() + std::chrono::seconds(20)));
  CredentialSource source(config_, clock_);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Token(source), "one");
  clock_.Advance(Seconds(14));  // a second before a quarter of its lifetime is left
  EXPECT_EQ(Token(source), "one");
  EXPECT_EQ(Runs(), 1);
  // A credential that is already expired is used, with a new run for each call.
  Answer("two", FormatTime(clock_.WallNow() - std::chrono::seconds(20)));
  clock_.Advance(Seconds(10));
  EXPECT_EQ(Token(source), "two");
}

TEST_F(CredentialsTest, APluginThatFailsLeavesTheLastGoodOnesToTheServer) {
  UsePlugin();
  Answer("one", FormatTime(clock_.WallNow() + std::chrono::minutes(1)));
  CredentialSource source(config_, clock_);
  const uint64_t version = source.Get({})->version;
  clock_.Advance(Seconds(61));
  folder_.Write("answer", "no JSON");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Token(source), "one");
  EXPECT_EQ(Runs(), 2);  // not for each call
  source.Refuse(version);
  EXPECT_EQ(Token(source), "one");
  EXPECT_EQ(Runs(), 3);
  Answer("two");
  clock_.Advance(Seconds(11));
  EXPECT_EQ(Token(source), "two");
}

TEST_F(CredentialsTest, APluginIsNotRunForFilesBesideIt) {
  UsePlugin();
  folder_.Write("ca.crt", "old");
  config_.ca.file = folder_.path() + "/ca.crt";
  Answer("one");
  CredentialSource source(config_, clock_);
  EXPECT_EQ(source.Get({})->ca, "old");
  folder_.Write("ca.crt", "new");
  clock_.Advance(Seconds(11));
  const Credentials second = *source.Get({});
  EXPECT_EQ(second.ca, "new");
  EXPECT_EQ(second.token, "one");
  EXPECT_EQ(Runs(), 1);
}

TEST_F(CredentialsTest, APluginIsToldWhatTheProtocolSays) {
  UsePlugin();
  Answer("one");
  config_.exec->provide_cluster_info = true;
  config_.ca.text = "pem";
  config_.plugin_config.kind = Node::Kind::kMap;
  config_.plugin_config.Add("audience", Node::String("ours"));
  CredentialSource source(config_, clock_);
  EXPECT_EQ(Token(source), "one");
  std::ifstream file(folder_.path() + "/runs");
  std::stringstream runs;
  runs << file.rdbuf();
  EXPECT_EQ(runs.str(),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
            R"("spec":{"interactive":false,"cluster":{"server":"https://api.test:443",)"
            R"("certificate-authority-data":"cGVt","config":{"audience":"ours"}}}} more get-token)"
            "\n");
}

TEST_F(CredentialsTest, AFailingPluginIsNamedWithItsWords) {
  UsePlugin("echo 'log in first' >&2\nexit 3\n");
  Answer("one");
  CredentialSource source(config_, clock_);
  EXPECT_TRUE(Contains(Token(source), "/plugin' ended with 3: log in first"));
  config_.exec->command = "no-such-janus-plugin";
  config_.exec->install_hint = "install it";
  CredentialSource absent(config_, clock_);
  EXPECT_TRUE(Contains(Token(absent), "there is no program 'no-such-janus-plugin'; install it"));
}

TEST(ExecCredential, RefusesWhatIsNoneAndNeverPrintsIt) {
  const ExecPlugin plugin{"client.authentication.k8s.io/v1", "login", {}, {}, "", false};
  const auto refusal = [&](const std::string& printed) {
    return ReadExecCredential(plugin, printed).status().message();
  };
  const std::string head =
      R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential")";
  EXPECT_TRUE(
      Contains(refusal(R"({"kind":"ExecCredential","apiVersion":"v0"})"), "no ExecCredential of"));
  EXPECT_TRUE(Contains(refusal(head + "}"), "neither a token nor"));
  EXPECT_TRUE(Contains(refusal(head + R"(,"status":{"clientKeyData":"k"}})"), "come together"));
  EXPECT_TRUE(Contains(
      refusal(head + R"(,"status":{"token":"hush","expirationTimestamp":"soon"}})"), "'soon'"));
  const Result<ExecCredential> read = ReadExecCredential(
      plugin, head + R"(,"status":{"clientCertificateData":"c","clientKeyData":"k"}})");
  EXPECT_EQ(read->certificate + read->key, "ck");
}

TEST(Program, IsKilledWithItsGroupWhenStoppedOrLate) {
  const Program sleeper{"/bin/sh", {"-c", "sleep 600 & echo begun; wait"}, {}};
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(RunProgram(sleeper, Seconds(600), stop.get_token()).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(RunProgram(sleeper, Seconds(0.01), {}).status().code(), StatusCode::kDeadlineExceeded);
}

TEST(Program, OutputIsBoundedAndComplete) {
  const Result<ProgramOutput> large =
      RunProgram({"/bin/sh", {"-c", "head -c 1048576 /dev/zero; echo oops >&2; exit 7"}, {}},
                 Scaled(Seconds(60)), {});
  ASSERT_TRUE(large.ok()) << large.status().ToString();
  EXPECT_EQ(large->out.size(), size_t{1} << 20);
  EXPECT_EQ(large->error, "oops\n");
  EXPECT_EQ(large->exit_code, 7);
  EXPECT_EQ(RunProgram({"/bin/cat", {"/dev/zero"}, {}}, Scaled(Seconds(60)), {}).status().code(),
            StatusCode::kResourceExhausted);
  // A grandchild that keeps the pipe open does not block us.
  EXPECT_EQ(
      RunProgram({"/bin/sh", {"-c", "sleep 5 & echo done"}, {}}, Scaled(Seconds(60)), {})->out,
      "done\n");
}

TEST(Rfc3339, ReadsAndWritesTheApisTimes) {
  const WallTime time = *ParseTime("2026-11-22T03:04:05.123456Z");
  EXPECT_EQ(FormatMicroTime(time), "2026-11-22T03:04:05.123456Z");
  EXPECT_EQ(FormatTime(time), "2026-11-22T03:04:05Z");
  EXPECT_EQ(FormatTime(*ParseTime("2026-03-01T00:30:00+01:00")), "2026-02-28T23:30:00Z");
  EXPECT_EQ(FormatMicroTime(*ParseTime("1970-01-01T00:00:00.5-00:30")),
            "1970-01-01T00:30:00.500000Z");
  EXPECT_EQ(FormatMicroTime(*ParseTime("2026-11-22T03:04:05.1234567891Z")),
            "2026-11-22T03:04:05.123456Z");
  for (const std::string_view bad :
       {"", "2026-11-22", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-22T24:00:00Z",
        "2026-11-22T03:04:05", "2026-11-22T03:04:05.Z", "2026-11-22T03:04:05Zz",
        "-026-11-22T03:04:05Z", "2026-11-22T03:04:-5Z"}) {
    EXPECT_FALSE(ParseTime(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace janus::control
