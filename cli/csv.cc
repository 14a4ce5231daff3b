#include "cli/csv.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace janus::cli {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<std::string> ReadPossiblyGzip(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(path + ": is a folder; want a CSV file");
  }
  gzFile file = gzopen(path.c_str(), "rb");  // also reads plain text
  if (file == nullptr) return NotFound(path + ": cannot open this file; want CSV, plain or gzip");
  std::string text;
  std::array<char, 1 << 16> buffer;
  int got = 0;
  while ((got = gzread(file, buffer.data(), buffer.size())) > 0 && text.size() <= kMaxBytes) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  const bool is_short = gzclose(file) == Z_BUF_ERROR;  // the file is truncated
  if (got < 0)
    return InvalidArgument(path + ": cannot read this file, or its gzip data is damaged");
  if (text.size() > kMaxBytes)
    return InvalidArgument(path + ": has more than 1 GiB of text, which is the limit");
  if (is_short) {
    return InvalidArgument(path +
                           ": its gzip data ends too early; copy or download the file again");
  }
  return text;
}

Result<std::vector<std::string>> CsvFilesAt(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".csv") || name.ends_with(".csv.gz")) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  if (files.empty()) return NotFound(path + ": this folder has no .csv or .csv.gz file");
  return files;
}

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets write it
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  if (TakeLine(header_)) Split(header_, names_);
}

int CsvReader::FindColumn(std::initializer_list<std::string_view> names) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (std::ranges::find(names, names_[i]) != names.end()) return static_cast<int>(i);
  }
  return -1;
}

bool CsvReader::Next() {
  while (TakeLine(row_)) {
    if (Trim(row_).empty()) continue;
    Split(row_, fields_);
    return true;
  }
  return false;
}

std::string_view CsvReader::Text(int column) const {
  const auto i = static_cast<size_t>(column);
  return column >= 0 && i < fields_.size() ? fields_[i] : std::string_view();
}

std::optional<double> CsvReader::Number(int column) const {
  const std::string_view text = Text(column);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

bool CsvReader::TakeLine(std::string_view& line) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\n');
  line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  ++line_;
  return true;
}

void CsvReader::Split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  while (true) {
    const size_t comma = line.find(',');
    fields.push_back(Trim(line.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace janus::cli
