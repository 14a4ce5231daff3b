#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/gpu_cases/case_book.h"

namespace janus::kernels {

inline std::string NameOf(const testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + '.' + test.name();
}

// Writes how a case of GoogleTest ended. A skipped case did not fail; its line says why it was
// skipped. `lost`: as in CaseBook::End.
inline void BookEnd(CaseBook& book, const testing::TestInfo& test, bool lost) {
  const testing::TestResult& result = *test.result();
  std::string why;
  if (result.Skipped()) {
    why = "skipped";  // by a case without a reason
    for (int i = 0; i < result.total_part_count(); ++i) {
      const testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.skipped() && *part.message() != '\0') why = part.message();
    }
  }
  book.End(NameOf(test), !result.Failed(), lost, result.elapsed_time(), why);
}

}  // namespace janus::kernels
