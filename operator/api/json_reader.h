#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "operator/api/tree.h"

namespace janus::control {

// Reads JSON text into a tree in one pass. Of fields that a filter excludes it checks only the
// nesting and builds nothing. Only ParseJson uses it. One use; confined to one thread.
class JsonReader {
 public:
  static constexpr size_t kMaxDepth = 200;  // trees are built and destroyed recursively
  static constexpr size_t kMaxValues = 4'000'000;

  JsonReader(std::string_view text, const JsonPart& part) : text_(text), part_(part) {}

  // Reads the whole text. False: error() has the reason.
  bool Read(Node& out);
  const std::string& error() const { return error_; }

 private:
  using Fields = std::vector<FieldFilter::Field>;

  // `kept`: null keeps everything.
  bool Value(Node& out, const Fields* kept);
  bool Object(Node& out, const Fields* kept);
  bool List(Node& out, const Fields* kept);
  bool Number(Node& out);
  bool Literal(std::string_view word);
  bool String(std::string& out);
  bool Escape(std::string& out);
  bool CodeUnit(unsigned& out);
  bool Field(Node& out, const std::string& name, const Fields* kept);
  bool Skip();
  bool SkipString();

  // Inside a list or map: advances to the next value (true) or past the end (false).
  bool Next(char close, bool& is_first);
  bool Enter();
  void Space();
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c);
  bool Fail(std::string_view why);

  const std::string_view text_;
  const JsonPart& part_;
  size_t at_ = 0;
  size_t depth_ = 0;
  size_t values_ = 0;
  std::string error_;
};

}  // namespace janus::control
