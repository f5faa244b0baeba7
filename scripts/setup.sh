# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by scripts/kpfs and scripts/test, which set root: prepare KEY finds or makes
# home, a virtual environment with the packages of requirements/KEY.txt. It lies in the
# checkout, or in the user's cache if the checkout, or the one that is there, is not the
# user's to write. As root, apt brings what Debian lacks, unless KPFS_NO_APT is set.
#
# Every Python is started with -I: no file of the current directory, and no variable of
# the environment, decides what is run.
: "${root:?}"
[[ -n ${HOME:-} ]] || { unset HOME && HOME=~; } # as the password database has it
cache=$HOME/.cache/kpfs
[[ ${XDG_CACHE_HOME-} != /* ]] || cache=$XDG_CACHE_HOME/kpfs # a relative one does not count
home=$root/.venv

# ready KEY: home is prepared for this very list of packages. Forks nothing.
ready() {
	local want='' have=''
	[[ -x $home/bin/python && -r $home/stamp-$1 ]] || return 1
	IFS= read -r -d '' want <"$root/requirements/$1.txt" || :
	IFS= read -r -d '' have <"$home/stamp-$1" || :
	[[ $want == "$have" ]]
}

untrusted="the server shows a certificate that is not trusted here, as a company's proxy may"
for_apt="For apt, put it below /usr/local/share/ca-certificates and run update-ca-certificates"

say() { printf '%s' "$*" >&2; }
give_up() {
	say $'\n'"kpfs: $*"$'\n'
	exit 2
}
may_apt() { [[ -z ${KPFS_NO_APT:-} && $(id -u) == 0 ]] && command -v apt-get >/dev/null; }

# quietly COMMAND...: its output goes to the log.
quietly() { "$@" >>"$home/setup.log" 2>&1 </dev/null; }

# apt PACKAGE...: the package lists are fetched only if they do not do as they are.
apt() {
	local get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
	local install=("${get[@]}" install -y --no-install-recommends)
	say $'\n'"kpfs: as root, installing with apt-get: $* (KPFS_NO_APT=1 forbids it)"
	quietly "${install[@]}" "$@" || { quietly "${get[@]}" update && quietly "${install[@]}" "$@"; } && return
	! grep -q 'Certificate verification failed' "$home/setup.log" || say $'\n'"kpfs: apt: $untrusted. $for_apt"
	return 1
}

# need COMMAND PACKAGE...: tools for the tests; without root they may stay missing.
need() {
	PATH=$PATH:/sbin:/usr/sbin command -v "$1" >/dev/null && return
	if may_apt; then
		if apt "${@:2}"; then say " done"$'\n' && return; fi
		say $'\n'
	fi
	say "kpfs: $1 is missing (Debian: ${*:2}); what needs it is skipped"$'\n'
}

# only_ours DIR: nobody but we and root can have put there what is in it.
only_ours() {
	local at=$1 owner mode sticky
	local -a above=()
	[[ $at == /* ]] || give_up "$at: say where it is from / on"
	while [[ $at == /?* ]]; do above+=("$at") && at=${at%/*}; done
	while read -r owner mode at; do
		sticky=$((0$mode & 01000))
		[[ $owner == "$EUID" || $owner == 0 && $at != "$1" ]] && ((!(0$mode & 022) || sticky)) && continue
		give_up "$at belongs to somebody else, or others may write to it: what lies there is not run." \
			"Mend that, or name another directory in XDG_CACHE_HOME"
	done < <(stat -L -c '%u %a %n' "${above[@]}" 2>/dev/null
		stat -c '%u 755 %n' "${above[@]}" 2>/dev/null) # of a link, who may change it
}

find_python() {
	local py found
	for py in python3 /usr/bin/python3 python3.{14,13,12,11,10}; do
		found=$("$py" -I -c 'import os, sys; sys.version_info < (3, 10) or print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
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
	quietly "$py" -I -m venv "$home" && return
	# Debian without python3-venv: ask apt for it, else borrow a pip from outside.
	may_apt && apt python3-venv && quietly "$py" -I -m venv "$home" && return
	quietly "$py" -I -m venv --without-pip "$home" || give_up "cannot make $home: see $home/setup.log"
	quietly "$py" -I -m pip --version ||
		give_up "needs pip: ask an administrator for 'apt install python3-venv'"
	"$py" -I -c 'import sys; print(sys.executable)' >"$home/pip-of"
}

site_packages() { "$home/bin/python" -I -c 'import site; print(site.getsitepackages()[0])'; }

# packages NAME [OPTION...]: install those of a list in requirements/, with our pip or the one from
# outside.  fusepy comes as source alone: what builds it was installed before.
packages() {
	local py=$home/bin/python options=(--disable-pip-version-check --require-hashes --only-binary=:all:)
	options+=(--no-binary=fusepy --no-build-isolation --use-pep517)
	if [[ -r $home/pip-of ]]; then
		py=$(<"$home/pip-of")
		options+=(--target "$(site_packages)" --upgrade)
	fi
	quietly env PYTHONPATH="$(site_packages)" "$py" -I -m pip install "${options[@]}" "${@:2}" \
		-r "$root/requirements/$1.txt" && return
	if grep -q CERTIFICATE_VERIFY_FAILED "$home/setup.log"; then
		give_up "pip: $untrusted (see $home/setup.log). Name the file of its authority:" \
			"PIP_CERT=FILE. $for_apt"
	fi
	if grep -qE 'No matching distribution|Could not find a version|Connection' "$home/setup.log"; then
		give_up "the first use needs the Python package index, which does not answer (see $home/setup.log)." \
			"Without a network: elsewhere, pip download -d DIR -r $root/requirements/run.txt" \
			"-r $root/requirements/build.txt; here, PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR"
	fi
	give_up "pip failed: $(tail -n 1 "$home/setup.log") (see $home/setup.log)"
}

# requirements KEY: the packages of a list in pyproject.toml; Python 3.10 has no tomllib.
requirements() {
	"$home/bin/python" -I - "$root/pyproject.toml" "$1" <<-'EOF'
		import ast, re, sys
		text = open(sys.argv[1], encoding="utf-8").read()
		found = re.search(rf"^{sys.argv[2]} = (\[.*?\])", text, re.S | re.M)
		print(*ast.literal_eval(found[1]), sep="\n")
	EOF
}

# prepare KEY: see above; KEY is dependencies, or an extra, which comes with them.
prepare() {
	local there=$home
	! ready "$1" || return 0
	if [[ ! -w $root || -e $there && ! -O $there ]]; then
		home=$cache/venv${root//\//-}
		only_ours "$home"
		! ready "$1" || return 0
		[[ ! -e $there ]] || say "kpfs: $there belongs to $(stat -L -c %U "$there"), and is left alone"$'\n'
	fi
	[[ $home != "$HOME"/* || -d $HOME ]] || give_up "$HOME is not there: name a directory in XDG_CACHE_HOME"
	(umask 022 && mkdir -p "$home" 2>/dev/null) || give_up "cannot make $home"
	exec 9>"$home/lock"
	flock 9 2>/dev/null || :
	ready "$1" || fill "$1"
	exec 9>&-
}

fill() {
	say "kpfs: preparing $home (once):"
	: >"$home/setup.log"
	say " python"
	"$home/bin/python" -I -c 'import pip' 2>/dev/null || [[ -r $home/pip-of ]] || make_venv
	say " packages"
	packages build --no-compile
	packages "$1"
	if env --block-signal=INT true 2>/dev/null; then : >"$home/blocks"; fi # busybox cannot
	cp "$root/requirements/run.txt" "$home/stamp-run"
	cp "$root/requirements/$1.txt" "$home/stamp-$1"
	say " done"$'\n'
}
