#include "operator/api/yaml.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "operator/api/json.h"

namespace janus::control {
namespace {

Node Parse(std::string_view text) {
  Result<Node> node = ParseYaml(text, "a.yaml");
  EXPECT_TRUE(node.ok()) << node.status().ToString();
  return node.ok() ? *std::move(node) : Node();
}

std::string Refusal(std::string_view text) {
  const Result<Node> node = ParseYaml(text, "a.yaml");
  return node.ok() ? "accepted" : node.status().message();
}

TEST(Yaml, TypesPlainScalarsAndKeepsQuotedOnesStrings) {
  const Node node =
      Parse("{a: 1, b: -7, c: true, d: 1.5, e: text, f: '1', g: \"true\", h: ~, i: 1e3}");
  EXPECT_EQ(node.Find("a")->kind, Node::Kind::kInteger);
  EXPECT_EQ(node.Find("b")->integer, -7);
  EXPECT_EQ(node.Find("c")->kind, Node::Kind::kBool);
  EXPECT_TRUE(node.Find("c")->boolean);
  EXPECT_EQ(node.Find("d")->kind, Node::Kind::kFloat);
  EXPECT_EQ(node.Find("e")->text, "text");
  EXPECT_EQ(node.Find("f")->kind, Node::Kind::kString);
  EXPECT_EQ(node.Find("g")->kind, Node::Kind::kString);
  EXPECT_EQ(node.Find("h")->kind, Node::Kind::kNull);
  EXPECT_EQ(node.Find("i")->kind, Node::Kind::kInteger);
}

// From resolve.go of go-yaml 2, which kubectl uses.
TEST(Yaml, ReadsPlainScalarsAsKubectlDoes) {
  for (const char* yes :
       {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"}) {
    EXPECT_EQ(WriteJson(Parse("[" + std::string(yes) + "]")), "[true]") << yes;
  }
  for (const char* no : {"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False"}) {
    EXPECT_EQ(WriteJson(Parse("[" + std::string(no) + "]")), "[false]") << no;
  }
  for (const auto& [text, json] : std::initializer_list<std::pair<const char*, const char*>>{
           {"0", "0"},      {"-0", "0"},       {"+7", "7"},      {"012", "10"},
           {"-012", "-10"}, {"00", "0"},       {"0644", "420"},  {"0o14", "12"},
           {"0x3c", "60"},  {"0XfF", "255"},   {"-0x1", "-1"},   {"0b11", "3"},
           {"6_0", "60"},   {"0x3_c", "60"},   {"1_", "1"},      {"089", "89"},
           {"01.5", "1.5"}, {"1_0.5", "10.5"}, {".5", "0.5"},    {"5.", "5"},
           {"60.0", "60"},  {"1e3", "1000"},   {"1e20", "1e20"}, {"-1.5E-3", "-1.5E-3"}}) {
    EXPECT_EQ(WriteJson(Parse("[" + std::string(text) + "]")), "[" + std::string(json) + "]")
        << text;
  }
  for (const char* text :
       {"0x", "0b12", "0o8", "0xfg", "_1", "no-thing", "yesterday", "1.2.3", "12:30", "10.0.0.1",
        "4Gi", "0Ki", "e5", "2026-01-02", ".", "..", "+", "0-1", "0x-1"}) {
    const Node node = Parse("{a: " + std::string(text) + "}");
    EXPECT_EQ(node.Find("a")->kind, Node::Kind::kString) << text;
    EXPECT_EQ(WriteYaml(Node::String(text)), std::string(text) + "\n") << text;
  }
  EXPECT_EQ(Parse("a: !!str 12\n").Find("a")->text, "12");
}

TEST(Yaml, QuotesWhatSomeReaderTakesForAnotherKindOfValue) {
  for (const char* text :
       {"y", "Off", "012", "0o14", "0x3c", "6_0", ".inf", "<<", "089", "1e3", ""}) {
    const std::string written = WriteYaml(Node::String(text));
    EXPECT_EQ(written, "\"" + std::string(text) + "\"\n");
  }
}

TEST(Yaml, RefusesByNameWhatItDoesNotRead) {
  EXPECT_EQ(Refusal("a: 1\nb: -.Inf\n"),
            "a.yaml:2: -.Inf is not a JSON number; put it in quotes if it is text");
  EXPECT_EQ(Refusal("a: &b {c: 1}\nd:\n  <<: *b\n"),
            "a.yaml:3: a field's name: fields are not merged here (<<); write them out");
  EXPECT_EQ(Refusal("a: !!binary aGk=\n"),
            "a.yaml:1: the tag tag:yaml.org,2002:binary is not read; leave it out");
  EXPECT_EQ(Refusal("a: 1\ny: 2\n"),
            "a.yaml:2: a field's name: kubectl reads y as true; put it in quotes");
  EXPECT_EQ(Refusal("010: 2\n"),
            "a.yaml:1: a field's name: kubectl reads 010 as 8; put it in quotes");
  EXPECT_EQ(Parse("{'y': 1, 10: 2}").fields.at(0).name, "y");
}

TEST(Yaml, KnowsTheLineOfEveryField) {
  const Node node = Parse("a: 1\nb:\n  c:\n    - x\n    - z: 2\n");
  EXPECT_EQ(LineOf(node, "a"), 1);
  EXPECT_EQ(LineOf(node, "b.c"), 3);
  EXPECT_EQ(LineOf(node, "b.c[1].z"), 5);
  EXPECT_EQ(LineOf(node, "b.c[7]"), 3);
  EXPECT_EQ(LineOf(node, "b.none.further"), 2);
}

TEST(Yaml, RefusesWithTheLine) {
  EXPECT_EQ(Refusal("a: 1\nb: 2\na: 3\n"), "a.yaml:3: field 'a' is given twice");
  EXPECT_NE(Refusal("a: [1, 2\n").find("not valid YAML"), std::string::npos);
  EXPECT_EQ(Refusal("a: 1\n---\nb: 2\n").substr(0, 8), "a.yaml:3");
  EXPECT_EQ(Refusal(""), "a.yaml: is empty; want one MoEService object");
  EXPECT_EQ(Refusal("a: 99999999999999999999\n"),
            "a.yaml:1: the integer 99999999999999999999 does not fit 64 bits");
  EXPECT_NE(Refusal("? [1, 2]\n: x\n").find("a field's name must be a plain string"),
            std::string::npos);
  EXPECT_NE(Refusal("a: *nowhere\n").find("not valid YAML"), std::string::npos);
  EXPECT_EQ(Refusal("a: 1\nb: \xff\n"), "a.yaml:2: not UTF-8");
  EXPECT_EQ(Refusal(std::string("=\0\0\0er: x\n", 10)),
            "a.yaml:1: holds a NUL byte; want UTF-8 text");
  EXPECT_EQ(Refusal("a: 1\n" + std::string(513, 'n') + ": 1\n"),
            "a.yaml:2: a field's name of 513 bytes; is a line break or a quote missing?");
}

TEST(Yaml, EndsOnAStrayComma) {
  EXPECT_NE(Refusal(",a: b\nc: d\n"), "accepted");
  EXPECT_NE(Refusal(","), "accepted");
}

TEST(Yaml, TakesADocumentMarkWithNothingBehindIt) {
  EXPECT_EQ(Parse("---\na: 1\n---\n").Find("a")->integer, 1);
}

TEST(Yaml, EndsWithAnErrorHoweverDeepOrLargeTheText) {
  EXPECT_NE(Refusal(std::string(100, '[') + std::string(100, ']')).find("deeper than 64"),
            std::string::npos);
  EXPECT_NE(Refusal(std::string(100'000, '[')), "accepted");
  EXPECT_NE(Refusal(std::string(2 << 20, ' ')).find("larger than 1 MiB"), std::string::npos);
  // Each line expands to twice the previous one.
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before +
            "]\n";
  }
  EXPECT_NE(Refusal(bomb).find("more than 100,000 values"), std::string::npos);
}

TEST(Yaml, WritesWhatItReadsBack) {
  Node root = Node::Map();
  root.Add("text", Node::String("plain"));
  root.Add("number", Node::Integer(-3));
  root.Add("flag", Node::Bool(true));
  root.Add("looksNumber", Node::String("12"));
  root.Add("looksFlag", Node::String("true"));
  root.Add("yaml11Flag", Node::String("off"));
  root.Add("odd", Node::String("a: b # c\n\"d\""));
  root.Add("returns", Node::String("n\r\r"));
  root.Add("emptyText", Node::String(""));
  root.Add("emptyMap", Node::Map());
  root.Add("emptyList", Node::List());
  Node& list = root.Add("list", Node::List());
  list.items.push_back(Node::String("x"));
  list.items.push_back(Node::Map());
  list.items.back().Add("k", Node::Integer(1));
  const std::string text = WriteYaml(root);
  EXPECT_EQ(WriteYaml(Parse(text)), text);
  const Node back = Parse(text);
  for (const char* name :
       {"text", "looksNumber", "looksFlag", "yaml11Flag", "odd", "returns", "emptyText"}) {
    ASSERT_NE(back.Find(name), nullptr) << text;
    EXPECT_EQ(back.Find(name)->kind, Node::Kind::kString) << name << "\n" << text;
    EXPECT_EQ(back.Find(name)->text, root.Find(name)->text) << name;
  }
  EXPECT_EQ(back.Find("number")->integer, -3);
  EXPECT_EQ(back.Find("list")->items[1].Find("k")->integer, 1);
  EXPECT_NE(text.find("\"off\""), std::string::npos) << "a YAML 1.1 reader would see false";
}

TEST(YamlDocuments, EndBeforeALineOfDashesAndKeepTheLinesOfTheFile) {
  const auto parsed = ParseYamlDocuments(
      "---\na: 1\n--- # next\n\nb:\n  - '---'\n---\n# nothing\n---\r\nc: |\n  ---\n  d\n",
      "a.yaml");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ((*parsed)[0].line, 2);
  EXPECT_EQ((*parsed)[1].line, 5);
  EXPECT_EQ((*parsed)[1].root->Find("b")->items[0].text, "---");
  EXPECT_EQ((*parsed)[2].line, 10);
  EXPECT_EQ((*parsed)[2].root->Find("c")->text, "---\nd\n");
  const auto broken = [](std::string_view text) {
    const std::vector<YamlDocument> documents = *ParseYamlDocuments(text, "a.yaml");
    EXPECT_EQ(documents.size(), 2u);
    EXPECT_EQ(documents.at(0).root.ok(), text[0] == 'a') << "each is read for itself";
    return documents.at(text[0] == 'a' ? 1 : 0).root.status().message();
  };
  EXPECT_EQ(broken("a: 1\n---\nb: 1\nb: 2\n"), "a.yaml:4: field 'b' is given twice");
  EXPECT_EQ(broken("b: 1\nb: 2\n---\na: 1\n"), "a.yaml:2: field 'b' is given twice");
  EXPECT_EQ(broken("a: 1\n---\n{\n").substr(0, 9), "a.yaml:4:");
  EXPECT_EQ(ParseYamlDocuments("a: 1\n--- {b: 1}\n", "a.yaml")->at(0).root.status().message(),
            "a.yaml:2: holds more than one document; give each object its own file");
  EXPECT_FALSE(ParseYamlDocuments("a: \xff", "a.yaml").ok());
  EXPECT_TRUE(ParseYamlDocuments("", "a.yaml")->empty());
  EXPECT_TRUE(ParseYamlDocuments("---", "a.yaml")->empty());
}

}  // namespace
}  // namespace janus::control
