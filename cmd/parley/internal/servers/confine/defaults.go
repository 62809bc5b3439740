package confine

import (
	"os"
	"path/filepath"
)

// readable are the files and directories that every program may read, if they exist: programs and shared libraries, and
// what the C library and language runtimes read at their start. None of them has secrets of the user. Directories whose
// other files can have secrets, such as /etc, are not among them as a whole. A * matches a part of a name.
var readable = []string{
	"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",

	"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/fonts", "/etc/gai.conf", "/etc/group",
	"/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias",
	"/etc/locale.conf", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd",
	"/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/protocols", "/etc/python3*",
	"/etc/resolv.conf", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone",

	"/dev/full", "/dev/random", "/dev/urandom", "/dev/zero",

	// Not the directories of other processes, whose command lines anybody can read.
	"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/uptime",
	"/proc/version", "/sys/devices/system/cpu",
}

// writable are the files that every program may also write.
var writable = []string{"/dev/null"}

// resolving are the directories whose files name the DNS servers, for programs that may use the network. The file
// /etc/resolv.conf is often a symbolic link to one of them.
var resolving = []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"}

// certificates are the environment variables that name files and directories with certificates, for programs that may
// use the network.
var certificates = []string{
	"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "DENO_CERT", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
	"NPM_CONFIG_CAFILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "npm_config_cafile",
}

// Defaults returns the files and directories that a program may read, and those that it may also write, without naming
// them in its rules. Its own file and its directory for temporary files are not among them.
func Defaults(network bool) (read, write []string) {
	patterns := readable
	if network {
		patterns = append(append([]string{}, readable...), resolving...)
		for _, name := range certificates {
			for _, path := range filepath.SplitList(os.Getenv(name)) {
				if filepath.IsAbs(path) {
					patterns = append(patterns, path)
				}
			}
		}
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are valid; a file may have the name of none
		read = append(read, found...)
	}
	return read, writable
}
