# Settings and functions of the scripts that handle the modules of this repository. Source this file in bash.

module=github.com/parley-mcp/parley

# The nested modules. Each module comes after the modules that it requires.
nested=(otel sampler store/redisstore cmd/parley)

# The scripts use a module cache of their own, so that unreleased versions never reach the user's cache. It takes the
# other modules from the user's cache, and from GOPROXY if they are not there.
modcache=${PARLEY_MODCACHE:-$PWD/.out/modcache}
user_proxies=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)

# The go command keeps an index of each module in a module cache, by the module's path and version, in GOCACHE. An
# unreleased version changes with the working tree.
export GODEBUG=goindex=0

# lock: waits until no other script uses the module cache. The lock lasts until the calling script ends.
lock() {
	mkdir -p "$modcache"
	if [[ -z ${PARLEY_MODCACHE:-} ]] && command -v flock >/dev/null; then
		exec 9>"$modcache.lock"
		flock 9
	fi
	export PARLEY_MODCACHE=$modcache # scripts that this script calls do not lock again
}

# forget: removes every version of parley from the module cache.
forget() {
	rm -rf "$modcache/${module%/*}" "$modcache/cache/download/${module%/*}" "$modcache/cache/vcs"
}

# forget_sums DIR: removes the checksums of parley from DIR/go.sum.
forget_sums() { edit "$1/go.sum" "\\#^$module#d"; }

# edit FILE SED_ARGUMENT...: edits a file in place. The options of sed -i differ between systems.
edit() {
	local file=$1 edited
	shift
	edited=$(sed "$@" "$file")
	printf '%s\n' "$edited" >"$file"
}

# quiet COMMAND...: runs a command of go and drops its reports of downloads.
quiet() { "$@" 2> >(grep -v '^go: downloading ' >&2); }

# snapshot DIR: makes DIR a git repository with one commit: the files of the working tree that git does not ignore,
# with uncommitted changes.
snapshot() {
	local dir=$1 name
	mkdir -p "$dir"
	git ls-files -z --cached --others --exclude-standard |
		while IFS= read -r -d '' name; do [[ ! -e $name ]] || printf '%s\0' "$name"; done |
		tar --null -T - -cf - | tar -xf - -C "$dir"
	git -C "$dir" init -q
	commit "$dir"
}

# commit DIR: commits everything in a scratch repository.
commit() {
	git -C "$1" add -A
	git -C "$1" -c user.name=parley -c user.email=parley@example.com -c commit.gpgsign=false \
		commit -q --allow-empty --no-verify -m Snapshot
}

# tags_of VERSION: prints the tags of a release. The first is that of the root module.
tags_of() {
	echo "$1" "${nested[@]/%//$1}"
}

# release VERSION: sets the version of the modules of the repository in the current directory, commits and tags it.
release() {
	local tag
	scripts/set-version "$1"
	git commit -q -a --allow-empty -m "Release $1"
	for tag in $(tags_of "$1"); do
		git tag -a -m "$tag" "$tag"
	done
}

# fetch REPOSITORY MODULE@VERSION...: downloads modules into the module cache from the tags of a local git repository.
# The go command makes the zip files and checksums, so they are the ones that a module proxy would serve.
fetch() {
	local repository
	repository=$(cd "$1" && pwd)
	shift
	(
		cd /
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$repository.insteadOf" GIT_CONFIG_VALUE_0="https://$module"
		export GOMODCACHE=$modcache GOFLAGS=-modcacherw GOWORK=off GOPROXY=direct GOSUMDB=off
		quiet go mod download "$@"
	)
}
