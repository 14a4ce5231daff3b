#include "operator/kube/packed_tree.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

Node Read(const std::string& json) {
  return ParseJson(json, "test").value();
}

// A random tree: all kinds, with sizes below and above one byte's range.
Node Draw(std::minstd_rand& random, int depth) {
  const auto text = [&] {
    const size_t size = random() % 5 == 0 ? random() % 400 : random() % 8;
    std::string out(size, 0);
    for (char& c : out) c = static_cast<char>(random());
    return out;
  };
  switch (random() % (depth == 0 ? 5 : 7)) {
    case 0:
      return {};
    case 1:
      return Node::Bool(random() % 2 == 0);
    case 2:
      return Node::Integer(static_cast<int64_t>(random() * random() * random()) >> (random() % 63));
    case 3: {
      Node out = Node::String("1.5e" + std::to_string(random() % 300));
      out.kind = Node::Kind::kFloat;
      return out;
    }
    case 4:
      return Node::String(text());
    case 5: {
      Node out = Node::List();
      for (size_t i = random() % 5; i > 0; --i) out.items.push_back(Draw(random, depth - 1));
      return out;
    }
    default: {
      Node out = Node::Map();
      for (size_t i = random() % 5; i > 0; --i) out.Add(text(), Draw(random, depth - 1));
      return out;
    }
  }
}

TEST(PackedTree, AnyTreeComesBackThoughPhrasesGrewSince) {
  std::minstd_rand random(TestSeed());
  Phrases phrases;
  std::vector<std::pair<Node, PackedTree>> all;
  for (int i = 0; i < 3000; ++i) {
    const Node tree = Draw(random, 5);
    all.emplace_back(tree, PackedTree(tree, phrases));
    phrases.Learn(all.back().second);
  }
  EXPECT_GT(phrases.size(), Phrases::kMost / 2);  // the rest did not fit
  for (const auto& [tree, packed] : all) {
    ASSERT_TRUE(packed.Unpack(phrases) == tree) << WriteJson(tree);
  }
}

TEST(PackedTree, NumbersComeBackAsTheyWereWritten) {
  Phrases phrases;
  for (const char* const json :
       {"[0,-1,1,63,64,-64,-65,127,128,9223372036854775807,-9223372036854775808]",
        "[1.0,1e3,-0.5,18446744073709551615]"}) {
    EXPECT_EQ(WriteJson(PackedTree(Read(json), phrases).Unpack(phrases)), json);
  }
  Node written = Node::Integer(16);
  written.text = "0x10";
  EXPECT_TRUE(PackedTree(written, phrases).Unpack(phrases) == written);
}

TEST(PackedTree, WhatRepeatsItselfIsSaidOnce) {
  Phrases phrases;
  const std::string once = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text;
  for (int i = 0; i < 100; ++i) text += once;
  const PackedTree packed(Node::String(text), phrases);
  EXPECT_LT(packed.size(), once.size() + 12);
  EXPECT_EQ(packed.Unpack(phrases).text, text);
}

// A pod of a service in the form of its cache.
Node Pod(int service, int number) {
  const auto uid = [](int one, int other) {
    std::minstd_rand random(static_cast<unsigned>(one * 1000 + other + 1));
    char text[37];
    std::snprintf(text, sizeof text, "%08lx-%04lx-4%03lx-a%03lx-%012lx", random() % 0xffffffffUL,
                  random() % 0xffffUL, random() % 0xfffUL, random() % 0xfffUL,
                  random() * random() % 0xffffffffffffUL);
    return std::string(text);
  };
  const std::string name = "chat-" + std::to_string(service);
  const std::string at = std::to_string(number % 6) + std::to_string(service % 10) + "Z";
  std::string conditions;
  for (const char* const type : {"serving.janus.dev/member", "PodReadyToStartContainers",
                                 "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    conditions += std::string(conditions.empty() ? "" : ",") +
                  R"({"lastProbeTime":null,"lastTransitionTime":"2026-11-23T05:32:)" + at +
                  R"(","observedGeneration":1,"status":"True","type":")" + type + "\"}";
  }
  return Read(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":"2026-11-23T05:31:)" + at +
      R"(","labels":{"app.kubernetes.io/instance":")" + name +
      R"(","app.kubernetes.io/managed-by":"janus-operator","serving.janus.dev/revision":)"
      R"("7d9f8c6b5","serving.janus.dev/role":"experts","serving.janus.dev/service":")" +
      name + R"("},"name":")" + name + "-experts-" + std::to_string(number) +
      R"(","namespace":"bench","ownerReferences":[{"apiVersion":"serving.janus.dev/v1alpha1",)"
      R"("blockOwnerDeletion":true,"controller":true,"kind":"MoEService","name":")" +
      name + R"(","uid":")" + uid(service, 0) + R"("}],"resourceVersion":")" +
      std::to_string(100000 + service * 100 + number) + R"(","uid":")" + uid(service, number) +
      R"("},"spec":{"nodeName":"fake-)" + std::to_string(service % 16) +
      R"(","volumes":[{"name":"janus-tls"},{"name":"model"},{"name":"tmp"}]},)"
      R"("status":{"conditions":[)" +
      conditions +
      R"(],"containerStatuses":[{"image":"worker:1","imageID":"","lastState":{},)"
      R"("name":"worker","ready":true,"restartCount":0,"started":true,"state":{"running":)"
      R"({"startedAt":"2026-11-23T05:32:)" +
      at + R"("}}}],"phase":"Running","podIP":"10.0.)" + std::to_string(service) + "." +
      std::to_string(number) + "\"}}");
}

TEST(PackedTree, AThousandPodsTakeLessThanAFifthOfTheirText) {
  Phrases phrases;
  size_t text = 0, packed = 0;
  for (int service = 0; service < 100; ++service) {
    for (int number = 1; number <= 10; ++number) {
      const Node pod = Pod(service, number);
      const PackedTree one(pod, phrases);
      phrases.Learn(one);
      ASSERT_TRUE(one.Unpack(phrases) == pod);
      text += WriteJson(pod).size();
      packed += one.size();
    }
  }
  EXPECT_LT(packed / 1000, 320U) << "bytes of a pod";
  EXPECT_LT(packed * 5, text);
  EXPECT_LT(phrases.size(), 4000U);
}

}  // namespace
}  // namespace janus::control
