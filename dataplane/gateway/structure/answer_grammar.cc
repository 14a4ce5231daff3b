#include "dataplane/gateway/structure/answer_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/structure/lark.h"

namespace janus::gateway {

namespace {

using Json = nlohmann::ordered_json;

// The grammars of one answer: "main", which comes first, and those that it uses by name.
class Grammars {
 public:
  // Returns the name by which rules use it.
  std::string AddSchema(Json schema) {
    // Without a bound, a model may write white space for ever.
    if (schema.is_object() && !schema.contains("x-guidance")) {
      schema["x-guidance"] = {{"whitespace_pattern", R"([\x20\x0A\x0D\x09]{1,40})"}};
    }
    return Add("json_schema", std::move(schema));
  }
  std::string AddLark(std::string text) { return Add("lark_grammar", std::move(text)); }
  void AddRule(const std::string& name, const std::string& body) {
    rules_ += name + ": " + body + "\n";
  }
  std::string Text() const {
    Json list = Json::array({{{"name", "main"}, {"lark_grammar", rules_}}});
    for (const Json& one : used_) list.push_back(one);
    return Json{{"grammars", std::move(list)}}.dump();
  }

 private:
  std::string Add(const char* kind, Json value) {
    const std::string name = "part" + std::to_string(used_.size());
    used_.push_back({{"name", name}, {kind, std::move(value)}});
    return "@" + name;
  }

  std::string rules_;
  std::vector<Json> used_;
};

// How a format writes calls: BEGIN CALL (SEPARATOR CALL)* END, and CALL is BEFORE name BETWEEN
// arguments AFTER.
struct CallSyntax {
  std::string_view begin{}, before{}, between{}, after{}, separator{}, end{};
};

CallSyntax SyntaxOf(ToolFormat format, std::string_view chat_template) {
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kGlm:  // has another form of arguments
      return {.before = "<tool_call>", .between = "\n", .after = "</tool_call>", .separator = "\n"};
    case ToolFormat::kHermes:
      return {.before = "<tool_call>\n{\"name\": \"",
              .between = "\", \"arguments\": ",
              .after = "}\n</tool_call>",
              .separator = "\n"};
    case ToolFormat::kDeepSeek:
      // V3 and R1 name the type of a call and quote its arguments; V3.1 does neither.
      if (chat_template.find("```json") != chat_template.npos) {
        return {.begin = "<｜tool▁calls▁begin｜>",
                .before = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                .between = "\n```json\n",
                .after = "\n```<｜tool▁call▁end｜>",
                .separator = "\n",
                .end = "<｜tool▁calls▁end｜>"};
      }
      return {.begin = "<｜tool▁calls▁begin｜>",
              .before = "<｜tool▁call▁begin｜>",
              .between = "<｜tool▁sep｜>",
              .after = "<｜tool▁call▁end｜>",
              .end = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kKimi:
      return {.begin = "<|tool_calls_section_begin|>",
              .before = "<|tool_call_begin|>functions.",
              .between = "<|tool_call_argument_begin|>",
              .after = "<|tool_call_end|>",
              .end = "<|tool_calls_section_end|>"};
    case ToolFormat::kHarmony:  // a call ends the answer
      return {.before = "<|channel|>commentary to=functions.",
              .between = " <|constrain|>json<|message|>"};
    case ToolFormat::kMistral:
      if (chat_template.find("[ARGS]") != chat_template.npos) {
        return {.before = "[TOOL_CALLS]", .between = "[ARGS]"};
      }
      return {.begin = "[TOOL_CALLS][",
              .before = "{\"name\": \"",
              .between = "\", \"arguments\": ",
              .after = "}",
              .separator = ", ",
              .end = "]"};
    case ToolFormat::kLlama:
      return {.before = "{\"name\": \"",
              .between = "\", \"parameters\": ",
              .after = "}",
              .separator = "; "};
    case ToolFormat::kLlama4:
      return {.before = "{\"name\": \"", .between = "\", \"parameters\": ", .after = "}"};
  }
  return {};
}

class Calls {
 public:
  Calls(const GrammarContext& context, Grammars* grammars)
      : context_(context),
        syntax_(SyntaxOf(context.chat_text.tools, context.chat_template)),
        grammars_(grammars) {}

  // Adds the rule "calls".
  void Add(const CompletionRequest& request) {
    std::string any;
    size_t count = 0;
    for (const Json& tool : Json::parse(request.tools_json)) {
      const Json& function = tool["function"];
      const auto name = function["name"].get<std::string>();
      if (!request.called_tool.empty() && name != request.called_tool) continue;
      Json schema = function.value("parameters", Json());
      if (schema.is_null()) schema = {{"type", "object"}, {"additionalProperties", false}};
      const std::string rule = "call" + std::to_string(count++);
      grammars_->AddRule(rule, Text(syntax_.before) + " " + Name(name) + " " +
                                   Text(syntax_.between) + " " + Arguments(schema) + " " +
                                   Text(syntax_.after));
      any += (any.empty() ? "" : " | ") + rule;
    }
    grammars_->AddRule("call", any);
    std::string all = "call";
    const bool is_harmony = context_.chat_text.tools == ToolFormat::kHarmony;
    if (request.parallel_tool_calls && request.called_tool.empty() && !is_harmony) {
      all += " (" + Text(syntax_.separator) + " call)*";
    }
    grammars_->AddRule("calls", Text(syntax_.begin) + " " + all + " " + Text(syntax_.end));
  }

 private:
  std::string Text(std::string_view text) const { return LarkText(context_.tokenizer, text); }

  std::string Name(const std::string& name) const {
    if (context_.chat_text.tools == ToolFormat::kKimi) return Text(name + ":") + " /[0-9]{1,2}/";
    return LarkString(name);
  }

  std::string Arguments(const Json& schema) {
    if (context_.chat_text.tools != ToolFormat::kGlm) return grammars_->AddSchema(schema);
    // One element for each argument, in the order of the schema. A string is written as it is.
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    std::string out;
    for (const auto& [name, of] : properties.items()) {
      const bool is_text = of.is_object() && of.value("type", Json()) == "string" &&
                           !of.contains("enum") && !of.contains("const");
      std::string value = "/[^<]*/";
      if (!is_text) {
        Json own = of;
        for (const char* definitions : {"$defs", "definitions"}) {
          if (own.is_object() && schema.contains(definitions)) {
            own[definitions] = schema[definitions];
          }
        }
        value = grammars_->AddSchema(std::move(own));
      }
      const bool is_required = std::ranges::find(required, Json(name)) != required.end();
      out += "(" + Text("<arg_key>" + name + "</arg_key>\n<arg_value>") + " " + value + " " +
             Text("</arg_value>\n") + (is_required ? ") " : ")? ");
    }
    return out.empty() ? "\"\"" : out;
  }

  const GrammarContext& context_;
  const CallSyntax syntax_;
  Grammars* const grammars_;
};

// The rule's body for what the request asks for.
Result<std::string> BodyOf(const StructuredAnswer& structured, Grammars* grammars) {
  using Kind = StructuredAnswer::Kind;
  switch (structured.kind) {
    case Kind::kNone:
      return std::string();
    case Kind::kJsonSchema:
      return grammars->AddSchema(Json::parse(structured.text));
    case Kind::kRegex:
      return LarkRegex(structured.text);
    case Kind::kChoice: {
      std::string any;
      for (const Json& one : Json::parse(structured.text)) {
        any += (any.empty() ? "" : " | ") + LarkString(one.get<std::string>());
      }
      return any;
    }
    case Kind::kGrammar: {
      if (structured.text.find("::=") == std::string::npos) {
        return grammars->AddLark(structured.text);
      }
      JANUS_ASSIGN_OR_RETURN(std::string lark, LarkOfGbnf(structured.text));
      return grammars->AddLark(std::move(lark));
    }
  }
  return std::string();
}

// Reasoning is free, and ends with its marker.
void AddStart(const GrammarContext& context, Grammars* grammars) {
  if (!context.chat_text.reads_reasoning || context.chat_text.begins_in_answer) {
    return grammars->AddRule("start", "answer");
  }
  const auto text = [&](std::string_view of) { return LarkText(context.tokenizer, of); };
  const bool is_harmony = context.chat_text.is_harmony;
  const bool begins = context.chat_text.begins_in_reasoning;
  const std::string begin = text(is_harmony ? "<|channel|>analysis<|message|>" : "<think>");
  const std::string thoughts = "thoughts " + (is_harmony ? text("<|start|>assistant") : "space?");
  grammars->AddRule("start",
                    begins ? thoughts + " answer" : "(" + begin + " " + thoughts + ")? answer");
  const std::string end = text(is_harmony ? "<|end|>" : "</think>");
  if (end.starts_with('"')) {
    grammars->AddRule("thoughts[suffix=" + end + "]", "/(.|\\n)*/");
  } else {
    grammars->AddRule("thoughts", "/(.|\\n)*/ " + end);
  }
  if (!is_harmony) grammars->AddRule("space", "/[ \\t\\r\\n]{1,8}/");
}

}  // namespace

RequestResult<std::string> AnswerGrammar(const GrammarContext& context,
                                         const CompletionRequest& request) {
  const bool is_structured = request.structured.kind != StructuredAnswer::Kind::kNone;
  if (!is_structured && !request.must_call) return std::string();
  Grammars grammars;
  AddStart(context, &grammars);
  const Result<std::string> body = BodyOf(request.structured, &grammars);
  if (!body.ok()) return InvalidParameter(request.structured.param, body.status().message());
  std::string answer = *body;
  if (!answer.empty() && context.chat_text.is_harmony && !context.chat_text.begins_in_answer) {
    answer = LarkText(context.tokenizer, "<|channel|>final<|message|>") + " (" + answer + ")";
  }
  // With tools that may be called, the answer is either.
  if (request.reads_tool_calls) {
    Calls(context, &grammars).Add(request);
    answer += answer.empty() ? "calls" : " | calls";
  }
  grammars.AddRule("answer", answer);
  return grammars.Text();
}

}  // namespace janus::gateway
