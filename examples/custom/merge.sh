#!/bin/sh
# merge.sh: adds up the sums of all languages and writes metrics.json.
set -eu
cat in/cut/*/cuts | awk -F '\t' '
  { functions += $1; whole += $2; wanted += $3; read += $4; windows += $5; comments += $6 }
  END {
    printf "{\"functions\": %d, \"windows\": %d, \"comment_lines\": %d,", functions, windows, comments
    printf " \"whole\": %.4f, \"function_share\": %.4f}\n", whole / functions, wanted / read
  }
' > metrics.json
