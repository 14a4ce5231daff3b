#include "tests/support/paths.h"

namespace janus::test {

const std::string& SourceDir() {
  static const std::string value = JANUS_SOURCE_DIR;
  return value;
}

const std::string& BinDir() {
  static const std::string value = JANUS_BIN_DIR;
  return value;
}

}  // namespace janus::test
