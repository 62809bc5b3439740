// Package childenv decides which environment variables the program of a server inherits.
package childenv

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// New returns the environment of a child: all variables of this process or, without all, those that most programs need,
// and then the additional ones. As in os/exec, later entries override earlier ones. Most programs need:
//
//   - on Unix HOME, LANG, LC_*, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER, and similar ones on Windows
//   - the certificates of issuers and the proxies that the user's programs use, such as SSL_CERT_FILE and
//     HTTPS_PROXY: without them a program cannot reach the network of a company, and most wait for minutes before they
//     say so. The URL of a proxy may contain a password, which every program that uses the proxy needs.
//   - the registries of package runners, such as npm_config_registry, unless the URL contains credentials
func New(all bool, additional []string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); all || isInherited(name, value) {
			env = append(env, entry)
		}
	}
	return append(env, additional...)
}

// network lists the names, in upper case, of variables for certificate files and proxies. Other TLS variables are
// not included: NODE_TLS_REJECT_UNAUTHORIZED would turn off the verification of certificates.
var network = []string{
	"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY", "NPM_CONFIG_HTTPS_PROXY",
	"NPM_CONFIG_NOPROXY", "NPM_CONFIG_PROXY",
	"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "DENO_CERT", "DENO_TLS_CA_STORE", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE",
	"NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NPM_CONFIG_CAFILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR",
	"SSL_CERT_FILE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS",
}

// registries lists the names, in upper case, of variables for the registries of package runners.
var registries = []string{"NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"}

// isInherited reports whether a child inherits a variable by default.
func isInherited(name, value string) bool {
	if strings.HasPrefix(value, "()") {
		return false // a function exported by a shell
	}
	upper := strings.ToUpper(name) // the network variables are spelled either way
	if slices.Contains(network, upper) || slices.Contains(registries, upper) && !strings.Contains(value, "@") {
		return true
	}
	if runtime.GOOS == "windows" {
		switch upper { // names are case-insensitive
		case "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATH",
			"PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE",
			"SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR":
			return true
		}
		return false
	}
	switch name {
	case "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}
