#pragma once

#include <string>
#include <string_view>

namespace janus::dataplane {

// Where a family keeps its parts in a checkpoint. One small file per family implements it.
class Family {
 public:
  virtual ~Family() = default;

  virtual std::string Embedding() const = 0;
  virtual std::string FinalNorm() const = 0;
  virtual std::string LmHead() const = 0;

  virtual std::string InputNorm(int layer) const = 0;
  virtual std::string Query(int layer) const = 0;
  virtual std::string Key(int layer) const = 0;
  virtual std::string Value(int layer) const = 0;
  virtual std::string Output(int layer) const = 0;
  virtual std::string PostNorm(int layer) const = 0;

  virtual std::string Router(int layer) const = 0;
  virtual std::string ExpertGate(int layer, int expert) const = 0;
  virtual std::string ExpertUp(int layer, int expert) const = 0;
  virtual std::string ExpertDown(int layer, int expert) const = 0;
};

// The family of ModelDescription::family; null if there is none.
const Family* FindFamily(std::string_view name);

const Family& MixtralFamily();

}  // namespace janus::dataplane
