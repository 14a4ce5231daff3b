#include "dataplane/text/chat_template.h"
#include "tests/support/contains.h"

#include <gtest/gtest.h>

namespace janus::text {
namespace {

const WallTime kNow{std::chrono::seconds(1'700'000'000)};  // 14 November 2023
constexpr std::string_view kHello = R"([{"role": "user", "content": "Hello"}])";

Result<std::string> Render(std::string_view source, std::string_view messages = kHello,
                           bool add_generation_prompt = true, std::string_view variables = {},
                           ChatTemplateLimits limits = {}) {
  Result<ChatTemplate> compiled =
      ChatTemplate::Compile(source, "test", {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, limits);
  if (!compiled.ok()) return compiled.status();
  return compiled->Render(messages, add_generation_prompt, kNow, variables);
}

struct Case {
  const char* name;
  const char* source;
  const char* text;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class ChatTemplateRenders : public testing::TestWithParam<Case> {};

TEST_P(ChatTemplateRenders, AsPythonsJinjaDoes) {
  const auto got = Render(GetParam().source);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(*got, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, ChatTemplateRenders,
    testing::Values(
        Case{
            "SpecialTokensAndMessages",
            "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}{{ eos_token }}"
            "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
            "<s>[user] Hello</s>[assistant]"},
        Case{"TrimsBlocks", "{% if true %}\n  x\n  {% endif %}\ny", "  x\ny"},
        Case{"StringMethods",
             "{{ ' ab '.strip() }}{{ 'ab'.startswith('a') }}{{ 'a,b'.split(',')[1] }}", "abTrueb"},
        Case{"NoneAndBooleansAsPython", "{{ none }} {{ true }} {{ False }}", "None True False"},
        Case{"UndefinedIsEmpty", "[{{ nothing }}]{% if tools is none %}no tools{% endif %}",
             "[]no tools"},
        Case{"ToJsonAsJsonDumps",
             "{{ {'b': 1, 'a': [1.0, none, true, '<\u00e9\"\\n>'], 'c': {}} | tojson }}",
             "{\"b\": 1, \"a\": [1.0, null, true, \"<\u00e9\\\"\\n>\"], \"c\": {}}"},
        Case{"ToJsonIndented", "{{ {'a': [1, 2], 'e': []} | tojson(indent=2) }}",
             "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": []\n}"},
        Case{"ToJsonOptions",
             "{{ {'b': 1e20, 'a': '\u00e9'} | tojson(sort_keys=true, ensure_ascii=true, "
             "separators=[',', ':']) }}",
             "{\"a\":\"\\u00e9\",\"b\":1e+20}"},
        Case{"NamespacesAndLoopControls",
             "{% set ns = namespace(n=0) %}{% for i in range(9) %}{% if i == 3 %}{% break %}{% "
             "endif "
             "%}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
             "3"},
        Case{"Macros", "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) }}{{ f('a') }}", "<1><a>"},
        Case{"SlicesAndTests",
             "{{ messages[0].content[1:3] }}{{ messages is iterable }}{{ messages[0] is mapping }}",
             "elTrueTrue"},
        Case{"GenerationMarks", "{%- generation -%}\n a {%- endgeneration %}b", "ab"},
        Case{"NoHtmlEscapes", "{{ '<a & b>' }}", "<a & b>"},
        // Expected texts from jinja2 3.1.6 for the same sources.
        Case{"ListsAndDictsAsPython",
             "{{ [1, 2.0, 'a', none, true, ['x']] }} {{ {'b': 1, 'a': {'c': []}} }}",
             "[1, 2.0, 'a', None, True, ['x']] {'b': 1, 'a': {'c': []}}"},
        Case{"QuotesOfPython", "{{ ['it\\'s', '\"q\"', '\\'\"', 'a\\nb\\\\'] }}",
             "[\"it's\", '\"q\"', '\\'\"', 'a\\nb\\\\']"},
        Case{"MessagesAsPython", "{{ messages }}", "[{'role': 'user', 'content': 'Hello'}]"},
        Case{"UnprintableAsPython", "{{ ['\u00a0', '\u00e9', '\u200b', '\u4e2d', '\ue000'] }}",
             "['\\xa0', '\u00e9', '\\u200b', '\u4e2d', '\\ue000']"},
        Case{"FloatsAsPython", "{{ 1e20 }} {{ 0.00001 }} {{ 1.5 }} {{ 3.0 }} {{ 100 }}",
             "1e+20 1e-05 1.5 3.0 100"},
        Case{"JoinAndStringAsPython",
             "{{ [1, none, true, 2.50] | join('-') }} {{ none | string }} {{ [1] | string }}",
             "1-None-True-2.5 None [1]"},
        Case{"JoinOfAttributes", "{{ messages | join(',', attribute='role') }}", "user"},
        Case{"PercentOfStrings",
             "{{ 'a%s' % 'b' }} {{ '%d items' % 3 }} {{ '%s=%r' % ('k', 'v') }} {{ "
             "'%5.2f|%-4s|%04d|%x|%%' % (3.14159, 'ab', 42, 255) }}",
             "ab 3 items k='v'  3.14|ab  |0042|ff|%"},
        Case{"PercentOfOperands",
             "{{ '%s' % messages[0]['role'] ~ '!' }} {{ \"%s\" % messages[0].content|upper }} {{ 7 "
             "% 4 }} {{ '%d' % -3 }} {{ '%(a)s' % {'a': 1} }}",
             "user! HELLO 3 -3 1"},
        Case{"PercentInBlocks",
             "{% set x = '%s-%s' % (1, 'b') %}{{ x }}{% if '%d' % 1 == '1' %}yes{% endif %}{{ "
             "'100%' }}",
             "1-byes100%"},
        Case{"CarriageReturns", "{% if true %}\r\na\r\n{% endif %}\r\nb\rc{{ 'x\r\ny' }}",
             "a\nb\ncx\ny"},
        Case{"KeepsTheOrderOfKeys", "{{ {'z': 1, 'a': {'y': 1, 'b': 2}} | tojson }}",
             "{\"z\": 1, \"a\": {\"y\": 1, \"b\": 2}}"},
        Case{"OneLineEndAtTheEndGoes", "a\n\n", "a\n"},
        Case{"StrftimeNow", "{{ strftime_now('%Y-%m') }}", "2023-11"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ChatTemplate, PassesFurtherVariablesThatCannotReplaceItsOwn) {
  EXPECT_EQ(Render("{{ thinking }}{{ bos_token }}{{ messages | length }}", kHello, true,
                   R"({"thinking": "on", "bos_token": "x", "messages": []})")
                .value(),
            "on<s>1");
  EXPECT_EQ(Render("{{ bos_token }}", kHello, true, "{ }").value(), "<s>");
}

TEST(ChatTemplate, PercentNamesWhatIsWrong) {
  EXPECT_TRUE(Contains(Render("{{ '%s %s' % 'a' }}").status().message(), "not enough arguments"));
  EXPECT_TRUE(Contains(Render("{{ 'a' % 'b' }}").status().message(), "not all arguments"));
  EXPECT_TRUE(Contains(Render("{{ '%q' % 1 }}").status().message(), "format character 'q'"));
}

TEST(ChatTemplate, KnowsWhatItReads) {
  const auto compiled = [](std::string_view source) {
    return ChatTemplate::Compile(source, "test", {}).value();
  };
  EXPECT_TRUE(compiled("{{ reasoning_effort }}").Mentions("reasoning_effort"));
  EXPECT_FALSE(compiled("{{ my_reasoning_effort }}").Mentions("reasoning_effort"));
  for (const char* loops :
       {"{% for p in message['content'] %}{% endfor %}", "{%- for p in m.content -%}{% endfor %}",
        "{% for p in content %}{% endfor %}"}) {
    EXPECT_TRUE(compiled(loops).LoopsOverContent()) << loops;
  }
  for (const char* other : {"{{ message.content }}", "{% for m in messages %}{% endfor %}",
                            "{% for p in m.content.split('x') %}{% endfor %}"}) {
    EXPECT_FALSE(compiled(other).LoopsOverContent()) << other;
  }
}

TEST(ChatTemplate, PassesOnWhatRaiseExceptionSays) {
  const auto got = Render("\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(got.status().message(), "chat template: line 2: roles must alternate");
}

TEST(ChatTemplate, NamesTheLineOfASyntaxError) {
  const auto got = Render("a\n{% if %}");
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(got.status().message(), "test: chat template: line 2"));
}

TEST(ChatTemplate, NamesAnUnknownMethod) {
  const auto got = Render("{{ 'a'.frobnicate() }}");
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(got.status().message(), "frobnicate"));
}

TEST(ChatTemplate, RefusesToLookIntoWhatIsUndefined) {
  const auto got = Render("{{ nothing.deeper }}");
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, EndsALoopWithoutEnd) {
  const auto got = Render(
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}"
      "{% endfor %}{% endfor %}{% endfor %}");
  EXPECT_EQ(got.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(got.status().message(), "instructions"));
}

TEST(ChatTemplate, EndsAnEndlessRecursion) {
  EXPECT_FALSE(Render("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}").ok());
}

TEST(ChatTemplate, BoundsItsOutput) {
  const auto got = Render("{% for a in range(999) %}{{ messages[0].content }}{% endfor %}", kHello,
                          true, {}, {.output_bytes = 1000});
  EXPECT_EQ(got.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(got.status().message(), "passes 1000 bytes"));
}

TEST(ChatTemplate, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(Render("\xff").status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(Render("{{ messages }}", "[\"\xff\"]").status().message(), "not UTF-8"));
}

}  // namespace
}  // namespace janus::text
