#include "operator/reconcile/epochs/topology_record.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "common/base64.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

Instance At(Role role, const std::string& uid, int incarnation = 0) {
  Instance out;
  out.role = role;
  out.pod_uid = uid;
  out.incarnation = incarnation;
  out.address = uid + ".example:9000";
  if (role == Role::kExperts) {
    out.slots = 2;
  } else {
    out.sequences = {8, 4096, int64_t{5} << 32, 77, int64_t{6} << 32};
  }
  return out;
}

Topology Small() {
  Topology topology;
  topology.epoch = 4;
  topology.config_hash = "c1";
  topology.attention = {At(Role::kAttention, "a1")};
  topology.experts = {At(Role::kExperts, "e1"), At(Role::kExperts, "e2", 3)};
  topology.placement.layers = 1;
  topology.placement.slots_of_instance = {2, 2};
  topology.placement.expert_of = {0, 1, 0x102, Placement::kEmpty};
  return topology;
}

MoETopology Recorded(const Topology& topology) {
  const Node object =
      Object({{"apiVersion", Text("serving.janus.dev/v1alpha1")},
              {"kind", Text("MoETopology")},
              {"metadata", Object({{"name", Text("chat-1")}, {"namespace", Text("prod")}})},
              {"spec", Object({{"fence", Node::Integer(7)},
                               {"lastEpoch", Node::Integer(4)},
                               {"committed", RecordTree(topology)}})}});
  Parsed<MoETopology> parsed = ParseMoETopology(object);
  EXPECT_TRUE(parsed.errors.empty()) << FormatErrors("record", parsed.errors);
  EXPECT_TRUE(ValidateSchema(parsed.object).empty());
  return parsed.object;
}

TEST(TopologyRecord, APlacementIsUnpackedAsItWasPacked) {
  const MoETopology record = Recorded(Small());
  const janus::Result<Placement> placement = PlacementOf(*record.spec.committed);
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  EXPECT_EQ(*placement, Small().placement);
  for (const std::string& bad : {std::string("AAAA"), std::string("!"), std::string(),
                                 record.spec.committed->placement.substr(0, 8)}) {
    TopologyRecord spoiled = *record.spec.committed;
    spoiled.placement = bad;
    EXPECT_EQ(PlacementOf(spoiled).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  TopologyRecord other = *record.spec.committed;
  other.sha256->front() = other.sha256->front() == '0' ? '1' : '0';
  EXPECT_EQ(PlacementOf(other).status().code(), StatusCode::kInvalidArgument) << "another's sha256";
  TopologyRecord without = *record.spec.committed;
  without.instances.resize(1);
  EXPECT_EQ(PlacementOf(without).status().code(), StatusCode::kInvalidArgument) << "no slots";
}

TEST(TopologyRecord, CopiesMoveToInstancesThatDidNotHaveThem) {
  const Topology before = Small();
  Topology after = Small();
  const auto moved = [&] {
    return CopiesMoved(*Recorded(before).spec.committed, before.placement,
                       *Recorded(after).spec.committed, after.placement);
  };
  EXPECT_EQ(moved(), 0);
  after.placement.expert_of = {1, 0, Placement::kEmpty, 0x102};
  EXPECT_EQ(moved(), 0) << "another slot of the same instance";
  after.placement.expert_of = {1, 0x102, 0x102, 1};
  EXPECT_EQ(moved(), 2);
  after = Small();
  std::swap(after.experts[0], after.experts[1]);
  EXPECT_EQ(moved(), 3) << "ranks have changed, and experts with them";
  after = Small();
  after.experts[1].incarnation = 4;
  EXPECT_EQ(moved(), 1) << "who was started again has to load";
}

TEST(TopologyRecord, IsReadAsItWasWritten) {
  const MoETopology record = Recorded(Small());
  const EpochRecord read = EpochRecordOf(record);
  EXPECT_EQ(read.fence, 7);
  EXPECT_EQ(read.last_epoch, 4);
  ASSERT_TRUE(read.committed);
  EXPECT_EQ(read.committed->epoch, 4);
  EXPECT_EQ(read.committed->content, ContentOf(Small()));
  EXPECT_FALSE(read.proposed);
  EXPECT_EQ(PodsOf(*record.spec.committed), (std::set<std::string>{"a1", "e1", "e2"}));
  const auto alive =
      AliveOf(*record.spec.committed, {{Role::kExperts, "e2", 0, 3}, {Role::kExperts, "e1", 0, 1}});
  ASSERT_EQ(alive.size(), 1u) << "a restarted one is another";
  EXPECT_EQ(RoomOf(*record.spec.committed, {Role::kAttention, "a1", 0, 0}),
            Small().attention[0].sequences);
  EXPECT_FALSE(RoomOf(*record.spec.committed, {Role::kAttention, "a1", 0, 1}))
      << "what was started since holds nothing yet";
  EXPECT_FALSE(RoomOf(*record.spec.committed, {Role::kExperts, "e1", 0, 0}));
  EXPECT_EQ(alive[0].pod_uid, "e2");
}

// Records of CPUs and of timed devices are then those that older operators read.
TEST(TopologyRecord, LeavesOutHostMemoryOfPrefixesThatThereIsNot) {
  Topology topology = Small();
  EXPECT_NE(RecordTree(topology).Find("sequences")->Find("prefixHostBytes"), nullptr);
  topology.attention[0].sequences.prefix_host_bytes = 0;
  EXPECT_EQ(RecordTree(topology).Find("sequences")->Find("prefixHostBytes"), nullptr);
  EXPECT_EQ(Recorded(topology).spec.committed->sequences, topology.attention[0].sequences);
}

TEST(TopologyRecord, SaysOnceWhatAllSayAlike) {
  Topology topology = Small();
  topology.attention.push_back(At(Role::kAttention, "a2"));
  topology.attention.push_back(At(Role::kAttention, "a3"));
  topology.attention[1].sequences = {4, 2048, 99, 0};
  for (Instance& one : topology.attention) one.node = one.domain = "pod-" + one.pod_uid;
  topology.experts[0].node = "pod-e1";
  topology.experts[0].domain = "machine-7";
  const Node tree = RecordTree(topology);
  const std::vector<Node>& said = tree.Find("instances")->items;
  ASSERT_EQ(said.size(), 5u);
  const auto names = [](const Node& one) {
    std::set<std::string> out;
    for (const auto& [name, value] : one.fields) out.insert(name);
    return out;
  };
  const std::set<std::string> least = {"role", "podUID", "index", "node", "address"};
  const auto least_and = [&](const std::set<std::string>& more) {
    std::set<std::string> out = least;
    out.insert(more.begin(), more.end());
    return out;
  };
  EXPECT_EQ(names(said[0]), least);
  EXPECT_EQ(names(said[1]), least_and({"sequences"}));
  EXPECT_EQ(names(said[2]), least);
  EXPECT_EQ(names(said[3]), least_and({"domain", "slots"}));
  EXPECT_EQ(names(said[4]), least_and({"incarnation", "slots"}));

  const TopologyRecord read = *Recorded(topology).spec.committed;
  for (size_t i = 0; i < topology.attention.size(); ++i) {
    EXPECT_EQ(RoomAt(read, read.instances[i]), topology.attention[i].sequences) << i;
  }
  EXPECT_FALSE(RoomAt(read, read.instances[3])) << "experts have no sequences";
}

TEST(TopologyRecord, ThePlacementIsTheBytesThatTheSchemaPromises) {
  const MoETopology record = Recorded(Small());
  const Result<std::string> packed = DecodeBase64(record.spec.committed->placement);
  ASSERT_TRUE(packed.ok());
  std::string bytes(64, '\0');
  uLongf size = bytes.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                       reinterpret_cast<const Bytef*>(packed->data()), packed->size()),
            Z_OK);
  bytes.resize(size);
  EXPECT_EQ(bytes, std::string("\0\1\2\xff\0\0\1\xff", 8));
  // printf '\0\0\1\0\2\1\xff\xff' | sha256sum
  EXPECT_EQ(record.spec.committed->sha256,
            "8d4daa04667ba5b6827077fb3248e27d687a5bd92a95dd10a0b56e6b9f931e23");
}

TEST(TopologyName, IsAnotherForWhatCannotFollow) {
  PlannedService planned;
  planned.model_digest = "d1";
  const std::string name = TopologyName("chat", planned);
  EXPECT_EQ(name, TopologyName("chat", planned));
  EXPECT_TRUE(name.starts_with("chat-"));
  PlannedService other = planned;
  other.model_digest = "d2";
  EXPECT_NE(TopologyName("chat", other), name);
  other = planned;
  other.plan.dtype = DType::kBFloat16;
  EXPECT_NE(TopologyName("chat", other), name);
  other = planned;
  other.plan.effective.fp8_kv_cache = true;
  EXPECT_NE(TopologyName("chat", other), name);
  other = planned;
  other.plan.effective.compression = Compression::kFp8;
  EXPECT_NE(TopologyName("chat", other), name);
  other = planned;
  other.plan.effective.sums = {32, {-17, 3}};
  const std::string sums = TopologyName("chat", other);
  EXPECT_NE(sums, name);
  other.plan.effective.sums.exponents[1] = 4;
  EXPECT_NE(TopologyName("chat", other), sums);
  other = planned;
  other.plan.slots_per_instance = 9;
  EXPECT_EQ(TopologyName("chat", other), name) << "epochs of one topology may differ in it";
}

// A restarted container has the address of its former instance. If it were told to leave in that
// instance's place, the new instance would accept no requests.
TEST(TopologyRecord, WhoIsInAnothersPlaceDoesNotLeave) {
  const TopologyRecord before = *Recorded(Small()).spec.committed;
  Topology next = Small();
  next.attention = {At(Role::kAttention, "a1", 1)};
  next.experts = {At(Role::kExperts, "e1"), At(Role::kExperts, "e3")};
  const std::vector<TopologyInstance> leavers = Without(before, *Recorded(next).spec.committed);
  ASSERT_EQ(leavers.size(), 1u);
  EXPECT_EQ(leavers[0].pod_uid, "e2");
}

}  // namespace
}  // namespace janus::control
