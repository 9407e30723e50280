# Sourced by the other scripts: progress lines, and checks of required programs. A check
# that fails prints how to install what is missing. POSIX sh, so that it runs under dash,
# busybox and the bash 3.2 of macOS.

set -eu
# Programs and tests share compiled packages, and neither needs a C compiler.
export CGO_ENABLED=0
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# help_from_header prints the comment at the top of the script: its purpose and usage.
help_from_header() {
  awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
}

# help_if_asked ARGUMENT… prints that comment and exits if an argument is -h or --help.
help_if_asked() {
  for argument in "$@"; do
    case $argument in -h | --help) help_from_header && exit ;; esac
  done
}

# fail LINE… prints an error, of which the first line says what is wrong and the others
# what to do, and exits with status 1.
fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# step NAME COMMAND… prints a line with the command's duration. If the command fails, step
# prints its output and exits with status 1.
step() {
  step_name=$1
  shift
  printf '%-34s' "$step_name" >&2
  step_start=$(date +%s)
  if step_output=$("$@" 2>&1); then
    printf '%5d s\n' $(($(date +%s) - step_start)) >&2
  else
    printf ' failed\n%s\n' "$step_output" >&2
    exit 1
  fi
}

# at_least HAVE WANT succeeds if the dotted version HAVE is WANT or newer.
at_least() {
  awk -v have="$1" -v want="$2" 'BEGIN {
    split(have, h, "."); split(want, w, ".")
    for (i = 1; i <= 3; i++) if (h[i] + 0 != w[i] + 0) exit h[i] + 0 < w[i] + 0
  }'
}

# binary PACKAGE OUTPUT [FLAG…] builds a program.
binary() {
  package=$1 output=$2
  shift 2
  CGO_ENABLED=0 go build -tags lambda.norpc -buildvcs=false -ldflags='-s -w -buildid=' "$@" -o "$output" "$package"
}

# program NAME FOLDER ARGUMENT… builds the program in a folder for this machine and becomes
# it, so that it gets signals. It runs in the caller's folder, since arguments may be
# relative paths.
program() {
  name=$1 folder=$2
  shift 2
  need_go
  built=$root/build/$(go env GOHOSTOS)_$(go env GOHOSTARCH)
  (GOOS='' GOARCH='' && export GOOS GOARCH && cd "$root/$folder" && binary . "$built/$name" -ldflags='-s -w')
  exec "$built/$name" "$@"
}

# tidegate COMMAND ARGUMENT… runs a command of the program tidegate.
tidegate() { program tidegate local "$@"; }

need_go() {
  want=$(awk '$1 == "go" { print $2 }' "$root/go.mod")
  have=none
  # In the module's folder an older Go may switch to the version in go.mod.
  if command -v go >/dev/null 2>&1; then
    have=$(cd "$root" && go version 2>/dev/null | awk '{ sub(/^go/, "", $3); print $3 }')
  fi
  [ "$have" != none ] && at_least "${have:-0}" "$want" && return
  fail "Go $want or newer is needed; found ${have:-none that runs} on PATH." \
    "macOS           brew install go" \
    "Debian, Ubuntu  their golang packages may be older: download the tar file from https://go.dev/dl, then" \
    "                sudo tar -C /usr/local -xzf go*.tar.gz && export PATH=\$PATH:/usr/local/go/bin" \
    "any other       https://go.dev/dl"
}

need_node() {
  have=none
  if command -v node >/dev/null 2>&1; then have=$(node --version | sed 's/^v//'); fi
  if [ "$have" != none ] && at_least "$have" 20; then
    command -v npm >/dev/null 2>&1 && return
    have="$have without npm"
  fi
  fail "Node.js 20 or newer with npm is needed; found $have on PATH." \
    "macOS           brew install node" \
    "Debian 13       sudo apt-get install nodejs npm" \
    "any other       https://nodejs.org/en/download"
}
