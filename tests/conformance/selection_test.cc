// What lists and watches select: selectors and versions.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/conformance/object_api_case.h"

namespace janus::control {
namespace {

class SelectionTest : public ObjectApiTest {
 protected:
  // The names, as "a b", or the code.
  std::string Names(const Selection& selection) {
    ListOptions options;
    options.selection = selection;
    options.selection.namespace_ = ns();
    const ApiResult<ObjectList> list = api().List(kConfigMaps, options, kLimits);
    if (!list.ok()) return std::to_string(list.error().http_status);
    std::string out;
    for (const Node& item : list->items) {
      const std::string name = KeyOf(item).name;
      const size_t own = Key("-").name.size();
      out += (out.empty() ? "" : " ") + (name.size() > own ? name.substr(own) : name);
    }
    return out;
  }
  int WatchCode(const WatchOptions& options) {
    const ApiResult<WatchEnd> end =
        api().Watch(kConfigMaps, options, [](const WatchEvent&) { return false; }, {});
    return end.ok() ? 0 : end.error().http_status;
  }
};

TEST_F(SelectionTest, LabelsAreComparedAsAsked) {
  const auto make = [&](const std::string& name, const std::string& labels) {
    Node object = Labelled(ConfigMap(Key("-" + name)));
    const Node more = *ParseJson(labels, "test");
    for (const NodeField& label : more.fields) {
      SetAt(object, {"metadata", "labels", label.name}, label.value);
    }
    MustCreate(kConfigMaps, object);
  };
  make("five", R"({"n":"5","a":"x"})");
  make("many", R"({"n":"15","b":""})");
  make("word", R"({"n":"abc","in":"in"})");
  const struct {
    const char* selector;
    const char* names;
  } kCases[] = {
      {"n>5", "many"},
      {"n > 4", "five many"},
      {"n<10", "five"},
      {"n>4,a", "five"},
      {"n>99999999999", ""},
      {"n in (5,15)", "five many"},
      {"n in(5)", "five"},
      {"n notin (5)", "many word"},
      {"b in ()", "many"},
      {"b in (x,)", "many"},
      {"b in (,x)", "many"},
      {"n in ( 5 , 15 )", "five many"},
      {"n=", ""},
      {"n==5", "five"},
      {"n!=5", "many word"},
      {"n!=", "five many word"},
      {" a ", "five"},
      {"!a", "many word"},
      {"! a", "many word"},
      {"a=x,n=5", "five"},
      {"in", "word"},
      {"in in (in)", "word"},
      {"in=in", "word"},
      {"a.b/c=1", ""},
      {"n\t=\t5\n", "five"},
  };
  const std::string own = ",test=" + Key().name;
  for (const auto& one : kCases) {
    EXPECT_EQ(Names({"", one.selector + own, ""}), one.names) << one.selector;
  }
}

TEST_F(SelectionTest, BrokenLabelSelectorsAreRefused) {
  const std::string long_word(64, 'x');
  for (const std::string& broken : {std::string("n>abc"),
                                    std::string("n>"),
                                    std::string("n>-1"),
                                    std::string("n>4.5"),
                                    std::string("n>99999999999999999999"),
                                    std::string("n>5>6"),
                                    std::string("n in 5"),
                                    std::string("n in (5"),
                                    std::string("n in (a b)"),
                                    std::string("n in (_x)"),
                                    std::string("n in notin (5)"),
                                    std::string("!n=5"),
                                    std::string("!n in (5)"),
                                    std::string("!!a"),
                                    std::string("a b"),
                                    std::string("a=b=c"),
                                    std::string("a=x y"),
                                    std::string("n=5,"),
                                    std::string("n=5,,a"),
                                    std::string(","),
                                    std::string(",a"),
                                    std::string("n=(5)"),
                                    std::string("(n)"),
                                    std::string("n)"),
                                    std::string("n!5"),
                                    std::string("n gt 5"),
                                    std::string("n exists"),
                                    std::string("_bad=1"),
                                    std::string("bad_=1"),
                                    std::string("/x=1"),
                                    std::string("a/b/c=1"),
                                    std::string("A.b/c=1"),
                                    std::string("n=_x"),
                                    std::string("n=x_"),
                                    std::string("n=\xc3\xa9"),
                                    std::string("n=5;a=x"),
                                    "n=" + long_word,
                                    long_word + "=1"}) {
    EXPECT_EQ(Names({"", broken, ""}), "400") << broken;
    WatchOptions watch;
    watch.selection = {ns(), broken, ""};
    watch.resource_version = "1";
    EXPECT_EQ(WatchCode(watch), 400) << broken;
  }
}

TEST_F(SelectionTest, FieldsAreEqualOrNot) {
  MustCreate(kConfigMaps, ConfigMap(Key("-a")));
  MustCreate(kConfigMaps, ConfigMap(Key("-b")));
  const std::string a = Key("-a").name;
  EXPECT_EQ(Names({"", "", "metadata.name=" + a}), "a");
  EXPECT_EQ(Names({"", "", "metadata.name==" + a + ","}), "a");
  EXPECT_EQ(Names({"", "", ",metadata.name=" + a}), "a");
  EXPECT_EQ(Names({"", "", "metadata.name=" + a + ",metadata.namespace=" + ns()}), "a");
  EXPECT_EQ(Names({"", "", "metadata.name!=" + a + ",metadata.name=" + a}), "");
  EXPECT_EQ(Names({"", "", "metadata.name="}), "");
  EXPECT_EQ(Names({"", "", "metadata.name=a\\,b"}), "");
  EXPECT_EQ(Names({"", "", "metadata.name=(a)"}), "");
  for (const char* const broken :
       {"metadata.name in (a,b)", "metadata.name in (a)", "metadata.name notin (a)",
        "metadata.name", "!metadata.name", "metadata.name>1", "metadata.name=a=b",
        "metadata.name=a\\b", "metadata.name=a\\", "metadata.name =a", " metadata.name=a", "=a",
        "nosuchfield=a", "data.key=one"}) {
    EXPECT_EQ(Names({"", "", broken}), "400") << broken;
    WatchOptions watch;
    watch.selection = {ns(), "", broken};
    watch.resource_version = "1";
    EXPECT_EQ(WatchCode(watch), 400) << broken;
  }
}

TEST_F(SelectionTest, AVersionThatIsNoneIsToldByTheCall) {
  for (const char* const none : {"abc", "-1", "1.5", "0x1", "+1", "1 ", "99999999999999999999"}) {
    WatchOptions watch;
    watch.selection.namespace_ = ns();
    watch.resource_version = none;
    for (const bool initial_events : {false, true}) {
      watch.initial_events = initial_events;
      const ApiResult<WatchEnd> end =
          api().Watch(kConfigMaps, watch, [](const WatchEvent&) { return false; }, {});
      ASSERT_FALSE(end.ok()) << none;
      EXPECT_EQ(end.error().http_status, 500) << none;
      EXPECT_EQ(end.error().code, StatusCode::kInvalidArgument) << end.status().ToString();
    }
    ListOptions list;
    list.selection.namespace_ = ns();
    list.resource_version = none;
    EXPECT_EQ(api().List(kConfigMaps, list, kLimits).error().http_status, 400) << none;
  }
  ListOptions list;
  list.selection.namespace_ = ns();
  list.continue_token = "abc";
  EXPECT_EQ(api().List(kConfigMaps, list, kLimits).error().http_status, 400);
}

}  // namespace
}  // namespace janus::control
