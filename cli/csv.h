#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus::cli {

// Reads a whole text file, plain or gzip. NotFound: it cannot be opened. InvalidArgument: it is
// damaged, or has more than 1 GiB of text. Messages begin with the path.
Result<std::string> ReadPossiblyGzip(const std::string& path);

// The path itself if it is a file; for a folder, its files *.csv and *.csv.gz in order of their
// names. NotFound: the folder has no such file.
Result<std::vector<std::string>> CsvFilesAt(const std::string& path);

// Reads CSV text with a header row, row by row. Skips blank rows; trims blanks, quotes around a
// field and '\r'. Every comma separates fields, also inside quotes. Borrows the text. Confined to
// one thread.
class CsvReader {
 public:
  // Reads the header; an empty text has no columns.
  explicit CsvReader(std::string_view text);

  std::string_view header() const { return header_; }
  // The first column with one of these names, or -1.
  int FindColumn(std::initializer_list<std::string_view> names) const;

  // Goes to the next row; false at the end.
  bool Next();
  int64_t line() const { return line_; }  // of the file, from 1
  std::string_view row() const { return row_; }
  // A field of the row; empty if the row is shorter.
  std::string_view Text(int column) const;
  // nullopt: the field is not a number, or has more text than the number.
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
