// Where tests find the source tree and the programs of this build.

#pragma once

#include <string>

namespace janus::test {

// The root of the source tree, without a slash at its end. Only one object is compiled with this
// path, so that the compiler cache can serve all others to a clone in another folder.
const std::string& SourceDir();

// The folder of the programs that this build makes.
const std::string& BinDir();

}  // namespace janus::test
