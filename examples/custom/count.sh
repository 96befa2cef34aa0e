#!/bin/sh
# count.sh FOLDER ENDING: writes listing.tsv, a line per file:
# path, lines, lines that are nothing but a comment.
set -eu
case $2 in
  py) comment='^[ \t]*#' ;;
  *) comment='^[ \t]*(//|/[*]|[*])' ;;
esac
find "$1" -type f -name "*.$2" | LC_ALL=C sort | while IFS= read -r file; do
  awk -v file="$file" -v comment="$comment" '
    $0 ~ comment { comments++ }
    END { printf "%s\t%d\t%d\n", file, NR, comments }
  ' "$file"
done > listing.tsv
