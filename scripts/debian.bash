# Unpacks Debian packages without installing them. Source this file in bash after die is defined.

# unpack PACKAGE INTO: unpacks a Debian package, and the libraries that the system does not have, into INTO/root. If the
# release of the system does not have the package, its backports may have it.
unpack() {
	local package=$1 into=$2 apt codename repository deb
	mkdir -p "$into/apt/lists/partial" "$into/apt/cache/archives/partial" "$into/root"
	cp /etc/apt/sources.list "$into/apt/sources.list" 2>/dev/null || : >"$into/apt/sources.list"
	apt=(-qq -o "Dir::Etc::SourceList=$into/apt/sources.list" -o "Dir::State::Lists=$into/apt/lists"
		-o "Dir::Cache=$into/apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=true)
	apt-get "${apt[@]}" update
	if [[ -z $(apt-cache "${apt[@]}" madison "$package") ]]; then
		codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
		repository=$(apt-get "${apt[@]}" indextargets --format '$(REPO_URI)' \
			'Created-By: Packages' 'Origin: Debian' "Codename: $codename" 'Component: main' | head -n 1)
		[[ -n $repository ]] || die "cannot find package $package: install $package"
		echo "deb $repository $codename-backports main" >>"$into/apt/sources.list"
		apt-get "${apt[@]}" update
	fi
	rm -f "$into"/apt/cache/archives/*.deb
	apt-get "${apt[@]}" install --download-only --reinstall --no-install-recommends -y "$package" >/dev/null
	for deb in "$into"/apt/cache/archives/*.deb; do
		dpkg-deb -x "$deb" "$into/root"
	done
	rm -rf "$into/apt"
}

# wrapper PROGRAM INTO: writes INTO/NAME, which runs INTO/root/PROGRAM with the libraries in INTO/root. NAME is the last part
# of PROGRAM.
wrapper() {
	local program=$1 into=$2 name
	name=$(basename "$program")
	cat >"$into/$name" <<-SH
		#!/bin/sh
		root=\$(dirname "\$(readlink -f "\$0")")/root
		for dir in "\$root"/usr/lib/*-linux-gnu "\$root"/usr/lib/*-linux-gnu/*/ "\$root"/lib/*-linux-gnu; do
			LD_LIBRARY_PATH=\$dir\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
		done
		export LD_LIBRARY_PATH
		exec "\$root/$program" "\$@"
	SH
	chmod +x "$into/$name"
}
