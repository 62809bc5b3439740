package program

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

// version, commit and date describe a released binary. The linker sets them (-X), because a release can be built where
// the go command finds no repository. Other builds have what the go command recorded.
var version, commit, date string

// BuildInfo says what the program was built from.
type BuildInfo struct {
	Version string `json:"version"`          // without "v"
	Commit  string `json:"commit,omitempty"` // empty after go install, which has no repository
	Date    string `json:"date,omitempty"`   // of the commit, in RFC 3339
	Go      string `json:"go"`               // such as "go1.26.0"
}

// Build describes the running program.
var Build = sync.OnceValue(func() BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	number := strings.TrimPrefix(info.Main.Version, "v")
	if number == "" || number == "(devel)" {
		number = "0.0.0-dev"
	}
	return BuildInfo{
		Version: cmp.Or(version, number), Commit: cmp.Or(commit, recorded["vcs.revision"]),
		Date: cmp.Or(date, recorded["vcs.time"]), Go: info.GoVersion,
	}
})

// Version returns the version of the program, such as "1.0.0".
func Version() string { return Build().Version }
