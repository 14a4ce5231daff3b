// A service moves to workers of another model: what the old workers report of that.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "dataplane/model/text_digest.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

// The golden checkpoint with a tokenizer of any content.
struct ModelWithText {
  ModelWithText() {
    for (const auto& file : std::filesystem::directory_iterator(ReadGolden("mixtral").folder)) {
      std::filesystem::create_symlink(file.path(), path() / file.path().filename());
    }
    folder.Write("tokenizer.json", "{}");
  }
  std::filesystem::path path() const { return folder.path(); }
  const TempFolder folder;
};

// A stream of topologies for a gateway with that tokenizer; every wait ends after 20 s.
class Watch {
 public:
  Watch(ServedWorker& worker, const std::string& text_digest) {
    context_.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
    v1::GetTopologyRequest request;
    request.set_service_uid(ServiceUnderTest::kUid);
    request.set_text_digest(text_digest);
    stream_ = worker.control().WatchTopology(&context_, request);
  }
  ~Watch() {
    context_.TryCancel();
    (void)stream_->Finish();
  }
  // The epoch of the next topology; 0: the stream has ended.
  uint64_t Next() {
    v1::GetTopologyReply reply;
    return stream_->Read(&reply) ? reply.committed().epoch() : 0;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GetTopologyReply>> stream_;
};

class SupersedeTest : public testing::Test {
 protected:
  SupersedeTest() : service_(model_.path()) {
    service_.Serve();
    own_text_ = *DigestText(model_.path());
  }

  // Called at the attention instance, relayed to both.
  v1::SupersedeReply Supersede(uint64_t epoch, const std::string& text_digest) {
    v1::SupersedeRequest request;
    const v1::PrepareRequest next = service_.PrepareRequest(epoch);
    *request.mutable_stamp() = StampOf(ServiceUnderTest::kUid, ServiceUnderTest::kFence, 1);
    *request.mutable_successor() = next.topology();
    request.set_text_digest(text_digest);
    const auto add = [&](const char* name, v1::Role role, const v1::Instance& instance) {
      v1::RelayTarget& target = *request.add_relay();
      target.set_name(name);
      target.set_role(role);
      target.set_address(instance.address());
    };
    add("attention-0", v1::ROLE_ATTENTION, next.topology().attention(0));
    add("experts-0", v1::ROLE_EXPERTS, next.topology().experts(0));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
    v1::SupersedeReply reply;
    const grpc::Status status = service_.attention().control().Supersede(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  uint64_t Told(ServedWorker& worker, const std::string& text_digest) {
    const std::optional<Topology> topology = worker.worker().TopologyFor(text_digest);
    return topology ? topology->epoch : 0;
  }

  const ModelWithText model_;
  ServiceUnderTest service_;
  std::string own_text_;
};

TEST_F(SupersedeTest, WhoReadsTheSuccessorsTextsIsToldOfIt) {
  for (ServedWorker* worker : {&service_.attention(), &service_.experts()}) {
    EXPECT_EQ(Told(*worker, own_text_), 1U);
    EXPECT_EQ(Told(*worker, ""), 1U);
    EXPECT_EQ(Told(*worker, "other"), 0U) << "it could make no text of the tokens";
  }
  Watch own(service_.experts(), own_text_);
  EXPECT_EQ(own.Next(), 1U);
  Watch other(service_.experts(), "other");
  EXPECT_EQ(Supersede(7, "other").failures_size(), 0);
  EXPECT_EQ(other.Next(), 7U);
  for (ServedWorker* worker : {&service_.attention(), &service_.experts()}) {
    EXPECT_EQ(Told(*worker, own_text_), 1U);
    EXPECT_EQ(Told(*worker, ""), 7U);
    EXPECT_EQ(Told(*worker, "other"), 7U);
  }
  // A successor with its own tokenizer is sent; the stream got nothing in between.
  EXPECT_EQ(Supersede(8, own_text_).failures_size(), 0);
  EXPECT_EQ(own.Next(), 8U);
}

TEST_F(SupersedeTest, WhatIsServedGoesOnAndIsToldEvenAfterItsEnd) {
  EXPECT_EQ(Supersede(7, own_text_).failures_size(), 0);
  TestGateway gateway(service_.attention());
  gateway.Hello();
  ASSERT_TRUE(gateway.Read().has_welcome());
  gateway.Send(TestGateway::Submit(1, {1, 2, 3}, 4));
  EXPECT_EQ(gateway.ReadToTheEnd(1).tokens_size(), 4);
  service_.attention().worker().Leave(2);
  EXPECT_EQ(Told(service_.attention(), own_text_), 7U);
}

TEST_F(SupersedeTest, AnOlderSuccessorIsRefused) {
  v1::SupersedeReply reply = Supersede(1, own_text_);
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_EQ(reply.failures(0).message(), "successor: epoch 1 is not newer than the committed 1");
  EXPECT_EQ(Supersede(9, own_text_).failures_size(), 0);
  EXPECT_EQ(Supersede(9, own_text_).failures_size(), 0) << "said again";
  reply = Supersede(8, own_text_);
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_EQ(reply.failures(1).message(), "successor: epoch 8 is older than 9, which is known");
  EXPECT_EQ(Told(service_.attention(), own_text_), 9U);
}

}  // namespace
}  // namespace janus::dataplane
