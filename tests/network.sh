#!/usr/bin/env bash
# What needs package registries: archives through the registries' own clients,
# real servers driven by the retrieval pipeline, the same without a network, the
# published BM25 lists, a new server from an empty folder, results that go
# through a bucket, and the citations of answers about Flask.
#
#   tests/network.sh            all parts
#   tests/network.sh a d        these parts
#
# Wants root, python3 with pip, node with npm, apt, target/release/proofline, and for g cargo.
# Everything goes into one scratch folder, which is removed at the end;
# PROOFLINE_BIN names another binary, NETWORK_SCRATCH a folder that is kept, with
# the servers in it for the next time.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
here=$root/tests/network
scratch=${NETWORK_SCRATCH:-$(mktemp -d /tmp/proofline-network.XXXXXX)}
out=$scratch/out
mkdir -p "$scratch/bin" "$out"
rm -rf "$scratch"/store-* "$out"/*
[ -n "${NETWORK_SCRATCH:-}" ] || trap 'rm -rf "$scratch"' EXIT
# A copy: a build in the middle changes nothing.
cp "${PROOFLINE_BIN:-$root/target/release/proofline}" "$scratch/bin/proofline"
export PATH=$scratch/bin:$PATH
cd "$root"

say() { echo "   $*"; }
fail() {
  echo "network test: $*" >&2
  exit 1
}
# shellcheck source=network/s3.sh
. "$here/s3.sh"
check() { python3 "$here/check.py" "$@"; }

# Installs, three times with pauses: registries have bad minutes.
tries() {
  local n
  for n in 1 2 3; do
    "$@" >"$out/install.log" 2>&1 && return 0
    echo "   try $n failed: $*" >&2
    tail -n 15 "$out/install.log" >&2
    [ "$n" = 3 ] || sleep $((n * 10))
  done
  fail "can't install: $*"
}

# pl CODE NAME ARGS: runs proofline, keeps what it prints in out/NAME and NAME.err, and wants this exit code.
pl() {
  local want=$1 name=$2 code=0
  shift 2
  timeout 420 "${wrap[@]}" proofline "$@" >"$out/$name" 2>"$out/$name.err" || code=$?
  if [ "$code" != "$want" ]; then
    tail -n 30 "$out/$name.err" >&2
    head -c 3000 "$out/$name" >&2
    fail "\`proofline $*\` exited with $code, expected $want"
  fi
}
wrap=()

# retrieval CODE NAME STORE ARGS: one run of the retrieval pipeline.
retrieval() {
  local want=$1 name=$2 store=$3
  shift 3
  # What kept a server from its answers would be gone with the scratch folder.
  (pl "$want" "$name" run pipelines/retrieval.toml --set replicates=1 --store "$scratch/store-$store" --trust --json "$@") || {
    proofline report --rows --store "$scratch/store-$store" 2>/dev/null | grep -v '"state":"valid"' | cut -c1-600 | head -n 8 >&2
    exit 1
  }
}

# Rows and report of the latest run of a store.
results() {
  pl 0 "$1.rows" report --rows --store "$scratch/store-$2"
  pl 0 "$1.report" report --json --store "$scratch/store-$2"
}

# sessions NAME STORE FILE ARM...: what the servers' sessions themselves say.
sessions() {
  local name=$1 store=$2 file=$3 arm node part
  shift 3
  for arm in "$@"; do
    node="search[repo=flask,replicate=1,arm=$arm]"
    for part in facts replies; do
      pl 0 "$name.$arm.$part" show "$node" --part "$part" --store "$scratch/store-$store"
    done
    check session "$arm" "$out/$name.$arm.facts" "$out/$name.$arm.replies" "$file"
  done
}

install_servers() {
  if ! command -v rg >/dev/null; then
    tries apt-get update -q
    tries env DEBIAN_FRONTEND=noninteractive apt-get install -y -q ripgrep
  fi
  if [ ! -e "$scratch/python.done" ]; then
    python3 -m venv "$scratch/python" >"$out/venv.log" 2>&1 || {
      # Debian keeps the part that puts pip into a venv in a package of its own.
      tries apt-get update -q
      tries env DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-venv
      rm -rf "$scratch/python"
      python3 -m venv "$scratch/python"
    }
    tries "$scratch/python/bin/python" -m pip install --no-deps -r "$here/requirements.txt"
    touch "$scratch/python.done"
  fi
  if [ ! -e "$scratch/node.done" ]; then
    mkdir -p "$scratch/node"
    cp "$here/package.json" "$here/package-lock.json" "$scratch/node/"
    # Not `npm ci`: it refuses a lock file without the programs for other systems, which
    # some registries don't have. No package's scripts but the one that unpacks the
    # program that its package holds.
    tries npm install --prefix "$scratch/node" --ignore-scripts --no-audit --no-fund --no-update-notifier
    # In CI that script does nothing, by these variables.
    tries env -u CI -u GITHUB_ACTIONS -u CONTINUOUS_INTEGRATION -u BUILD_NUMBER -u JENKINS_URL -u TRAVIS \
      -u CIRCLECI -u GITLAB_CI npm rebuild --prefix "$scratch/node" --no-update-notifier @probelabs/probe
    [ -x "$scratch/node/node_modules/@probelabs/probe/bin/probe-binary" ] || fail "probe's own program was not unpacked"
    touch "$scratch/node.done"
  fi
  ln -sf "$scratch/python/bin/code-index-mcp" "$scratch/bin/"
  local name
  for name in codegraph mcp-local-rag mcp-ripgrep mcp-server-filesystem probe; do
    ln -sf "$scratch/node/node_modules/.bin/$name" "$scratch/bin/"
  done
}

# The part of Flask's questions that is asked here: every third.
few() {
  [ -e "$out/few" ] || check subset datasets "$scratch/few" flask --every 3 >"$out/few"
  cat "$out/few"
}

part_a() {
  local sets=(--set "datasets=$here/datasets" --set servers=grep,bm25)
  retrieval 0 a.json a "${sets[@]}" --set repos=flask,express,indexmap
  check outcome "$out/a.json"
  results a a
  check servers "$out/a.rows" "$out/a.report" --questions 3 --valid grep,bm25

  # The same bytes by an override: a corpus is known by its content, so nothing runs.
  retrieval 0 a.override.json a "${sets[@]}" --set repos=flask,express,indexmap \
    --set corpus.flask=pypi:flask==3.1.0 --set corpus.express=npm:express@5.0.1
  check outcome "$out/a.override.json" --executed 0

  # Another digest than the pinned one: refused, also where the right bytes are at hand.
  local repo store
  for repo in flask express indexmap; do
    check unpin "$here/datasets" "$scratch/unpinned-$repo" "$repo"
    for store in a a-new; do
      retrieval 3 a.wrong.json "$store" --set servers=grep --set "datasets=$scratch/unpinned-$repo" --set "repos=$repo"
      grep -E "$repo [0-9.]+ .* is refused: its SHA-256 is [0-9a-f]{64}, pinned is [0-9a-f]{64}" "$out/a.wrong.json.err" \
        >/dev/null || fail "a wrong digest of $repo: $(cat "$out/a.wrong.json.err")"
      check outcome "$out/a.wrong.json" --state failed --exit 3 --executed 0
    done
  done
}

part_b() {
  local real=code-index,filesystem,mcp-ripgrep,colby-codegraph,probe n
  n=$(few)
  local args=(--set "datasets=$scratch/few" --set repos=flask --set "servers=grep,bm25,$real")
  retrieval 0 b.json b "${args[@]}"
  check outcome "$out/b.json"
  results b b
  check servers "$out/b.rows" "$out/b.report" --questions "$n" --valid "grep,bm25,$real"
  sessions b b src/flask/debughelpers.py ${real//,/ }
  check left "$scratch"
  # Servers are not started for what is known.
  retrieval 0 b.again.json b "${args[@]}"
  check outcome "$out/b.again.json" --executed 0
  pl 0 b.verify store verify --store "$scratch/store-b"
}

part_c() {
  local real=code-index,filesystem,mcp-ripgrep,colby-codegraph n
  n=$(few)
  # Its model would come from a hub. No folder of this machine shall help.
  sed 's#/opt/models/mcp-local-rag#{home}/models#' presets/servers/mcp-local-rag.toml >"$scratch/mcp-local-rag.toml"
  local args=(--set "datasets=$scratch/few" --set repos=flask)
  # The corpus is fetched while there is a network.
  retrieval 0 c.corpus.json c "${args[@]}" --set servers=grep
  wrap=(unshare -n -- sh -c 'python3 "$0" loopback && exec "$@"' "$here/check.py")
  args+=(--set "servers=grep,bm25,$real,$scratch/mcp-local-rag.toml")
  retrieval 3 c.json c "${args[@]}"
  # A server in error is tried again, and may be allowed to be so.
  retrieval 0 c.allowed.json c "${args[@]}" --allow-errors
  wrap=()
  check outcome "$out/c.json" --exit 3
  check outcome "$out/c.allowed.json"
  results c c
  check servers "$out/c.rows" "$out/c.report" --questions "$n" --valid "grep,bm25,$real" \
    --broken mcp-local-rag --words 'Failed to initialize Embedder|Check your internet connection'
  sessions c c src/flask/debughelpers.py ${real//,/ }
  check left "$scratch"
}

part_d() {
  local shared=$root/../shared
  if [ ! -e "$shared/oracle/retrieval/bm25_flask-3.1.0.json" ] || [ ! -d "$shared/oracle/rag-bench" ]; then
    if [ "${CI:-}" = true ] && [ -e "$shared" ]; then
      fail "the oracle is missing in $shared"
    fi
    say "skipped: no oracle"
    return
  fi
  pl 0 d.import import rag-bench "$shared/oracle/rag-bench" --into "$scratch/rag-bench"
  local repo
  for repo in flask fastapi; do
    local args=(--set "datasets=$scratch/rag-bench" --set "repos=$repo" --set servers=bm25-reference,bm25)
    [ "$repo" = flask ] && args+=(--set corpus.flask=pypi:flask==3.1.0)
    [ "$repo" = fastapi ] && args+=(--set corpus.fastapi=pypi:fastapi==0.115.0)
    retrieval 0 "d.$repo.json" d "${args[@]}"
    check outcome "$out/d.$repo.json"
    results "d.$repo" d
    if [ "$repo" = flask ]; then
      check oracle "$out/d.flask.rows" "$out/d.flask.report" "$shared/oracle/retrieval/bm25_flask-3.1.0.json" bm25-reference
    fi
    check better "$out/d.$repo.report" "$repo"
  done
}

# A new user: an empty folder, three commands, a real server of the registry.
part_e() {
  local folder=$scratch/new-user
  rm -rf "$folder"
  mkdir "$folder"
  cd "$folder"
  pl 0 e.init init
  pl 0 e.add servers add mine -- code-index-mcp --project-path '{corpus}'
  pl 0 e.run run
  cd "$root"
  sed 's/^/   /' "$out/e.add"
  pl 0 e.rows report --rows --store "$folder/.proofline"
  pl 0 e.report report --json --store "$folder/.proofline"
  check row "$out/e.rows" "$out/e.report" --want mine,grep,bm25
  check left "$scratch"
}

# What answers cite, looked up in Flask's source as the program fetches it.
part_g() {
  retrieval 0 g.json g --set "datasets=$here/datasets" --set servers=grep --set repos=flask
  local found
  found=$(find "$scratch/store-g/cache/corpora/trees" -path '*/tree/src/flask/app.py' | head -n 1)
  [ -n "$found" ] || fail "the source of Flask is not in the corpus cache"
  PROOFLINE_FLASK=${found%/src/flask/app.py} timeout 1200 cargo test --release --locked --offline --test citations \
    citations_of_flask -- --exact --nocapture >"$out/g.test" 2>&1 || {
    tail -n 60 "$out/g.test" >&2
    fail "citations of Flask are not what they should be"
  }
  grep -oE 'flask\.toml: [1-9][0-9]* checks.*' "$out/g.test" | sed 's/^/   /' || fail "no citation of Flask was checked"
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(a b c d e f g)
part() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "== $name: $((SECONDS - start)) s"
}
# Servers and registries of others have bad minutes: a part is tried three times, each time from an empty store.
tried() {
  local name=$1 n code
  for n in 1 2 3; do
    set +e
    (
      set -e
      "part_$name"
    )
    code=$?
    set -e
    [ "$code" != 0 ] || return 0
    echo "   try $n of network $name failed" >&2
    rm -rf "$scratch/store-$name"*
  done
  fail "network $name failed three times"
}
for name in "${parts[@]}"; do
  case $name in
  b | c | e) part "servers for $name" install_servers ;;
  f) part "a bucket for $name" install_moto ;;
  esac
  part "network $name" tried "$name"
done
check left "$scratch"
echo "network tests: ${parts[*]} passed in $SECONDS s"
