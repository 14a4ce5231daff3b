// Where tests find the source tree and the programs of this build.

#pragma once

#include <string>

namespace janus::test {

// The root of the source tree, without a slash at its end. One object alone is compiled with this
// path, so that the compiler cache serves every other object to a clone in another folder too.
const std::string& SourceDir();

// The folder of the programs that this build makes.
const std::string& BinDir();

}  // namespace janus::test
