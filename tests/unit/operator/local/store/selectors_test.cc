#include "operator/local/store/selectors.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"

namespace janus::control {
namespace {

constexpr std::string_view kFields[] = {"spec.nodeName"};

bool Matches(const std::string& labels, const std::string& fields = "",
             const std::string& ns = "") {
  const Node pod =
      *ParseJson(R"({"metadata":{"name":"p","namespace":"n","labels":{"app":"chat","tier":"gpu"}},)"
                 R"("spec":{"nodeName":"node-1"}})",
                 "test");
  const Result<Selector> selector = Selector::Parse({ns, labels, fields}, kFields);
  EXPECT_TRUE(selector.ok()) << selector.status().ToString();
  return selector.ok() && selector->Matches(pod);
}

StatusCode Refusal(const std::string& labels, const std::string& fields = "") {
  return Selector::Parse({"", labels, fields}, kFields).status().code();
}

TEST(Selector, ReadsEveryFormOfALabelSelector) {
  EXPECT_TRUE(Matches(""));
  EXPECT_TRUE(Matches("app=chat"));
  EXPECT_TRUE(Matches("app == chat , tier"));
  EXPECT_TRUE(Matches("app in (search, chat)"));
  EXPECT_TRUE(Matches("app notin (search),!other"));
  EXPECT_TRUE(Matches("app!=search"));
  EXPECT_FALSE(Matches("app=search"));
  EXPECT_FALSE(Matches("app=chat,tier=cpu"));
  EXPECT_FALSE(Matches("app in (search)"));
  EXPECT_FALSE(Matches("!app"));
  EXPECT_FALSE(Matches("other"));
}

TEST(Selector, ALabelThatIsNotThereDiffersFromEveryValue) {
  EXPECT_TRUE(Matches("other!=a"));
  EXPECT_TRUE(Matches("other notin (a,b)"));
  EXPECT_FALSE(Matches("other="));
}

TEST(Selector, ReadsFieldsOfTheKindAndNoOthers) {
  EXPECT_TRUE(Matches("", "metadata.name=p,spec.nodeName=node-1"));
  EXPECT_TRUE(Matches("", "spec.nodeName!=node-2"));
  EXPECT_FALSE(Matches("", "spec.nodeName="));
  EXPECT_EQ(Refusal("", "spec.image=x"), StatusCode::kInvalidArgument);
}

TEST(Selector, KeepsToItsNamespace) {
  EXPECT_TRUE(Matches("", "", "n"));
  EXPECT_FALSE(Matches("", "", "m"));
}

TEST(Selector, RefusesBrokenSyntax) {
  for (const char* broken : {"=a", "a in", "a in (b", "a b", "a,", "a=b c=d", "a in b"}) {
    EXPECT_EQ(Refusal(broken), StatusCode::kInvalidArgument) << broken;
  }
}

}  // namespace
}  // namespace janus::control
