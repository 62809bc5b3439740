// Package childenv decides which environment variables the program of a server inherits.
package childenv

import (
	"os"
	"runtime"
	"strings"
)

// New returns the environment of a child: all variables of this process or, without all, those that most programs need
// (on Unix HOME, LANG, LC_*, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER), and then the additional ones. As in
// os/exec, later entries override earlier ones.
func New(all bool, additional []string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); all || isInherited(name, value) {
			env = append(env, entry)
		}
	}
	return append(env, additional...)
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
