#include "operator/kube/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <latch>
#include <optional>
#include <thread>

#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "tests/support/contains.h"
#include "tests/support/kube/scripted_server.h"
#include "tests/support/passing_timeline.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

const Resource kPods{"", "v1", "pods", "Pod", true};
const Resource kScalers{"serving.janus.dev", "v1alpha1", "moerolescalers", "MoERoleScaler", true};
const ObjectKey kKey{"prod", "a"};
const std::string kPod =
    R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"prod","resourceVersion":"1"}})";

std::string Failure(int code, const std::string& reason) {
  return R"({"kind":"Status","message":"no","reason":")" + reason + R"(","code":)" +
         std::to_string(code) + "}";
}
std::string Event(const std::string& type, int version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":"a","resourceVersion":")" +
         std::to_string(version) + "\"}}}\n";
}

class ClientTest : public testing::Test {
 protected:
  // A server with that script, and a client that makes no real pauses.
  KubeClient& Serve(ScriptedServer::Answer answer, KubeClientOptions options = {}) {
    server_.emplace(std::move(answer));
    config_ = server_->config();
    config_.token = token_;
    return client_.emplace(config_, options, timeline_);
  }
  // Another client of the same server, in real time.
  std::unique_ptr<KubeClient> RealTimeClient(KubeClientOptions options = {}) {
    return std::make_unique<KubeClient>(config_, options, real_time_);
  }
  void Close() {
    client_.reset();
    server_.reset();
  }
  ApiResult<Node> Get(CallLimits limits = {}) {
    return client_->Get(kPods, kKey, Subresource::kNone, limits);
  }
  ApiResult<Node> Create(CallLimits limits = {}) {
    return client_->Create(kPods, *ParseJson(kPod, "test"), {}, limits);
  }

  TextSource token_;
  ClusterConfig config_;
  PassingTimeline timeline_;
  SystemTimeline real_time_;
  std::optional<ScriptedServer> server_;
  std::optional<KubeClient> client_;  // destroyed before the server
};

bool AnswerPod(const SeenRequest&, Peer& peer) {
  peer.Reply(200, kPod);
  return true;
}

TEST_F(ClientTest, EveryVerbAsksWhatTheApiDocuments) {
  token_.text = "secret";
  KubeClient& client = Serve(AnswerPod);
  const Node pod = *ParseJson(kPod, "test");
  const Node patch = *ParseJson(R"({"spec":{}})", "test");
  const WriteOptions dry{true, false};
  DeleteOptions deletion;
  deletion.uid = "u";
  deletion.resource_version = "7";
  deletion.grace_period_seconds = 0;
  deletion.propagation = Propagation::kForeground;
  EXPECT_TRUE(client.Get(kPods, kKey, Subresource::kStatus, {}).ok());
  EXPECT_TRUE(client.Create(kPods, pod, {}, {}).ok());
  EXPECT_TRUE(client.Update(kPods, pod, Subresource::kStatus, dry, {}).ok());
  EXPECT_TRUE(client.Apply(kPods, pod, Subresource::kNone, {}, {}).ok());
  EXPECT_TRUE(
      client.Patch(kScalers, kKey, PatchKind::kMerge, patch, Subresource::kScale, {}, {}).ok());
  EXPECT_TRUE(client.Patch(kPods, kKey, PatchKind::kJson, patch, Subresource::kNone, {}, {}).ok());
  EXPECT_TRUE(client.Delete(kPods, kKey, deletion, {}).ok());

  std::vector<std::string> seen;
  for (const SeenRequest& r : server_->requests()) {
    const auto type = r.headers.find("content-type");
    seen.push_back(r.method + " " + r.target + (type == r.headers.end() ? "" : " " + type->second));
    EXPECT_EQ(r.headers.at("user-agent"), "janus-operator/0.1.0");
    EXPECT_EQ(r.headers.at("authorization"), "Bearer secret");
    EXPECT_EQ(r.headers.at("accept"), "application/json");
  }
  const std::string place = "/api/v1/namespaces/prod/pods";
  const std::string by = "?fieldManager=janus-operator&fieldValidation=Strict";
  EXPECT_EQ(seen,
            (std::vector<std::string>{
                "GET " + place + "/a/status",
                "POST " + place + by + " application/json",
                "PUT " + place +
                    "/a/status?fieldManager=janus-operator&fieldValidation=Ignore&dryRun=All"
                    " application/json",
                "PATCH " + place + "/a" + by + "&force=true application/apply-patch+yaml",
                "PATCH /apis/serving.janus.dev/v1alpha1/namespaces/prod/moerolescalers/a/scale" +
                    by + " application/merge-patch+json",
                "PATCH " + place + "/a" + by + " application/json-patch+json",
                "DELETE " + place + "/a application/json",
            }));
  EXPECT_EQ(server_->requests()[1].body, kPod);
  EXPECT_EQ(server_->requests()[6].body,
            R"({"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground",)"
            R"("preconditions":{"uid":"u","resourceVersion":"7"},"gracePeriodSeconds":0})");
}

TEST_F(ClientTest, AListIsReadInChunks) {
  KubeClient& client = Serve([](const SeenRequest& request, Peer& peer) {
    const bool is_first = request.target.find("continue=") == request.target.npos;
    peer.Reply(
        200, is_first ? R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":"x&y"},)"
                        R"("items":[{"metadata":{"name":"a"}}]})"
                      : R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":null})");
    return true;
  });
  ListOptions options;
  options.selection = {"", "role in (a,b)", "status.phase=Running"};
  options.limit = 1;
  options.resource_version = "0";
  const ApiResult<ObjectList> first = client.List(kPods, options, {});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_EQ(first->items.size(), 1U);
  EXPECT_EQ(TextAt(first->items[0], {"kind"}), "Pod");
  EXPECT_EQ(TextAt(first->items[0], {"apiVersion"}), "v1");
  EXPECT_EQ(first->resource_version, "9");
  options.continue_token = first->continue_token;
  const ApiResult<ObjectList> second = client.List(kPods, options, {});
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE(second->items.empty());
  EXPECT_EQ(second->continue_token, "");
  const std::string selectors =
      "/api/v1/"
      "pods?labelSelector=role%20in%20%28a%2Cb%29&fieldSelector=status.phase%3DRunning&limit=1";
  EXPECT_EQ(server_->requests()[0].target,
            selectors + "&resourceVersion=0&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(server_->requests()[1].target, selectors + "&continue=x%26y");
}

TEST_F(ClientTest, AsksForJsonAlone) {
  KubeClient& client = Serve([](const SeenRequest& request, Peer& peer) {
    if (request.target.find("watch=") != std::string::npos) {
      peer.BeginChunks();
      peer.EndChunks();
    } else {
      peer.Reply(200, R"({"kind":"List","metadata":{"resourceVersion":"9"},"items":[]})");
    }
    return true;
  });
  EXPECT_TRUE(client.Get(kPods, kKey, Subresource::kNone, {}).ok());
  EXPECT_TRUE(client.List(kPods, {}, {}).ok());
  WatchOptions options;
  options.resource_version = "9";
  EXPECT_TRUE(client.Watch(kPods, options, [](const WatchEvent&) { return true; }, {}).ok());
  std::vector<std::string> accepted;
  for (const SeenRequest& request : server_->requests()) {
    accepted.push_back(request.headers.at("accept"));
  }
  EXPECT_EQ(accepted, std::vector<std::string>(3, "application/json"));
}

TEST_F(ClientTest, AReplyThatIsNotJsonIsNoReply) {
  KubeClient& client = Serve([](const SeenRequest&, Peer& peer) {
    peer.Reply(200, std::string_view("k8s\0\n\x0b", 6), "", "application/vnd.kubernetes.protobuf");
    return true;
  });
  const ApiResult<ObjectList> list = client.List(kPods, {}, {});
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().code, StatusCode::kDataLoss);
}

TEST_F(ClientTest, AConnectionIsKeptAndAClosedOneReplaced) {
  std::atomic<bool> closes = false;
  Serve([&](const SeenRequest&, Peer& peer) {
    const bool goes_on = !closes;  // before the reply, because the test continues after it
    peer.Reply(200, kPod);
    return goes_on;
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Create().ok());
  EXPECT_EQ(server_->requests().back().connection, 0);
  closes = true;
  EXPECT_TRUE(Create().ok());
  server_->WaitUntilClosed();
  // The server has closed an idle connection: the client does not write to it.
  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(server_->requests().back().connection, 1);
  server_->WaitUntilClosed();
  // A connection that was idle for long is not used either.
  closes = false;
  EXPECT_TRUE(Create().ok());
  const int before = server_->requests().back().connection;
  timeline_.Advance(Seconds(61));
  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(server_->requests().back().connection, before + 1);
  Close();  // while the script's variables exist
}

TEST_F(ClientTest, AnIdleConnectionWhoseServerHasGoneIsClosedWithoutACall) {
  KubeClientOptions options;
  options.transport.idle_sweep = Seconds(0.01);
  std::latch closed(1);
  Serve(
      [&](const SeenRequest&, Peer& peer) {
        peer.Reply(200, kPod);
        peer.EndSending();
        peer.HoldUntilClosed();  // until the client has closed its end too
        closed.count_down();
        return false;
      },
      options);
  EXPECT_TRUE(Get().ok());
  closed.wait();
  Close();
}

TEST_F(ClientTest, ACallClosesAllIdleConnectionsWhoseServerHasGone) {
  constexpr int kCalls = 3;
  KubeClientOptions options;
  options.transport.idle_sweep = Seconds(3600);
  std::latch are_asked(kCalls);
  std::latch are_ended(kCalls);
  std::latch are_closed(kCalls);
  Serve(
      [&](const SeenRequest& request, Peer& peer) {
        if (request.connection >= kCalls) {
          peer.Reply(200, kPod);
          return true;
        }
        are_asked.arrive_and_wait();  // each on a separate connection
        peer.Reply(200, kPod);
        peer.EndSending();
        are_ended.count_down();
        peer.HoldUntilClosed();
        are_closed.count_down();
        return false;
      },
      options);
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kCalls; ++i) callers.emplace_back([this] { EXPECT_TRUE(Get().ok()); });
  }
  are_ended.wait();
  EXPECT_TRUE(Create().ok());  // on another connection: the client does not write to those
  are_closed.wait();
  EXPECT_EQ(server_->requests().size(), kCalls + 1U);
  Close();
}

TEST_F(ClientTest, A429IsWaitedOutAsTheServerAsked) {
  std::atomic<int> left = 2;
  Serve([&](const SeenRequest&, Peer& peer) {
    if (left-- > 0) {
      peer.Reply(429, Failure(429, "TooManyRequests"), "Retry-After: 7\r\n");
    } else {
      peer.Reply(201, kPod);
    }
    return true;
  });
  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(timeline_.waits(), (std::vector<Seconds>{Seconds(7), Seconds(7)}));
}

TEST_F(ClientTest, APauseThatDoesNotFitTheCallIsNotBegun) {
  Serve([](const SeenRequest&, Peer& peer) {
    peer.Reply(429, Failure(429, "TooManyRequests"), "Retry-After: 31\r\n");
    return true;
  });
  const ApiResult<Node> refused = Create();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.error().retry_after, Seconds(31));
  EXPECT_EQ(timeline_.waits().size(), 0U);
}

TEST_F(ClientTest, AReadIsTriedAgainAfterServerErrorsAWriteIsNot) {
  Serve([](const SeenRequest&, Peer& peer) {
    peer.Reply(500, Failure(500, "InternalError"));
    return true;
  });
  EXPECT_EQ(Get().error().code, StatusCode::kUnavailable);
  EXPECT_EQ(server_->requests().size(), 5U);
  EXPECT_EQ(timeline_.waits().size(), 4U);
  const ApiResult<Node> created = Create();
  EXPECT_EQ(created.error().reason, "InternalError");
  EXPECT_TRUE(created.error().outcome_unknown);
  EXPECT_EQ(server_->requests().size(), 6U);
}

TEST_F(ClientTest, AWriteWhoseReplyIsLostIsNotDoneTwice) {
  Serve([](const SeenRequest& request, Peer& peer) {
    if (request.method == "POST") {
      peer.Reset();  // the write was done, but the reply is lost
      return false;
    }
    peer.Reply(200, kPod);
    return true;
  });
  const ApiResult<Node> created = Create();
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code, StatusCode::kUnavailable);
  EXPECT_TRUE(created.error().outcome_unknown);
  EXPECT_EQ(server_->requests().size(), 1U);
  EXPECT_TRUE(Get().ok());  // on a new connection
}

TEST_F(ClientTest, AReadOrAnApplyWhoseReplyIsLostIsDoneAgain) {
  std::atomic<int> resets = 0;
  Serve([&](const SeenRequest&, Peer& peer) {
    if (resets++ % 2 == 0) {
      peer.SendRaw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half\":");
      peer.Reset();
      return false;
    }
    peer.Reply(200, kPod);
    return true;
  });
  EXPECT_TRUE(Get().ok());
  EXPECT_TRUE(client_->Apply(kPods, *ParseJson(kPod, "test"), Subresource::kNone, {}, {}).ok());
  EXPECT_EQ(server_->requests().size(), 4U);
}

TEST_F(ClientTest, NobodyListeningIsTriedAgainEvenForWrites) {
  Serve(AnswerPod);
  ClusterConfig nowhere = config_;
  {
    const ScriptedServer gone(AnswerPod);
    nowhere.port = gone.port();
  }
  KubeClient client(nowhere, {}, timeline_);
  const ApiResult<Node> created = client.Create(kPods, *ParseJson(kPod, "test"), {}, {});
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code, StatusCode::kUnavailable);
  EXPECT_FALSE(created.error().outcome_unknown);
  EXPECT_TRUE(Contains(created.error().message, "127.0.0.1"));
  EXPECT_EQ(timeline_.waits().size(), 4U);
}

TEST_F(ClientTest, AStalledServerDoesNotHoldACall) {
  for (const std::string begun :
       {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"}) {
    Serve([&](const SeenRequest&, Peer& peer) {
      peer.SendRaw(begun);
      peer.HoldUntilClosed();
      return false;
    });
    const ApiResult<Node> got =
        RealTimeClient()->Create(kPods, *ParseJson(kPod, "test"), {}, {Scaled(Seconds(1)), {}});
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, StatusCode::kDeadlineExceeded) << got.status().ToString();
    EXPECT_TRUE(got.error().outcome_unknown);
    Close();
  }
}

TEST_F(ClientTest, AServerThatDripsBytesDoesNotHoldACall) {
  std::atomic<bool> is_over = false;
  Serve([&](const SeenRequest&, Peer& peer) {
    peer.SendRaw("HTTP/1.1 200 OK\r\nX: ");
    while (!is_over) {
      peer.SendRaw("x");
      std::this_thread::yield();
    }
    return false;
  });
  const ApiResult<Node> got =
      RealTimeClient()->Get(kPods, kKey, Subresource::kNone, {Seconds(1), {}});
  is_over = true;
  EXPECT_FALSE(got.ok());
  Close();  // while the script's variables exist
}

TEST_F(ClientTest, ACallIsStoppedWhereverItStands) {
  std::stop_source stop;
  Serve([&](const SeenRequest&, Peer& peer) {
    stop.request_stop();
    peer.HoldUntilClosed();
    return false;
  });
  ApiResult<Node> got = Create({Seconds(600), stop.get_token()});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, StatusCode::kCancelled);
  EXPECT_TRUE(got.error().outcome_unknown);
  got = Create({Seconds(600), stop.get_token()});  // stopped before it started
  EXPECT_EQ(got.error().code, StatusCode::kCancelled);
  EXPECT_EQ(server_->requests().size(), 1U);
}

TEST_F(ClientTest, AnExpiredTokenIsReadAgainOnce) {
  const TempFolder folder;
  folder.Write("token", "one");
  token_.file = folder.path() + "/token";
  std::atomic<bool> is_expired = false;
  Serve([&](const SeenRequest& request, Peer& peer) {
    const std::string token = request.headers.at("authorization");
    if (is_expired && token == "Bearer one") {
      peer.Reply(401, Failure(401, "Unauthorized"));
    } else {
      peer.Reply(200, kPod);
    }
    return true;
  });
  EXPECT_TRUE(Create().ok());
  is_expired = true;
  folder.Write("token", "two");
  EXPECT_TRUE(Create().ok());  // refused, so not executed: even a write is retried
  EXPECT_EQ(server_->requests().size(), 3U);
  // The same refused token is not retried forever.
  folder.Write("token", "one");
  timeline_.Advance(Seconds(11));
  const ApiResult<Node> refused = Create();
  EXPECT_EQ(refused.error().code, StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.error().reason, "Unauthorized");
  EXPECT_EQ(server_->requests().size(), 4U);
}

TEST_F(ClientTest, APluginThatHangsHoldsNoCallAndNoEnd) {
  Serve(AnswerPod);
  config_.exec =
      ExecPlugin{"client.authentication.k8s.io/v1", "/bin/sleep", {"600"}, {}, "", false};
  const std::unique_ptr<KubeClient> client = RealTimeClient();
  ApiResult<Node> got = client->Get(kPods, kKey, Subresource::kNone, {Seconds(0.1), {}});
  EXPECT_EQ(got.error().code, StatusCode::kDeadlineExceeded) << got.status().ToString();
  EXPECT_FALSE(got.error().outcome_unknown);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  got = client->Get(kPods, kKey, Subresource::kNone, {Seconds(600), stop.get_token()});
  EXPECT_EQ(got.error().code, StatusCode::kCancelled) << got.status().ToString();
  WatchOptions watch;
  watch.resource_version = "5";
  const ApiResult<WatchEnd> watched = client->Watch(
      kPods, watch, [](const WatchEvent&) { return true; }, stop.get_token());
  EXPECT_EQ(watched.error().code, StatusCode::kCancelled) << watched.status().ToString();
  EXPECT_TRUE(server_->requests().empty());
}  // the plugin ends with its client

TEST_F(ClientTest, CallsShareABoundedNumberOfConnections) {
  KubeClientOptions options;
  options.transport.connections = 2;
  Serve(AnswerPod, options);
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([this] {
        for (int call = 0; call < 5; ++call) EXPECT_TRUE(Get().ok());
      });
    }
  }
  int most = 0;
  for (const SeenRequest& request : server_->requests()) most = std::max(most, request.connection);
  EXPECT_EQ(server_->requests().size(), 40U);
  EXPECT_LE(most, 1);
}

TEST_F(ClientTest, CallsKeepToTheRateLimit) {
  KubeClientOptions options;
  options.transport.calls_per_second = 10;
  options.transport.burst = 2;
  Serve(AnswerPod, options);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Get().ok());
  EXPECT_EQ(timeline_.waits().size(), 3U);
  for (const Seconds wait : timeline_.waits()) EXPECT_NEAR(wait.count(), 0.1, 1e-6);
}

// A timeline that does not advance; it stops any call that waits.
class StoppingTimeline final : public Timeline {
 public:
  MonotonicTime Now() const override { return clock_.Now(); }
  WallTime WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(MonotonicTime, const std::stop_token&) const override { return false; }
  FakeClock& clock() { return clock_; }

 private:
  FakeClock clock_;
};

TEST_F(ClientTest, CallsThatAreRefusedOrStoppedWhileTheyWaitOweNoTurn) {
  Serve(AnswerPod);
  StoppingTimeline timeline;
  KubeClientOptions options;
  options.transport.calls_per_second = 1;
  options.transport.burst = 1;
  KubeClient client(config_, options, timeline);
  const auto get = [&](Seconds timeout) {
    return client.Get(kPods, kKey, Subresource::kNone, {timeout, {}});
  };
  EXPECT_TRUE(get(Seconds(30)).ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(get(Seconds(0.5)).error().code, StatusCode::kDeadlineExceeded);  // its turn is too
                                                                               // late
    EXPECT_FALSE(get(Seconds(30)).ok());  // its wait is stopped
  }
  timeline.clock().Advance(Seconds(1));
  EXPECT_TRUE(get(Seconds(30)).ok());
  EXPECT_EQ(server_->requests().size(), 2U);
}

TEST_F(ClientTest, AReplyIsJudgedAndBounded) {
  std::string body = "<html>";
  Serve([&](const SeenRequest& request, Peer& peer) {
    if (request.method == "POST") {
      peer.Reply(200, body);
      return true;
    }
    peer.BeginChunks();
    const std::string chunk(size_t{1} << 20, ' ');
    for (int i = 0; i < 65; ++i) peer.SendChunk(chunk);
    return false;
  });
  const ApiResult<Node> created = Create();
  EXPECT_EQ(created.error().code, StatusCode::kDataLoss);
  EXPECT_TRUE(created.error().outcome_unknown);
  const ApiResult<Node> got = Get();
  EXPECT_EQ(got.error().code, StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(got.error().message, "67108864 bytes"));
}

class WatchTest : public ClientTest {
 protected:
  ApiResult<WatchEnd> Watch(KubeClient& client, size_t most = 1000, std::stop_token stop = {}) {
    WatchOptions options;
    options.selection.namespace_ = "prod";
    options.resource_version = "5";
    return client.Watch(
        kPods, options,
        [&](WatchEvent event) {
          versions_.emplace_back(ResourceVersionOf(event.object));
          return versions_.size() < most;
        },
        stop);
  }
  std::vector<std::string> versions_;
};

TEST_F(WatchTest, EventsComeInOrderUntilTheServerEndsIt) {
  KubeClient& client = Serve([](const SeenRequest&, Peer& peer) {
    peer.BeginChunks();
    const std::string events = Event("ADDED", 6) + Event("MODIFIED", 7) + Event("BOOKMARK", 9);
    for (size_t at = 0; at < events.size(); at += 11) peer.SendChunk(events.substr(at, 11));
    peer.EndChunks();
    return true;
  });
  const ApiResult<WatchEnd> end = Watch(client);
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_EQ(*end, WatchEnd::kServer);
  EXPECT_EQ(versions_, (std::vector<std::string>{"6", "7", "9"}));
  EXPECT_EQ(server_->requests()[0].target,
            "/api/v1/namespaces/prod/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5&"
            "timeoutSeconds=300");
}

TEST_F(WatchTest, AsksForInitialEventsOfTheNewestStateOrOneThatIsNotOlder) {
  KubeClient& client = Serve([](const SeenRequest&, Peer& peer) {
    peer.BeginChunks();
    peer.EndChunks();
    return true;
  });
  for (const char* const version : {"", "5"}) {
    WatchOptions options;
    options.resource_version = version;
    options.initial_events = true;
    EXPECT_TRUE(client.Watch(kPods, options, [](const WatchEvent&) { return true; }, {}).ok());
  }
  const std::string begin =
      "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&"
      "resourceVersionMatch=NotOlderThan&";
  EXPECT_EQ(server_->requests()[0].target, begin + "timeoutSeconds=300");
  EXPECT_EQ(server_->requests()[1].target, begin + "resourceVersion=5&timeoutSeconds=300");
}

TEST_F(WatchTest, EndsWhenTheReaderHasEnough) {
  KubeClient& client = Serve([](const SeenRequest&, Peer& peer) {
    peer.BeginChunks();
    peer.SendChunk(Event("ADDED", 6) + Event("ADDED", 7) + Event("ADDED", 8));
    peer.HoldUntilClosed();
    return false;
  });
  const ApiResult<WatchEnd> end = Watch(client, 2);
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_EQ(*end, WatchEnd::kConsumer);
  EXPECT_EQ(versions_.size(), 2U);
}

TEST_F(WatchTest, ACutInsideAnEventIsAnErrorAndNoEvent) {
  for (const bool is_proper : {false, true}) {
    versions_.clear();
    KubeClient& client = Serve([&](const SeenRequest&, Peer& peer) {
      peer.BeginChunks();
      peer.SendChunk(Event("ADDED", 6) + Event("ADDED", 7).substr(0, 30));
      if (is_proper) peer.EndChunks();  // a proxy that hides the failure behind it
      return false;
    });
    const ApiResult<WatchEnd> end = Watch(client);
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, StatusCode::kUnavailable) << end.status().ToString();
    EXPECT_EQ(versions_, (std::vector<std::string>{"6"}));
    Close();
  }
}

// A proxy may close an idle connection before the first bookmark, without notice. Nothing is lost,
// so this is not a failure.
TEST_F(WatchTest, ACutBetweenEventsIsItsEnd) {
  enum class Cut { kAfterTheHead, kAfterAnEvent, kByAReset };
  for (const Cut cut : {Cut::kAfterTheHead, Cut::kAfterAnEvent, Cut::kByAReset}) {
    SCOPED_TRACE(static_cast<int>(cut));
    std::latch is_taken(1);
    KubeClient& client = Serve([&](const SeenRequest&, Peer& peer) {
      peer.BeginChunks();
      if (cut != Cut::kAfterTheHead) {
        peer.SendChunk(Event("ADDED", 6));
        is_taken.wait();
      }
      if (cut == Cut::kByAReset) peer.Reset();
      return false;
    });
    WatchOptions options;
    options.resource_version = "5";
    const auto take = [&](const WatchEvent&) {
      is_taken.count_down();
      return true;
    };
    const ApiResult<WatchEnd> end = client.Watch(kPods, options, take, {});
    ASSERT_TRUE(end.ok()) << end.status().ToString();
    EXPECT_EQ(*end, WatchEnd::kServer);
    Close();
  }
}

TEST_F(WatchTest, TooOldAVersionSaysSoInAReplyAndInAnEvent) {
  for (const bool in_event : {false, true}) {
    KubeClient& client = Serve([&](const SeenRequest&, Peer& peer) {
      if (in_event) {
        peer.BeginChunks();
        peer.SendChunk(R"({"type":"ERROR","object":)" + Failure(410, "Expired") + "}\n");
        peer.HoldUntilClosed();
        return false;
      }
      peer.Reply(410, Failure(410, "Expired"));
      return true;
    });
    const ApiResult<WatchEnd> end = Watch(client);
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, StatusCode::kOutOfRange);
    Close();
  }
}

TEST_F(WatchTest, ASilentOneIsCutAndIsAFailureUnlessItHadBeenTaken) {
  const std::string event = Event("ADDED", 6);
  enum class Told { kNothing, kHead, kEvent, kHalfAnEvent };
  for (const Told told : {Told::kNothing, Told::kHead, Told::kEvent, Told::kHalfAnEvent}) {
    SCOPED_TRACE(static_cast<int>(told));
    versions_.clear();
    Serve([&](const SeenRequest&, Peer& peer) {
      if (told != Told::kNothing) peer.BeginChunks();
      if (told == Told::kEvent) peer.SendChunk(event);
      if (told == Told::kHalfAnEvent) peer.SendChunk(event.substr(0, 30));
      peer.HoldUntilClosed();
      return false;
    });
    KubeClientOptions options;
    options.watch_silence = Scaled(Seconds(1));
    const ApiResult<WatchEnd> end = Watch(*RealTimeClient(options));
    if (told == Told::kHead || told == Told::kEvent) {
      ASSERT_TRUE(end.ok()) << end.status().ToString();
      EXPECT_EQ(*end, WatchEnd::kSilence);
    } else {
      ASSERT_FALSE(end.ok());
      EXPECT_EQ(end.error().code, StatusCode::kUnavailable) << end.status().ToString();
    }
    EXPECT_EQ(versions_.size(), told == Told::kEvent ? 1U : 0U);
    Close();
  }
}

TEST_F(WatchTest, IsStoppedWhileNothingHappens) {
  std::stop_source stop;
  KubeClient& client = Serve([&](const SeenRequest&, Peer& peer) {
    peer.BeginChunks();
    stop.request_stop();
    peer.HoldUntilClosed();
    return false;
  });
  const ApiResult<WatchEnd> end = Watch(client, 1000, stop.get_token());
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kCancelled);
}

TEST_F(WatchTest, ItsConnectionIsItsOwnAndTheirNumberIsBounded) {
  KubeClientOptions options;
  options.transport.connections = 1;
  options.transport.watches = 1;
  std::stop_source stop;
  std::latch is_open(1);
  KubeClient& client = Serve(
      [&](const SeenRequest& request, Peer& peer) {
        if (request.target.find("watch=") == request.target.npos) {
          peer.Reply(200, kPod);
          return true;
        }
        peer.BeginChunks();
        is_open.count_down();
        peer.HoldUntilClosed();
        return false;
      },
      options);
  std::jthread watcher([&] { EXPECT_FALSE(Watch(client, 1000, stop.get_token()).ok()); });
  is_open.wait();
  EXPECT_TRUE(Get().ok());
  WatchOptions second;
  second.resource_version = "5";
  const ApiResult<WatchEnd> refused =
      client.Watch(kPods, second, [](const WatchEvent&) { return true; }, {});
  EXPECT_EQ(refused.error().code, StatusCode::kFailedPrecondition);
  stop.request_stop();
}

TEST(Deadlines, CutsWhatIsDueAndNothingElse) {
  FakeClock clock;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const auto is_cut = [&] {
    char byte;
    return recv(theirs.get(), &byte, 1, MSG_DONTWAIT) == 0;
  };
  Deadlines deadlines;
  EXPECT_EQ(deadlines.Next(), std::nullopt);
  const Deadlines::Id id = deadlines.Add(ours.get(), clock.Now() + std::chrono::seconds(90));
  clock.Advance(Seconds(89));
  deadlines.Cut(clock.Now());
  EXPECT_FALSE(is_cut());
  deadlines.Move(id, clock.Now() + std::chrono::seconds(90));  // data arrived
  EXPECT_EQ(deadlines.Next(), clock.Now() + std::chrono::seconds(90));
  clock.Advance(Seconds(89));
  deadlines.Cut(clock.Now());
  EXPECT_FALSE(is_cut());
  clock.Advance(Seconds(1));
  deadlines.Cut(clock.Now());
  EXPECT_TRUE(is_cut());
  EXPECT_EQ(deadlines.Next(), std::nullopt);
  EXPECT_TRUE(deadlines.Remove(id));
  EXPECT_FALSE(deadlines.Remove(id));
}

}  // namespace
}  // namespace janus::control
