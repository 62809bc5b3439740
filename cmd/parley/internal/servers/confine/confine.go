// Package confine starts the program of a server with restrictions that the kernel enforces: which files it can read
// and write, whether it can use the network, and how much memory and how many processes and open files it can use. On
// Linux it uses Landlock, a seccomp filter and resource limits. No other system is supported.
//
// A process can only restrict itself and what it starts afterwards. Therefore parley first runs itself, with the
// arguments that [Rules.Wrap] returns; that process calls [Main], restricts itself, and becomes the program by execve.
// The process ID, the standard streams and the signals stay the same, and whoever starts the program need not know
// about the step.
package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Command is the first argument of parley with which it calls [Main].
const Command = "__confined"

// ExitCode is the exit code of the step if the program could not be started. [Failure] returns the reason.
const ExitCode = 125

// Rules say what the program of a server may access, beyond what every program needs; see [Defaults].
type Rules struct {
	// Read are files, and directories with everything below them, that the program may read and execute.
	Read []string
	// Write are files, and directories with everything below them, that the program may also change.
	Write []string
	// Network means that the program may use TCP and UDP.
	Network bool
	// Memory limits the private memory of each process, such as "2GiB". Empty means no limit. See [ParseSize].
	Memory string
	// Processes is how many processes and threads the program may add to those that the user has. Values below 1 mean
	// no limit.
	Processes int
	// Files is how many files each process may have open. Values below 1 mean no limit.
	Files int
	// BestEffort starts the program even if the system cannot enforce a part of the rules.
	BestEffort bool
}

// Clone returns a deep copy. It returns nil if r is nil.
func (r *Rules) Clone() *Rules {
	if r == nil {
		return nil
	}
	c := *r
	c.Read, c.Write = slices.Clone(r.Read), slices.Clone(r.Write)
	return &c
}

// step is what [Main] receives: the rules, and the name of the server.
type step struct {
	Name  string
	Rules Rules
}

// Wrap returns the program and the arguments that start another program with the rules, whose paths must be absolute.
// name identifies the server; the processes of one name share a directory for temporary files. On a system that cannot
// enforce anything, Wrap returns the other program itself if r is BestEffort; without BestEffort, the step reports the
// error.
func (r *Rules) Wrap(name, program string, args []string) (string, []string, error) {
	if runtime.GOOS != "linux" && r.BestEffort {
		return program, args, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(step{name, *r}, json.FormatNilSliceAsNull(true))
	return self, slices.Concat([]string{Command, string(text), program}, args), err
}

// Of returns the rules with which a command starts, or nil if it is none that Wrap has returned.
func Of(args []string) *Rules {
	if s, _, err := parse(args); err == nil {
		return &s.Rules
	}
	return nil
}

// parse returns what Wrap has written to arguments, and the command that follows.
func parse(args []string) (s step, command []string, err error) {
	if len(args) < 3 || args[0] != Command {
		return s, nil, errors.New("no program")
	}
	return s, args[2:], json.Unmarshal([]byte(args[1]), &s)
}

// prefix begins the line about an error of the step.
const prefix = "parley: confine: "

// Main runs the command that parley starts itself with, and reports whether args are it: it restricts this process and
// makes it the program that [Rules.Wrap] has named. It returns only if that fails, with the exit code. It must be
// called before the process does anything else.
func Main(args []string) (exitCode int, isStep bool) {
	if len(args) == 0 || args[0] != Command {
		return 0, false
	}
	s, command, err := parse(args)
	if err == nil {
		err = s.Rules.become(s.Name, command)
	}
	fmt.Fprintln(os.Stderr, prefix+err.Error())
	return ExitCode, true
}

// Failure returns why the step could not start the program, from the last line that it wrote to standard error, or "".
func Failure(exitCode int, stderr []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stderr)), "\n")
	text, found := strings.CutPrefix(lines[len(lines)-1], prefix)
	if exitCode != ExitCode || !found {
		return ""
	}
	return text
}

// Changes returns the path of a rule to write that contains a file or directory, or "".
func Changes(write []string, path string) string {
	real := func(path string) string {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return path
		}
		if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
			return resolved
		}
		return absolute
	}
	for _, root := range write {
		if within(real(path), []string{real(root)}) {
			return root
		}
	}
	return ""
}

var size = regexp.MustCompile(`^([1-9][0-9]{0,6})(KiB|MiB|GiB)$`)

// ParseSize returns the number of bytes that a text such as 512MiB or 2GiB means.
func ParseSize(text string) (int64, error) {
	m := size.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("must be a size such as 512MiB or 2GiB, not %q", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n << map[string]int{"KiB": 10, "MiB": 20, "GiB": 30}[m[2]], err
}
