#include "dataplane/gateway/topology_messages.h"

#include <gtest/gtest.h>

namespace janus::gateway {
namespace {

v1::GetTopologyReply TwoByOne() {
  v1::GetTopologyReply reply;
  reply.set_fence(1);
  v1::Topology& topology = *reply.mutable_committed();
  topology.set_epoch(3);
  topology.add_attention()->set_address("a:1");
  topology.add_attention()->set_address("b:1");
  topology.add_experts()->set_address("c:1");
  return reply;
}

std::string BreachOf(const v1::GetTopologyReply& reply) {
  const Result<ToldTopology> told = ReadTopology(reply);
  return told.ok() ? "none" : told.status().ToString();
}

TEST(ReadTopology, NamesAttentionToAttachToAndAllMembersToAskNext) {
  const Result<ToldTopology> told = ReadTopology(TwoByOne());
  ASSERT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ(told->members.epoch, 3u);
  EXPECT_EQ(told->members.attention, (std::vector<std::string>{"a:1", "b:1"}));
  EXPECT_EQ(told->addresses, (std::vector<std::string>{"a:1", "b:1", "c:1"}));
}

TEST(ReadTopology, RefusesWhatNoTopologyCanBe) {
  v1::GetTopologyReply idle;
  idle.set_fence(7);
  EXPECT_EQ(BreachOf(idle), "FailedPrecondition: no topology is committed");

  v1::GetTopologyReply reply = TwoByOne();
  reply.mutable_committed()->set_epoch(0);
  EXPECT_EQ(BreachOf(reply), "FailedPrecondition: no topology is committed");

  reply = TwoByOne();
  reply.mutable_committed()->clear_attention();
  EXPECT_EQ(BreachOf(reply), "InvalidArgument: the topology of epoch 3 has no attention instances");

  reply = TwoByOne();
  reply.mutable_committed()->mutable_attention(1)->clear_address();
  EXPECT_EQ(BreachOf(reply), "InvalidArgument: attention 1 has no address");

  reply = TwoByOne();
  reply.mutable_committed()->mutable_experts(0)->clear_address();
  EXPECT_EQ(BreachOf(reply), "InvalidArgument: experts 0 has no address");

  reply = TwoByOne();
  for (int i = 2; i < 257; ++i) reply.mutable_committed()->add_attention()->set_address("a:1");
  EXPECT_EQ(BreachOf(reply), "InvalidArgument: 257 attention instances, at most 256");
}

}  // namespace
}  // namespace janus::gateway
