# Sourced by the other scripts: creates the virtual environment that they run in.
# Every step leaves a stamp in .venv, so that a second run has nothing to do.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$repository/.venv"

say() { printf '%s\n' "== $*" >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# part NAME: names what follows, in the times that `print_parts` prints.
parts=()
part() {
  end_part
  part_name=$1 part_start=$SECONDS
  say "$1"
}
end_part() {
  if [ -n "${part_name:-}" ]; then
    parts+=("$(printf '%-14s %2d:%02d' "$part_name" $(((SECONDS - part_start) / 60)) $(((SECONDS - part_start) % 60)))")
  fi
  part_name=
}
print_parts() {
  end_part
  printf '%s\n' "== how long each part took" "${parts[@]}" >&2
}

# The newest Python on the PATH that is new enough and can make virtual environments.
# It has to be run to be believed: a pyenv shim exists for versions that are not in use.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python}; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
      >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer with its venv module is needed, and none was found on the PATH" \
    "(on Debian and Ubuntu: apt-get install python3 python3-venv)."
}

make_venv() {
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    local python
    python=$(find_python)
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
  fi
  export PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv"
  # Tests start hundreds of servers: without its bytecode each would compile the package anew.
  unset PYTHONHOME PYTHONDONTWRITEBYTECODE
}

# digest FILE...: one hash over what the files hold.
digest() {
  "$venv/bin/python" -c '
import hashlib, pathlib, sys
hashes = [hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest() for name in sys.argv[1:]]
print("-".join(hashes))' "$@"
}

# stamped NAME HASH: whether the step NAME was already done for HASH.
stamped() { [ "$(cat "$venv/.stamp-$1" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s\n' "$2" >"$venv/.stamp-$1"; }

# kept_token FILE: the token that is in the file, which only its owner can read; made if there is none.
kept_token() {
  local file=$1
  if [ ! -s "$file" ]; then
    (umask 077 && python -c 'import secrets; print(secrets.token_hex(24))' >"$file.new")
    mv "$file.new" "$file"
  fi
  chmod 600 "$file"
  cat "$file"
}

# install_package EXTRA: this package, editable, with its dependencies.
install_package() {
  local extra=$1 wanted
  # The Jupyter configuration is copied into .venv at install, unlike the package itself.
  wanted=$(digest "$repository/pyproject.toml" "$repository"/jupyter-config/*/*.json)
  stamped "pip-$extra" "$wanted" && return
  say "installing the package with its [$extra] dependencies"
  # Without the panel, which would be copied as it is now: build_panel builds and links it.
  HATCH_BUILD_NO_HOOKS=true "$venv/bin/python" -m pip install --quiet --no-input \
    --disable-pip-version-check --editable "$repository[$extra]"
  stamp "pip-$extra" "$wanted"
  # What the tests need holds all that the lab needs.
  if [ "$extra" = test ]; then stamp pip-lab "$wanted"; fi
}

# panel_digest: one hash over what the panel is built from.
panel_digest() {
  (cd "$repository" && "$venv/bin/python" -c '
import hashlib, pathlib, sys
files = [path for name in sys.argv[1:] for path in (pathlib.Path(name), *pathlib.Path(name).rglob("*"))]
digest = hashlib.sha256()
for path in sorted(files):
    if path.is_file() and "__tests__" not in path.parts:
        digest.update(f"{path}\0".encode() + path.read_bytes())
print(digest.hexdigest())' package.json yarn.lock .yarnrc.yml tsconfig.json src style schema)
}

# The panel in JupyterLab, built with the Node.js that came from PyPI, and linked into .venv.
build_panel() {
  local built="$repository/jupyter_collaboration_mcp/labextension" wanted
  local link="$venv/share/jupyter/labextensions/@jupyter-collaboration-mcp/panel"
  wanted=$(panel_digest)
  if ! stamped panel "$wanted" || [ ! -f "$built/package.json" ]; then
    install_panel_packages
    say "building the panel"
    (cd "$repository" && rm -rf lib tsconfig.tsbuildinfo &&
      "$venv/bin/jlpm" build:prod >"$venv/panel.log" 2>&1) ||
      fail "The panel could not be built: $(cat "$venv/panel.log")"
    stamp panel "$wanted"
  fi
  if [ ! "$link" -ef "$built" ]; then
    mkdir -p "${link%/*}"
    ln -sfn "$built" "$link"
  fi
}

# What the panel is built and tested with.
install_panel_packages() {
  local wanted
  wanted=$(digest "$repository"/{package.json,yarn.lock,.yarnrc.yml})
  if [ -d "$repository/node_modules" ] && stamped panel-packages "$wanted"; then return; fi
  say "installing the npm packages of the panel"
  (cd "$repository" && "$venv/bin/jlpm" install --immutable >"$venv/panel.log" 2>&1) ||
    fail "The npm packages of the panel could not be installed: $(tail -n 20 "$venv/panel.log")"
  stamp panel-packages "$wanted"
}

# The npm packages of the tests, with the Node.js that came from PyPI.
install_node_packages() {
  local directory="$repository/tests/node" wanted npm_command=install
  wanted=$(digest "$directory"/package*.json)
  if [ -d "$directory/node_modules" ] && stamped node "$wanted"; then return; fi
  say "installing the npm packages of the tests"
  if [ -f "$directory/package-lock.json" ]; then npm_command=ci; fi
  (cd "$directory" && "$venv/bin/npm" "$npm_command" --omit-lockfile-registry-resolved \
    --no-audit --no-fund --no-update-notifier --loglevel=error)
  stamp node "$(digest "$directory"/package*.json)"
}

# install_clients NAME...: real MCP clients from npm. To get newer ones, delete .clients.
install_clients() {
  local name package directory
  for name in "$@"; do
    case "$name" in
      codex) package=@openai/codex ;;
      claude-code) package=@anthropic-ai/claude-code ;;
      gemini-cli) package=@google/gemini-cli ;;
      *) fail "There is no client $name: choose from codex, claude-code and gemini-cli." ;;
    esac
    directory="$repository/.clients/$name"
    if [ -f "$directory/package-lock.json" ]; then continue; fi
    say "installing $package"
    mkdir -p "$directory"
    # None of their own scripts is run.
    "$venv/bin/npm" install --prefix "$directory" --ignore-scripts --omit-lockfile-registry-resolved \
      --no-audit --no-fund --no-update-notifier --loglevel=error "$package@latest"
  done
}

# Chromium for the browser tests. Without it they fail with the same advice; the others run.
install_chromium() {
  local name as_root=()
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then return; fi
  done
  if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
  if command -v apt-get >/dev/null 2>&1 && ${as_root[@]+"${as_root[@]}"} true 2>/dev/null; then
    say "installing Chromium"
    as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    if "${as_root[@]}" update >/dev/null &&
      "${as_root[@]}" install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
    then
      return
    fi
  fi
  say "no Chromium: install the package chromium or google-chrome." \
    "The tests marked 'browser' will fail until then."
}
