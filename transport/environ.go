package transport

import (
	"os"
	"runtime"
	"strings"
)

// environ returns the child's environment. Later entries win, as os/exec defines it.
func environ(opts CommandOptions) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); opts.InheritEnv || passedOn(name, value) {
			env = append(env, entry)
		}
	}
	return append(env, opts.Env...)
}

// passedOn reports whether a variable of this process is one that a child needs to run at all.
func passedOn(name, value string) bool {
	if strings.HasPrefix(value, "()") {
		return false // a function exported by a shell: code, not data
	}
	if runtime.GOOS == "windows" {
		switch strings.ToUpper(name) { // names have no case there
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
