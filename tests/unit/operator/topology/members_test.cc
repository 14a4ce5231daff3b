#include "operator/topology/members.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"

namespace janus::control {
namespace {

using namespace std::chrono_literals;

// The order in which members were written to.
struct Journal {
  Mutex mu;
  std::vector<std::string> commits JANUS_GUARDED_BY(mu);
};

// Lets nobody pass until `count` stand before it.
class Gate {
 public:
  explicit Gate(int count) : missing_(count) {}
  void Pass() {
    MutexLock lock(mu_);
    --missing_;
    changed_.NotifyAll();
    const MonotonicTime deadline = MonotonicClock::now() + 20s;
    while (missing_ > 0 && MonotonicClock::now() < deadline) changed_.WaitUntil(mu_, deadline);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int missing_ JANUS_GUARDED_BY(mu_);
};

class Member final : public v1::Control::Service {
 public:
  Member(std::string name, Journal& journal) : name_(std::move(name)), journal_(journal) {}

  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest*,
                       grpc::ServerWriter<v1::PrepareProgress>* writer) override {
    if (!prepared.ok()) return prepared;
    v1::PrepareProgress progress;
    progress.set_phase("weights");
    progress.set_bytes_done(50);
    progress.set_bytes_total(50);
    if (silent) return Hold(context);
    writer->Write(progress);
    if (connects) {  // a phase without bytes of its own
      v1::PrepareProgress connect;
      connect.set_phase("connect");
      writer->Write(connect);
      return Hold(context);
    }
    v1::PrepareProgress last;  // as workers end: without figures
    last.set_done(true);
    writer->Write(last);
    return grpc::Status::OK;
  }
  grpc::Status Commit(grpc::ServerContext*, const v1::CommitRequest*, v1::CommitReply*) override {
    MutexLock lock(journal_.mu);
    journal_.commits.push_back(name_);
    return committed;
  }
  grpc::Status GetStatistics(grpc::ServerContext*, const v1::GetStatisticsRequest*,
                             v1::Statistics* reply) override {
    if (statistics_gate != nullptr) statistics_gate->Pass();
    reply->set_epoch(1);
    *reply->add_instances() = ToProto(InstanceStatistics());
    return grpc::Status::OK;
  }

  Gate* statistics_gate = nullptr;
  grpc::Status prepared;
  grpc::Status committed;
  bool silent = false;    // says nothing until it is cancelled
  bool connects = false;  // goes on to connect, and stays there until it is cancelled

 private:
  static grpc::Status Hold(grpc::ServerContext* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  }

  const std::string name_;
  Journal& journal_;
};

class MembersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string dir = "/tmp/jmembers-XXXXXX";
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    dir_ = dir;
    std::vector<Members::Member> list;
    for (const auto& [name, role] : {std::pair{"attention-0", Role::kAttention},
                                     {"experts-0", Role::kExperts},
                                     {"experts-1", Role::kExperts}}) {
      services_.push_back(std::make_unique<Member>(name, journal_));
      grpc::ServerBuilder builder;
      const std::string address = "unix:" + dir_ + "/" + name;
      builder.AddListeningPort(address, grpc::InsecureServerCredentials());
      builder.RegisterService(services_.back().get());
      servers_.push_back(builder.BuildAndStart());
      list.push_back({name, address, role});
    }
    members_ = std::make_unique<Members>(list, Leader{"uid", 1});
  }
  void TearDown() override {
    members_.reset();
    for (auto& server : servers_) server->Shutdown();
    std::filesystem::remove_all(dir_);
  }
  Status Prepare(PrepareProgress* progress = nullptr) {
    const auto call = members_->Prepare(Topology(), ServicePlan(), {});
    const MonotonicTime deadline = MonotonicClock::now() + 20s;
    while (!call->done() && MonotonicClock::now() < deadline) std::this_thread::yield();
    if (progress != nullptr) *progress = call->progress();
    return call->result();
  }
  template <class Condition>
  static void AwaitThat(const Condition& condition) {
    const MonotonicTime deadline = MonotonicClock::now() + 20s;
    while (!condition()) {
      ASSERT_LT(MonotonicClock::now(), deadline);
      std::this_thread::yield();
    }
  }
  std::vector<std::string> commits() {
    MutexLock lock(journal_.mu);
    return journal_.commits;
  }

  std::string dir_;
  Journal journal_;
  std::vector<std::unique_ptr<Member>> services_;
  std::vector<std::unique_ptr<grpc::Server>> servers_;
  std::unique_ptr<Members> members_;
};

TEST_F(MembersTest, SumsTheProgressOfAll) {
  PrepareProgress progress;
  const Status status = Prepare(&progress);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(progress.bytes_done, 150u);
  EXPECT_EQ(progress.bytes_total, 150u);
}

TEST_F(MembersTest, KeepsTheBytesOfAMemberThatConnects) {
  services_[1]->connects = true;
  const auto call = members_->Prepare(Topology(), ServicePlan(), {});
  const auto is_connecting = [&] {
    const std::vector<PendingMember> pending = call->pending();
    return pending.size() == 1 && pending[0].phase == "connect";
  };
  AwaitThat(is_connecting);
  EXPECT_EQ(call->progress().bytes_done, 150u);
  EXPECT_EQ(call->progress().bytes_total, 150u);
}

TEST_F(MembersTest, CountsNoBytesBeforeEveryMemberHasSaidItsOwn) {
  services_[2]->silent = true;
  const auto call = members_->Prepare(Topology(), ServicePlan(), {});
  AwaitThat([&] { return call->pending().size() == 1; });
  EXPECT_EQ(call->progress().bytes_total, 0u) << "it would grow, and the share done would shrink";
  EXPECT_EQ(call->progress().bytes_done, 0u);
}

TEST_F(MembersTest, NamesTheMembersThatAreNotDoneLongestSilentFirst) {
  services_[0]->connects = true;
  services_[2]->silent = true;
  const MonotonicTime asked = MonotonicClock::now();
  const auto call = members_->Prepare(Topology(), ServicePlan(), {});
  std::vector<PendingMember> pending;
  AwaitThat([&] {
    pending = call->pending();
    return pending.size() == 2 && pending[1].phase == "connect";
  });
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[0].name, "experts-1");
  EXPECT_EQ(pending[0].phase, "");
  EXPECT_GE(pending[0].last_heard, asked);
  EXPECT_EQ(pending[1].name, "attention-0");
  EXPECT_GT(pending[1].last_heard, pending[0].last_heard);
  EXPECT_FALSE(call->done());
}

TEST_F(MembersTest, NamesTheMemberThatRefused) {
  services_[2]->prepared = {grpc::StatusCode::INVALID_ARGUMENT, "model.safetensors: truncated"};
  EXPECT_EQ(Prepare(), InvalidArgument("experts-1: model.safetensors: truncated"));
}

TEST_F(MembersTest, TellsTheCauseBeforeItsConsequences) {
  services_[0]->prepared = {grpc::StatusCode::UNAVAILABLE, "experts-1 does not answer"};
  services_[2]->prepared = {grpc::StatusCode::INVALID_ARGUMENT, "NaN in a weight"};
  const auto call = members_->Prepare(Topology(), ServicePlan(), {});
  const MonotonicTime deadline = MonotonicClock::now() + 20s;
  while (call->result().code() != StatusCode::kInvalidArgument &&
         MonotonicClock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(call->result(), InvalidArgument("experts-1: NaN in a weight"));
}

TEST_F(MembersTest, CommitsExpertsFirstAndStopsAtTheFirstError) {
  EXPECT_TRUE(members_->Commit(1, Seconds(10)).ok());
  EXPECT_EQ(commits(), (std::vector<std::string>{"experts-0", "experts-1", "attention-0"}));
  services_[2]->committed = {grpc::StatusCode::ABORTED, "another epoch"};
  EXPECT_EQ(members_->Commit(1, Seconds(10)), Aborted("experts-1: another epoch"));
  EXPECT_EQ(commits().size(), 5u);
}

TEST_F(MembersTest, AsksAllForStatisticsBeforeItAwaitsAny) {
  Gate gate(3);
  for (auto& service : services_) service->statistics_gate = &gate;
  EXPECT_EQ(members_->GetStatistics(Seconds(20))->instances.size(), 3u);
}

TEST_F(MembersTest, JoinsTheStatisticsOfThoseThatAnswer) {
  EXPECT_EQ(members_->GetStatistics(Seconds(10))->instances.size(), 3u);
  servers_[1]->Shutdown();
  const Result<Statistics> statistics = members_->GetStatistics(Seconds(10));
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->instances.size(), 2u);
}

}  // namespace
}  // namespace janus::control
