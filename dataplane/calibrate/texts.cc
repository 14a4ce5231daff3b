#include "dataplane/calibrate/calibrate.h"

namespace janus::dataplane {

// Long texts are written in pieces.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
std::vector<std::string> CalibrationTexts() {
  return {
      "It was a bright morning when the two sisters walked down the lane to the village. The elder "
      "had a letter in her hand, and the younger asked again and again what was in it. \"You will "
      "hear it soon enough,\" said the elder, and she smiled, because she did not know it herself. "
      "Behind the church they met the doctor, who had been called to the farm on the hill in the "
      "night and had not slept since.",
      "A cache is a small, fast memory that holds copies of data from a larger, slower one. When a "
      "processor reads an address, it looks into the cache first. If the data is there, the read "
      "is a hit and takes a few cycles. If not, it is a miss: the line is fetched, and another one "
      "must leave. Which one leaves is decided by the replacement policy.",
      "def merge(left, right):\n    result = []\n    i = j = 0\n    while i < len(left) and j < "
      "len(right):\n        if left[i] <= right[j]:\n            result.append(left[i])\n          "
      "  i += 1\n        else:\n            result.append(right[j])\n            j += 1\n    "
      "return "
      "result + left[i:] + right[j:]\n",
      "#include <vector>\n\ntemplate <class T>\nT Sum(const std::vector<T>& values) {\n  T "
      "sum{};\n  "
      "for (const T& value : values) sum += value;  // in order\n  return sum;\n}\n",
      "{\"name\": \"demo\", \"replicas\": 3, \"ports\": [8080, 9090], \"labels\": {\"tier\": "
      "\"gpu\", \"zone\": \"b\"}, \"ready\": true, \"age\": 12.75, \"owner\": null}",
      "Question: A train leaves at 9:40 and travels 210 km at 84 km/h. When does it arrive? "
      "Answer: "
      "210 / 84 = 2.5 hours, so it arrives at 12:10. Question: What is 17 * 23? Answer: 17 * 20 = "
      "340 and 17 * 3 = 51, so 391.",
      "Le soir tombait sur la ville, et les lampes s'allumaient une à une le long du fleuve. Die "
      "Straße war leer, nur ein Hund lief über den Platz. La niña preguntó por qué el cielo cambia "
      "de color. 今天天气很好，我们去公园散步吧。 Сегодня утром шёл снег.",
      "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987. 3.14159265358979. 2024-11-28 "
      "17:45:00. $1,299.00. -273.15. 0x7fffffff. 6.02e23.",
      "The",
      "\n\n",
  };
}
// NOLINTEND(bugprone-suspicious-missing-comma)

}  // namespace janus::dataplane
