#include "dataplane/model/family.h"

namespace janus::dataplane {

const Family* FindFamily(std::string_view name) {
  if (name == "mixtral") return &MixtralFamily();
  return nullptr;
}

}  // namespace janus::dataplane
