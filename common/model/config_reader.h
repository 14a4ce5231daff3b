#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus {

// Reads the fields of a JSON object and remembers the first error, so that a family reads its
// config.json top to bottom and checks once at the end. A field is named by its path
// ("rope_parameters.rope_theta"). null counts as absent, because transformers writes it so. A
// getter that fails returns its lower bound, fallback or an empty value. Thread-compatible.
class ConfigReader {
 public:
  // InvalidArgument: not one JSON object (with the byte), or more than 16 MiB.
  static Result<ConfigReader> Parse(std::string_view text);
  ~ConfigReader();
  ConfigReader(ConfigReader&&) noexcept;
  ConfigReader& operator=(ConfigReader&&) noexcept;

  bool Has(std::string_view path) const;
  // `path` if that field is there, otherwise `other`.
  std::string_view Either(std::string_view path, std::string_view other) const {
    return Has(path) ? path : other;
  }
  // Whether the field is there and null.
  bool IsNull(std::string_view path) const;
  // Whether the field is absent, or an object or a list without entries.
  bool IsEmpty(std::string_view path) const;
  // The value as a short text for a message; empty: absent.
  std::string Shown(std::string_view path) const;

  // An integer in [low, high]; refuses a float, even with an integral value.
  int64_t Integer(std::string_view path, int64_t low, int64_t high);
  int64_t IntegerOr(std::string_view path, int64_t fallback, int64_t low, int64_t high);
  // A finite number in [low, high].
  double NumberOr(std::string_view path, double fallback, double low, double high);
  bool BoolOr(std::string_view path, bool fallback);
  std::string StringOr(std::string_view path, std::string_view fallback);
  // A list of strings; empty if the field is absent.
  std::vector<std::string> Strings(std::string_view path);
  // One integer or a list of them, each in [low, high]; empty if the field is absent.
  std::vector<int64_t> Integers(std::string_view path, int64_t low, int64_t high);

  // From now on paths begin in the object at `field`; messages have the whole path. Of the
  // `inherited` fields it takes those of the object around it that it lacks. Fails if it is no
  // object.
  void Enter(std::string_view field, const std::vector<std::string>& inherited);

  // Remembers "<path>: <message>" unless there was an earlier error.
  void Fail(std::string_view path, std::string message);

  // The first error; InvalidArgument.
  const Status& status() const { return status_; }

 private:
  struct Document;  // keeps the JSON library out of this header
  explicit ConfigReader(std::unique_ptr<Document> document);

  std::unique_ptr<Document> document_;
  Status status_;
};

}  // namespace janus
