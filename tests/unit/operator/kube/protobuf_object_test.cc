#include "operator/kube/protobuf_object.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/read_file.h"
#include "operator/api/json.h"
#include "operator/kube/protobuf_reader.h"
#include "operator/kube/protobuf_tables.h"
#include "tests/support/contains.h"
#include "tests/support/kube/protobuf_writer.h"
#include "tests/support/paths.h"

namespace janus::control {
namespace {

struct Sample {
  std::string name;
  std::string protobuf;
  std::string json;
};

// What Kubernetes' own code writes of the same objects (tests/golden/README.md).
std::vector<Sample> Samples() {
  const std::filesystem::path folder = test::SourceDir() + "/tests/golden/kubernetes";
  std::vector<Sample> out;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".pb") continue;
    std::filesystem::path json = file.path();
    json.replace_extension(".json");
    out.push_back({file.path().stem(), *ReadFile(file.path()), *ReadFile(json)});
  }
  return out;
}

bool IsList(const Sample& sample) {
  return sample.name.find("list-") != sample.name.npos;
}

// A Pod of that message.
Result<Node> ReadPod(const std::string& message) {
  return ReadProtobufObject(ProtobufObject("v1", "Pod", message), "pod", nullptr);
}

std::string Metadata(const std::string& fields) {
  return ProtobufBytes(1, fields);
}

TEST(ProtobufObject, ReadsEveryFieldOfEveryKindAsItsJson) {
  std::set<std::string> kinds;
  for (const Sample& sample : Samples()) {
    const Result<Node> read = ReadProtobufObject(sample.protobuf, sample.name, nullptr);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    const Result<Node> wanted = ParseJson(sample.json, sample.name);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    EXPECT_TRUE(*read == *wanted) << sample.name << "\n"
                                  << WriteJson(*read) << "\n"
                                  << WriteJson(*wanted);
    kinds.insert(std::string(TextAt(*read, {"kind"})));
  }
  for (const ProtobufKind& kind : ProtobufKinds()) {
    EXPECT_TRUE(kinds.contains(std::string(kind.kind))) << "no sample of " << kind.kind;
  }
}

TEST(ProtobufObject, KeepsOfItWhatIsKeptOfItsJson) {
  const std::vector<FieldFilter> filters = {
      FieldFilter({"metadata.resourceVersion", "metadata.labels", "metadata.ownerReferences",
                   "metadata.deletionTimestamp", "spec.nodeName", "status.phase", "status.podIP",
                   "status.conditions", "status.containerStatuses.name"}),
      // Of an inlined message, a map's entry, below a number, and what is nowhere.
      FieldFilter({"spec.volumes.emptyDir", "spec.containers.livenessProbe.httpGet.port.x",
                   "spec.containers.resources.limits.k1", "data", "nothing.at.all"}),
      FieldFilter({"spec"}), FieldFilter({})};
  for (const Sample& sample : Samples()) {
    for (const FieldFilter& keep : filters) {
      const Result<Node> read = ReadProtobufObject(sample.protobuf, sample.name, &keep);
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      Result<Node> wanted = ParseJson(sample.json, sample.name, {"items", &keep});
      if (!IsList(sample)) wanted = keep(*std::move(wanted));
      EXPECT_TRUE(*read == *wanted) << sample.name << "\n"
                                    << WriteJson(*read) << "\n"
                                    << WriteJson(*wanted);
    }
  }
}

TEST(ProtobufObject, StepsOverFieldsOfANewerServer) {
  const std::string fields = ProtobufNumber(200, 7) + ProtobufBytes(201, "x") +
                             ProtobufVarint(202 << 3 | 1) + "12345678" +
                             ProtobufVarint(203 << 3 | 5) + "1234";
  const Result<Node> read = ReadPod(fields + Metadata(fields + ProtobufBytes(1, "a") + fields));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(TextAt(*read, {"metadata", "name"}), "a");
}

TEST(ProtobufObject, TakesTheLastOfWhatMayComeOnce) {
  const Result<Node> read = ReadPod(Metadata(ProtobufBytes(1, "a")) +
                                    Metadata(ProtobufBytes(1, "b") + ProtobufBytes(1, "c")));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(TextAt(*read, {"metadata", "name"}), "c");
  const auto label = [](const std::string& key, const std::string& value) {
    return ProtobufBytes(11, ProtobufBytes(1, key) + ProtobufBytes(2, value));
  };
  const Result<Node> labels =
      ReadPod(Metadata(label("k", "1") + label("a", "2") + label("k", "3")));
  ASSERT_TRUE(labels.ok()) << labels.status().ToString();
  EXPECT_EQ(WriteJson(*FindAt(*labels, {"metadata", "labels"})), R"({"a":"2","k":"3"})");
}

TEST(ProtobufObject, ReadsAListOfNumbersPackedOrNot) {
  // spec.securityContext.supplementalGroups
  const auto groups = [](const std::string& entries) {
    const Result<Node> read = ReadPod(ProtobufBytes(2, ProtobufBytes(14, entries)));
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return WriteJson(*FindAt(*read, {"spec", "securityContext", "supplementalGroups"}));
  };
  const std::string apart = ProtobufNumber(4, 5) + ProtobufNumber(3, 1) + ProtobufNumber(4, 300);
  EXPECT_EQ(groups(apart), "[5,300]");
  EXPECT_EQ(groups(ProtobufBytes(4, ProtobufVarint(5) + ProtobufVarint(300))), "[5,300]");
}

TEST(ProtobufObject, ATimeBeyondTheYear2262IsRead) {
  const auto read = [](uint64_t seconds) {
    return ReadPod(Metadata(ProtobufBytes(9, ProtobufNumber(1, seconds) + ProtobufNumber(2, 5))));
  };
  EXPECT_EQ(TextAt(*read(253402300799), {"metadata", "deletionTimestamp"}), "9999-12-31T23:59:59Z");
  EXPECT_EQ(TextAt(*read(0), {"metadata", "deletionTimestamp"}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(
      FindAt(*read(static_cast<uint64_t>(-62135596800)), {"metadata", "deletionTimestamp"})->kind,
      Node::Kind::kNull);
  const Result<Node> late = read(253402300800);
  ASSERT_FALSE(late.ok());
  EXPECT_TRUE(Contains(late.status().message(), "deletionTimestamp"));
}

TEST(ProtobufObject, RefusesWhatIsNoMessageAndNamesTheField) {
  struct Case {
    std::string message;
    std::string says;
  };
  const std::string past_the_end = ProtobufVarint(1 << 3 | 2) + ProtobufVarint(100) + "x";
  for (const Case& c : {
           Case{past_the_end, "no field"},
           {Metadata(past_the_end), "metadata"},
           {Metadata(ProtobufNumber(1, 7)), "name: not of its type"},
           {Metadata(ProtobufBytes(7, "x")), "generation: not of its type"},
           {Metadata(ProtobufBytes(11, ProtobufNumber(1, 7))), "labels: not of its type"},
           {std::string("\x0b"), "no field"},         // a group
           {std::string("\x00\x00", 2), "no field"},  // field 0
           {std::string(11, '\xff'), "no field"},     // a number without end
           {std::string("\x08"), "no field"},         // one that is cut
           {std::string("\x09"
                        "1234567"),
            "no field"},
           {Metadata(ProtobufBytes(17, ProtobufBytes(7, ProtobufBytes(1, "{")))), "fieldsV1"},
       }) {
    const Result<Node> read = ReadPod(c.message);
    ASSERT_FALSE(read.ok()) << c.says;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(read.status().message(), c.says));
  }
}

TEST(ProtobufObject, TreesAreBoundedHoweverSmallTheBytes) {
  std::string containers;  // two bytes each; a container of nothing has values nevertheless
  for (int i = 0; i < 1'500'000; ++i) containers += ProtobufBytes(2, "");
  const Result<Node> read = ReadPod(ProtobufBytes(2, containers));
  ASSERT_FALSE(read.ok());
  EXPECT_TRUE(Contains(read.status().message(), "4,000,000 values"));
}

TEST(ProtobufObject, RefusesWhatIsNoObject) {
  const auto said = [](const std::string& bytes) {
    const Result<Node> read = ReadProtobufObject(bytes, "reply", nullptr);
    return read.ok() ? "taken" : std::string(read.status().message());
  };
  EXPECT_EQ(said(""), "reply: no object in protobuf");
  EXPECT_EQ(said("{}"), "reply: no object in protobuf");
  EXPECT_EQ(said(std::string("k8s\0\x0b", 5)), "reply: the object's envelope is broken");
  EXPECT_EQ(said(std::string("k8s\0", 4)), "reply: a kind that is not read as protobuf: ''");
  EXPECT_EQ(said(ProtobufObject("v1", "Secret", "")),
            "reply: a kind that is not read as protobuf: 'Secret'");
  EXPECT_EQ(said(ProtobufObject("v2", "Pod", "")),
            "reply: a kind that is not read as protobuf: 'Pod'");
  EXPECT_EQ(said(ProtobufObject("v1", "Pod", "") + ProtobufBytes(3, "gzip")),
            "reply: the object is encoded otherwise");
  EXPECT_EQ(said(ProtobufObject("v1", "Pod", "") + ProtobufBytes(4, "application/json")),
            "reply: the object is encoded otherwise");
}

TEST(ProtobufObject, IsToldByItsMediaType) {
  EXPECT_TRUE(IsProtobufMediaType("application/vnd.kubernetes.protobuf"));
  EXPECT_TRUE(IsProtobufMediaType("application/vnd.kubernetes.protobuf;stream=watch"));
  EXPECT_FALSE(IsProtobufMediaType("application/vnd.kubernetes.protobuffer"));
  EXPECT_FALSE(IsProtobufMediaType("application/json"));
  EXPECT_FALSE(IsProtobufMediaType(""));
}

TEST(ProtobufObject, CustomKindsHaveNone) {
  EXPECT_TRUE(HasProtobuf({"", "v1", "pods", "Pod"}));
  EXPECT_TRUE(HasProtobuf({"apps", "v1", "deployments", "Deployment"}));
  EXPECT_FALSE(HasProtobuf({"serving.janus.dev", "v1alpha1", "moeservices", "MoEService"}));
  EXPECT_FALSE(HasProtobuf({"example.com", "v1", "pods", "Pod"}));
}

}  // namespace
}  // namespace janus::control
