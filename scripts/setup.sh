# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by scripts/kpfs and scripts/test, which set root: prepare KEY finds or makes
# home, a virtual environment with the packages of that list in pyproject.toml and with
# a libfuse 2. It lies in the checkout, or in the user's cache where he may not write to
# the checkout. Where root may, apt brings what Debian lacks.
: "${root:?}"
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/kpfs
home=$root/.venv

# ready KEY: home is prepared for this very pyproject.toml. Forks nothing.
ready() {
	local want='' have=''
	[[ -x $home/bin/python && -e $home/libfuse.so.2 && -r $home/stamp-$1 ]] || return 1
	IFS= read -r -d '' want <"$root/pyproject.toml" || :
	IFS= read -r -d '' have <"$home/stamp-$1" || :
	[[ $want == "$have" ]]
}

say() { printf '%s' "$*" >&2; }
give_up() {
	say $'\n'"kpfs: $*"$'\n'
	exit 2
}
may_apt() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }

# quietly COMMAND...: its output goes to the log.
quietly() { "$@" >>"$home/setup.log" 2>&1 </dev/null; }

# apt PACKAGE...: the package lists are fetched only if they do not do as they are.
apt() {
	local get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
	local install=("${get[@]}" install -y --no-install-recommends)
	quietly "${install[@]}" "$@" || { quietly "${get[@]}" update && quietly "${install[@]}" "$@"; }
}

# need COMMAND PACKAGE...: tools for the tests; without root they may stay missing.
need() {
	PATH=$PATH:/sbin:/usr/sbin command -v "$1" >/dev/null && return
	if may_apt; then
		say "kpfs: installing ${*:2} (once)"
		if apt "${@:2}"; then say " done"$'\n' && return; fi
		say $'\n'
	fi
	say "kpfs: $1 is missing (Debian: ${*:2}); what needs it is skipped"$'\n'
}

find_python() {
	local py found
	for py in python3 /usr/bin/python3 python3.{13,12,11,10}; do
		found=$("$py" -c 'import os, sys; sys.version_info < (3, 10) or print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
		[[ -z $found ]] || { printf '%s\n' "$found" && return; }
	done
}

make_venv() {
	local py
	py=$(find_python)
	if [[ -z $py ]] && may_apt; then
		apt python3 python3-venv || :
		py=$(find_python)
	fi
	[[ -n $py ]] || give_up "needs Python 3.10 or newer (Debian: apt install python3-venv)"
	rm -rf "${home:?}"/{bin,lib,lib64,include,pyvenv.cfg,pip-of}
	quietly "$py" -m venv "$home" && return
	# Debian without python3-venv: ask apt for it, else borrow a pip from outside.
	may_apt && apt python3-venv && quietly "$py" -m venv "$home" && return
	quietly "$py" -m venv --without-pip "$home" || give_up "cannot make $home: see $home/setup.log"
	quietly "$py" -m pip --version ||
		give_up "needs pip: ask an administrator for 'apt install python3-venv'"
	"$py" -c 'import sys; print(sys.executable)' >"$home/pip-of"
}

# pip_install ARGUMENT...: with our pip, or the one from outside.
pip_install() {
	local py=$home/bin/python
	[[ ! -r $home/pip-of ]] || py=$(<"$home/pip-of")
	quietly "$py" -m pip install --disable-pip-version-check "$@"
}

site_packages() { "$home/bin/python" -c 'import site; print(site.getsitepackages()[0])'; }

# requirements KEY: the packages of a list in pyproject.toml; Python 3.10 has no tomllib.
requirements() {
	"$home/bin/python" - "$root/pyproject.toml" "$1" <<-'EOF'
		import ast, re, sys
		text = open(sys.argv[1], encoding="utf-8").read()
		found = re.search(rf"^{sys.argv[2]} = (\[.*?\])", text, re.S | re.M)
		print(*ast.literal_eval(found[1]), sep="\n")
	EOF
}

loads() { "$home/bin/python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }

# The path of a libfuse 2 that this Python can load.
find_libfuse() {
	local lib
	for lib in ${FUSE_LIBRARY_PATH:+"$FUSE_LIBRARY_PATH"} \
		$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n 's/^\tlibfuse\.so\.2 .*=> //p') \
		"$home"/fuse-python/*/libfuse*.so*; do
		if loads "$lib"; then printf '%s\n' "$lib" && return; fi
	done
	return 1
}

find_or_get_libfuse() {
	find_libfuse && return
	if may_apt; then
		apt libfuse2t64 || apt libfuse2 || :
		command -v fusermount >/dev/null || apt fuse3 || :
		find_libfuse && return
	fi
	# A wheel with a libfuse 2 inside; its Python module must stay out of the way.
	pip_install --target "$home/fuse-python" --no-deps --only-binary=:all: \
		--python-version 3.12 fuse-python || :
	find_libfuse || give_up "needs libfuse 2 (Debian: apt install libfuse2, newer ones libfuse2t64)"
}

# prepare KEY: see above; KEY is dependencies, or an extra, which comes with them.
prepare() {
	! ready "$1" || return 0
	[[ -w $root ]] || home=$cache/venv${root//\//-}
	! ready "$1" || return 0
	mkdir -p "$home" || give_up "cannot make $home"
	exec 9>"$home/lock"
	flock 9 2>/dev/null || :
	ready "$1" || fill "$1"
	exec 9>&-
}

fill() {
	local packages lib
	say "kpfs: preparing $home (once):"
	: >"$home/setup.log"
	say " python"
	"$home/bin/python" -c 'import pip' 2>/dev/null || [[ -r $home/pip-of ]] || make_venv
	say " packages"
	mapfile -t packages < <(requirements dependencies && requirements "$1")
	[[ ! -r $home/pip-of ]] || packages+=(--target "$(site_packages)" --upgrade)
	pip_install "${packages[@]}" ||
		give_up "pip failed: $(tail -n 1 "$home/setup.log") (see $home/setup.log)"
	say " libfuse"
	lib=$(find_or_get_libfuse)
	ln -sf "$lib" "$home/libfuse.so.2"
	cp "$root/pyproject.toml" "$home/stamp-dependencies"
	cp "$root/pyproject.toml" "$home/stamp-$1"
	say " done"$'\n'
}
