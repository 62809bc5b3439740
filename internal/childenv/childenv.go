package transport

import (
	"os"
	"runtime"
	"strings"
)

// environ returns the environment of the child. As in os/exec, later entries override earlier ones.
func environ(opts CommandOptions) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); opts.InheritEnv || isInherited(name, value) {
			env = append(env, entry)
		}
	}
	return append(env, opts.Env...)
}

// isInherited reports whether a child inherits a variable by default.
func isInherited(name, value string) bool {
	if strings.HasPrefix(value, "()") {
		return false // a function exported by a shell
	}
	if runtime.GOOS == "windows" {
		switch strings.ToUpper(name) { // names are case-insensitive
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
