#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus::cli {

// A whole text file, plain or gzip. NotFound: cannot be opened. InvalidArgument: damaged, or more
// than 1 GiB of text. Messages begin with the path.
Result<std::string> ReadPossiblyGzip(const std::string& path);

// The file itself, or the files *.csv and *.csv.gz of a folder in order of their names. NotFound: a
// folder without any.
Result<std::vector<std::string>> CsvFilesAt(const std::string& path);

// CSV text with a header row, walked row by row; blank rows are passed by, blanks, quotes around a
// field and '\r' are trimmed. A comma always separates. Borrows the text. Confined to one thread.
class CsvReader {
 public:
  // Takes the header; an empty text has no columns.
  explicit CsvReader(std::string_view text);

  std::string_view header() const { return header_; }
  // The first column with one of the names; -1 if there is none.
  int FindColumn(std::initializer_list<std::string_view> names) const;

  // Goes to the next row; false at the end.
  bool Next();
  int64_t line() const { return line_; }  // of the file, from 1
  std::string_view row() const { return row_; }
  // A field of the row; empty where the row is shorter.
  std::string_view Text(int column) const;
  // nullopt: not a number, or more than a number.
  std::optional<double> Number(int column) const;

 private:
  bool TakeLine(std::string_view& line);
  static void Split(std::string_view line, std::vector<std::string_view>& fields);

  std::string_view rest_;
  std::string_view header_;
  std::string_view row_;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> fields_;
  int64_t line_ = 0;
};

}  // namespace janus::cli
