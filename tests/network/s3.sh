# Part f of tests/network.sh: a bucket as a remote. A moto server stands for the
# bucket; between it and proofline stands a proxy that lies, fails or dawdles.
#
# Sourced by tests/network.sh, whose helpers it uses.

install_moto() {
  [ -e "$scratch/moto.done" ] && return
  python3 -m venv "$scratch/moto" >"$out/venv.log" 2>&1 || {
    tries apt-get update -q
    tries env DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-venv
    rm -rf "$scratch/moto"
    python3 -m venv "$scratch/moto"
  }
  tries "$scratch/moto/bin/python" -m pip install --no-deps -r "$here/s3-requirements.txt"
  touch "$scratch/moto.done"
}

# A project over two built-in engines in a folder of its own, with a key of its own.
s3_project() {
  local folder=$scratch/s3/$1
  mkdir -p "$folder/pipelines" "$folder/datasets/questions" "$folder/datasets/tiny/src" "$folder/home"
  local word
  for word in alpha beta gamma; do
    printf 'import os\n\n\ndef compute_%s(x):\n    return x\n' "$word" >"$folder/datasets/tiny/src/$word.py"
  done
  cp "$here/s3/main.toml" "$folder/pipelines/"
  cp "$here/s3/repos.toml" "$folder/datasets/"
  cp "$here/s3/tiny.toml" "$folder/datasets/questions/"
}

# s3 PROJECT CODE NAME ARGS: proofline in a project, as `pl`.
s3() {
  local folder=$scratch/s3/$1
  shift
  (cd "$folder" && HOME=$folder/home pl "$@")
}

# Makes the second project trust the first.
s3_trust() {
  s3 "$1" 0 f.identity store identity
  s3 "$2" 0 f.mine store identity
  printf 'format = 1\n[signer.other]\nkey = "%s"\n' "$(cat "$out/f.identity")" >"$scratch/s3/$2/trust.toml"
}

# What an object that proofline printed must say.
moved() { python3 "$here/s3_check.py" "$@"; }

# Starts something that says `ready PORT` on its first line; its process id in `started`, its port in `port`.
s3_start() {
  local log=$out/$1.log n
  shift
  : >"$log"
  "$@" >"$log" 2>&1 &
  started=$!
  s3_running+=("$started")
  for n in $(seq 150); do
    port=$(sed -n 's/^ready \([0-9]*\)$/\1/p' "$log")
    [ -n "$port" ] && return
    kill -0 "$started" 2>/dev/null || fail "$* ended: $(tail -n 5 "$log")"
    sleep 0.2
  done
  fail "$* is not ready: $(tail -n 5 "$log")"
}

s3_stop() {
  local one
  for one in "${s3_running[@]}"; do
    kill "$one" 2>/dev/null || true
    wait "$one" 2>/dev/null || true
  done
  s3_running=()
}

# Points proofline at a port of this machine.
s3_at() {
  export AWS_ENDPOINT_URL=http://127.0.0.1:$1
}

# fault RULE: what the proxy does to bodies of objects from now on.
fault() {
  python3 "$here/s3_proxy.py" --set "$1" --port "$proxy_port"
}

# What a project pulled through the proxy must be: nothing half, nothing wrong.
s3_sound() {
  s3 "$1" 0 "f.$1.verify" store verify --json
  moved "$out/f.$1.verify" --problems 0
}

part_f() {
  s3_running=()
  local bucket=s3://results/team/one name
  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 NO_PROXY=127.0.0.1
  rm -rf "$scratch/s3"
  s3_start f.moto "$scratch/moto/bin/python" "$here/s3_moto.py"
  local moto_port=$port
  s3_at "$moto_port"

  # One folder makes and pushes, another pulls; a changed question is graded again, and nothing else.
  s3_project one
  s3_project two
  s3 one 0 f.one.run run --json
  s3 one 0 f.push store push "$bucket" --json
  moved "$out/f.push" --refused 0 --more-records 5 --notes 0
  s3 one 0 f.push.again store push "$bucket" --json
  moved "$out/f.push.again" --refused 0 --objects 0 --records 0
  s3 two 0 f.stranger store pull "$bucket" --json
  moved "$out/f.stranger" --refused 0 --untrusted
  s3 two 0 f.plan plan --json
  moved "$out/f.plan" --reused 0
  s3_trust one two
  sed -i 's#src/beta.py#src/gamma.py#' "$scratch/s3/two/datasets/questions/tiny.toml"
  s3 two 0 f.two.run run --json
  s3 two 0 f.two.report report --json
  moved "$out/f.two.report" --executed score,score,summary
  s3_sound two
  s3 two 1 f.nowhere store push ftp://results
  s3 two 3 f.absent store pull s3://results/nobody/pushed/here

  # Eight at once, each with results of its own.
  local n pids=()
  for n in 1 2 3 4 5 6 7 8; do
    s3_project "many$n"
    s3 "many$n" 0 "f.many$n.run" run --json
  done
  for n in 1 2 3 4 5 6 7 8; do
    s3 "many$n" 0 "f.many$n.push" store push s3://results/many --json &
    pids+=($!)
  done
  for n in "${pids[@]}"; do
    wait "$n" || fail "one of eight pushers failed"
  done
  s3_project reader
  s3_trust many1 reader
  s3 reader 0 f.many.pull store pull s3://results/many --json
  moved "$out/f.many.pull" --refused 0 --records-of "$out/f.one.run" --times 8
  s3 reader 0 f.reader.run run --json
  check outcome "$out/f.reader.run" --executed 0
  s3_sound reader

  # A remote that can't be reached, and one that lies.
  s3_project gone
  s3_at 9
  s3 gone 3 f.gone store pull "$bucket" --timeout 2
  s3_start f.proxy python3 "$here/s3_proxy.py" --to "$moto_port"
  proxy_port=$port
  s3_at "$proxy_port"
  for name in wrong missing cut; do
    s3_project "$name"
    s3_trust one "$name"
    fault "$name"
    s3 "$name" 3 "f.$name" store pull "$bucket" --timeout 5 --json
    moved "$out/f.$name" --some-refused
    s3_sound "$name"
    # What was refused is made here; what came sound is used.
    s3 "$name" 0 "f.$name.run" run --json
    check outcome "$out/f.$name.run"
    s3_sound "$name"
    # The same remote, once it is honest.
    fault none
    s3 "$name" 0 "f.$name.honest" store pull "$bucket" --json
    moved "$out/f.$name.honest" --refused 0
    s3_sound "$name"
  done
  # Errors in the middle pass: everything comes, by trying again.
  for name in failing broken; do
    s3_project "$name"
    s3_trust one "$name"
    fault "$name"
    s3 "$name" 0 "f.$name" store pull "$bucket" --timeout 10 --json
    moved "$out/f.$name" --refused 0 --records-of "$out/f.one.run" --times 1
    s3 "$name" 0 "f.$name.run" run --json
    check outcome "$out/f.$name.run" --executed 0
    s3_sound "$name"
  done
  # A body that never ends is given up.
  s3_project slow
  s3_trust one slow
  fault slow
  local start=$SECONDS
  s3 slow 3 f.slow store pull "$bucket" --timeout 1 --json
  moved "$out/f.slow" --some-refused
  [ $((SECONDS - start)) -lt 120 ] || fail "a slow remote held a pull for $((SECONDS - start)) s"
  s3_sound slow
  # Pushing through errors ends well, too, and one writer wins or it is said that two do.
  fault failing
  s3 two 0 f.two.push store push "$bucket" --json
  moved "$out/f.two.push" --refused 0 --more-records 2
  fault careless
  s3 two 0 f.careless store push s3://results/careless --json
  moved "$out/f.careless" --refused 0 --notes 1
  s3_stop
}
