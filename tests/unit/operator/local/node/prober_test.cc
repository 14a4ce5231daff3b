#include "operator/local/node/prober.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <map>
#include <memory>
#include <thread>

#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

constexpr Seconds kSoon{0.002};
constexpr Seconds kNever{100000};

// The probed server: replies by path, and counts requests.
class Server {
 public:
  explicit Server(const std::string& unix_path = "") {
    for (const char* path : {"/startup", "/live", "/ready"}) {
      server_.Get(path, [this, path](const httplib::Request&, httplib::Response& reply) {
        reply.status = Answer(path);
      });
    }
    if (!unix_path.empty()) {
      server_.set_address_family(AF_UNIX);
      EXPECT_TRUE(server_.bind_to_port(unix_path, 80));
      address_ = "unix:" + unix_path;
    } else {
      address_ = "127.0.0.1:" + std::to_string(server_.bind_to_any_port("127.0.0.1"));
    }
    thread_ = std::jthread([this] { server_.listen_after_bind(); });
  }
  ~Server() {
    Set("", 200);
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
  }

  const std::string& address() const { return address_; }
  // 0: no reply. An empty path: all paths.
  void Set(const std::string& path, int status) {
    const MutexLock lock(mu_);
    for (auto& [one, answer] : answers_) {
      if (path.empty() || one == path) answer = status;
    }
    changed_.NotifyAll();
  }
  int asked(const std::string& path) {
    const MutexLock lock(mu_);
    return asked_[path];
  }
  // Waits until it gets that many more requests.
  void AwaitAsked(const std::string& path, int times = 1) {
    const MutexLock lock(mu_);
    const int wanted = asked_[path] + times;
    while (asked_[path] < wanted) changed_.Wait(mu_);
  }
  // Waits until a request hangs.
  void AwaitHanging(const std::string& path) {
    const MutexLock lock(mu_);
    while (hanging_[path] == 0) changed_.Wait(mu_);
  }

 private:
  int Answer(const std::string& path) {
    const MutexLock lock(mu_);
    ++asked_[path];
    ++hanging_[path];
    changed_.NotifyAll();
    while (answers_[path] == 0) changed_.Wait(mu_);
    --hanging_[path];
    return answers_[path];
  }

  Mutex mu_;
  CondVar changed_;
  std::map<std::string, int> answers_ JANUS_GUARDED_BY(mu_) = {
      {"/startup", 200}, {"/live", 200}, {"/ready", 200}};
  std::map<std::string, int> asked_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, int> hanging_ JANUS_GUARDED_BY(mu_);
  std::string address_;
  httplib::Server server_;
  std::jthread thread_;
};

class ProberTest : public testing::Test {
 protected:
  Prober::Options Options(const std::string& address) {
    Prober::Options out;
    out.address = address;
    out.startup = Probe{"/startup", kSoon, kNever, 1'000'000};
    out.liveness = Probe{"/live", kSoon, kNever, 3};
    out.readiness = Probe{"/ready", kSoon, kNever, 1};
    out.starting_period = kSoon;
    return out;
  }
  void Start(const Prober::Options& options) {
    prober_ = std::make_unique<Prober>(options, [this] {
      const MutexLock lock(mu_);
      changed_.NotifyAll();
    });
  }
  // Waits until `holds` is true of the result. It is woken by each change and does not poll.
  template <class Holds>
  Probed AwaitSeen(const Holds& holds) {
    const MutexLock lock(mu_);
    while (true) {
      const Probed seen = prober_->seen();
      if (holds(seen)) return seen;
      changed_.Wait(mu_);
    }
  }
  Probed AwaitReady() {
    return AwaitSeen([](const Probed& seen) { return seen.is_ready; });
  }
  Probed AwaitDead() {
    return AwaitSeen([](const Probed& seen) { return !seen.is_dead.empty(); });
  }

  TempFolder folder_;
  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<Prober> prober_;
};

TEST_F(ProberTest, FindsWhatIsUp) {
  for (const std::string& path : {std::string(), folder_.path() + "/p1:9100"}) {
    Server server(path);
    Start(Options(server.address()));
    EXPECT_EQ(AwaitReady(), (Probed{true, true, ""}));
    prober_.reset();
  }
}

TEST_F(ProberTest, AsksAboutTheRestOnceItHasStarted) {
  Server server;
  server.Set("/startup", 503);
  Start(Options(server.address()));
  server.AwaitAsked("/startup", 5);
  EXPECT_EQ(prober_->seen(), Probed());
  EXPECT_EQ(server.asked("/live") + server.asked("/ready"), 0);
  server.Set("/ready", 503);
  server.Set("/startup", 200);
  EXPECT_EQ(AwaitSeen([](const Probed& seen) { return seen.is_started; }),
            (Probed{true, false, ""}));
  server.Set("/ready", 200);
  AwaitReady();
}

TEST_F(ProberTest, RedirectionsAreASuccessAndRefusalsAreNot) {
  const struct {
    int status;
    bool is_success;
  } rows[] = {{200, true}, {204, true}, {399, true}, {400, false}, {404, false}, {500, false}};
  for (const auto& row : rows) {
    Server server;
    server.Set("/ready", row.status);
    Start(Options(server.address()));
    server.AwaitAsked("/ready", 2);  // the second request shows that the first reply was processed
    EXPECT_EQ(prober_->seen().is_ready, row.is_success) << row.status;
    prober_.reset();
  }
}

TEST_F(ProberTest, ProbesThatAreNotGivenSucceed) {
  Prober::Options options;
  options.address = "no address at all";
  Start(options);
  EXPECT_EQ(AwaitReady(), (Probed{true, true, ""}));
}

TEST_F(ProberTest, NobodyAtTheAddressIsAFailure) {
  for (const char* address : {"unix:/no/such/socket", "127.0.0.1:1", "nonsense"}) {
    Prober::Options options = Options(address);
    options.startup.reset();
    options.liveness->failures = 2;
    Start(options);
    EXPECT_EQ(AwaitDead(), (Probed{true, false, "Liveness probe failed 2 times"})) << address;
    prober_.reset();
  }
}

TEST_F(ProberTest, UntilItsFirstSuccessAProbeIsRepeatedMoreOften) {
  Server server;
  server.Set("/startup", 503);
  server.Set("/ready", 503);
  Prober::Options options = Options(server.address());
  options.startup->period = kNever;
  options.readiness->period = kNever;
  Start(options);
  server.AwaitAsked("/startup", 3);
  server.Set("/startup", 200);
  server.AwaitAsked("/ready", 3);
  server.Set("/ready", 200);
  AwaitReady();
  // From now on it uses its own period, which is longer than this test, however often the other is
  // probed.
  const int asked = server.asked("/ready");
  server.AwaitAsked("/live", 10);
  EXPECT_EQ(server.asked("/ready"), asked);
}

TEST_F(ProberTest, ReadinessIsLostAfterSoManyFailuresInARowAndFoundAgain) {
  Server server;
  Prober::Options options = Options(server.address());
  options.readiness->failures = 1000;
  Start(options);
  AwaitReady();
  server.Set("/ready", 503);
  server.AwaitAsked("/ready", 20);
  EXPECT_TRUE(prober_->seen().is_ready);
  server.Set("/ready", 200);
  server.AwaitAsked("/ready", 2);
  prober_.reset();

  options.readiness->failures = 3;
  Start(options);
  AwaitReady();
  server.Set("/ready", 503);
  EXPECT_EQ(AwaitSeen([](const Probed& seen) { return !seen.is_ready; }),
            (Probed{true, false, ""}));
  server.Set("/ready", 200);
  AwaitReady();
}

TEST_F(ProberTest, WhatIsNotLiveIsDeadAfterSoManyFailuresInARow) {
  Server server;
  Prober::Options options = Options(server.address());
  options.liveness->failures = 4;
  Start(options);
  AwaitReady();
  server.Set("/live", 500);
  const Probed dead = AwaitDead();
  EXPECT_EQ(dead.is_dead, "Liveness probe failed 4 times");
  EXPECT_TRUE(dead.is_started);
  // This was the last result of this run: while another prober continues at the same period, this
  // one probes no more.
  server.Set("/live", 200);
  server.Set("/ready", 503);
  const int asked = server.asked("/live") + server.asked("/ready");
  Prober::Options others;
  others.address = server.address();
  others.liveness = Probe{"/startup", kSoon, kNever, 3};
  const Prober other(others, [] {});
  server.AwaitAsked("/startup", 20);
  EXPECT_EQ(server.asked("/live") + server.asked("/ready"), asked);
  EXPECT_EQ(prober_->seen(), dead);
}

TEST_F(ProberTest, WhatDoesNotStartInItsTimeIsDead) {
  Server server;
  server.Set("/startup", 503);
  Prober::Options options = Options(server.address());
  options.startup->period = Seconds(0.02);
  options.startup->failures = 3;
  Start(options);
  EXPECT_EQ(AwaitDead(), (Probed{false, false, "Startup probe failed"}));
  EXPECT_GE(server.asked("/startup"), 1);
  EXPECT_EQ(server.asked("/live") + server.asked("/ready"), 0);
}

TEST_F(ProberTest, AProbeThatHangsFailsWhenItsTimeIsOver) {
  Server server;
  server.Set("/live", 0);
  Prober::Options options = Options(server.address());
  options.readiness.reset();
  options.liveness->timeout = Seconds(0.02);
  options.liveness->failures = 2;
  Start(options);
  EXPECT_EQ(AwaitDead().is_dead, "Liveness probe failed 2 times");
}

TEST_F(ProberTest, AProbeThatHangsIsGivenUpAtTheEnd) {
  for (const char* path : {"/startup", "/live", "/ready"}) {
    Server server;
    server.Set("", 200);
    server.Set(path, 0);
    Start(Options(server.address()));
    server.AwaitHanging(path);
    prober_.reset();  // returns
  }
}

TEST_F(ProberTest, NoProbeIsBegunAfterOneThatWasGivenUp) {
  // Both probes are due: the second would hang as the first did.
  Server server;
  server.Set("/ready", 0);
  server.Set("/live", 0);
  Start(Options(server.address()));
  server.AwaitHanging("/ready");
  prober_.reset();
  EXPECT_EQ(server.asked("/live"), 0);
}

TEST_F(ProberTest, EndsWhileItWaits) {
  Server server;
  Prober::Options options = Options(server.address());
  options.liveness->period = options.readiness->period = kNever;
  Start(options);
  AwaitReady();
  prober_.reset();  // returns
}

}  // namespace
}  // namespace janus::control
