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
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	return self, slices.Concat([]string{Command}, r.words(name), []string{"--", program}, args), nil
}

// words returns the flags for [Main].
func (r *Rules) words(name string) []string {
	words := []string{"-name=" + name}
	for _, path := range r.Read {
		words = append(words, "-read="+path)
	}
	for _, path := range r.Write {
		words = append(words, "-write="+path)
	}
	if r.Network {
		words = append(words, "-network")
	}
	if r.Memory != "" {
		words = append(words, "-memory="+r.Memory)
	}
	if r.Processes > 0 {
		words = append(words, "-processes="+strconv.Itoa(r.Processes))
	}
	if r.Files > 0 {
		words = append(words, "-files="+strconv.Itoa(r.Files))
	}
	if r.BestEffort {
		words = append(words, "-bestEffort")
	}
	return words
}

// Of returns the rules with which a command starts, or nil if it is none that Wrap has returned.
func Of(args []string) *Rules {
	if len(args) == 0 || args[0] != Command {
		return nil
	}
	r, _, _, err := parse(args[1:])
	if err != nil {
		return nil
	}
	return r
}

// parse is the opposite of Wrap.
func parse(args []string) (r *Rules, name string, command []string, err error) {
	r = new(Rules)
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	list := func(to *[]string) func(string) error {
		return func(path string) error {
			*to = append(*to, path)
			return nil
		}
	}
	flags.StringVar(&name, "name", "", "")
	flags.Func("read", "", list(&r.Read))
	flags.Func("write", "", list(&r.Write))
	flags.BoolVar(&r.Network, "network", false, "")
	flags.StringVar(&r.Memory, "memory", "", "")
	flags.IntVar(&r.Processes, "processes", 0, "")
	flags.IntVar(&r.Files, "files", 0, "")
	flags.BoolVar(&r.BestEffort, "bestEffort", false, "")
	if err = flags.Parse(args); err == nil && flags.NArg() == 0 {
		err = errors.New("no program")
	}
	return r, name, flags.Args(), err
}

// prefix begins the line about an error of the step.
const prefix = "parley: confine: "

// Step runs the command that parley starts itself with, and reports whether args are it. It does not return if this
// process becomes another program.
func Step(args []string) (exitCode int, isStep bool) {
	if len(args) == 0 || args[0] != Command {
		return 0, false
	}
	return Main(args[1:]), true
}

// Main restricts this process and makes it the program that args name, after the flags of [Rules.Wrap]. It returns
// only if that fails, with the exit code. It must be called before the process does anything else.
func Main(args []string) int {
	rules, name, command, err := parse(args)
	if err == nil {
		err = rules.become(name, command)
	}
	fmt.Fprintln(os.Stderr, prefix+err.Error())
	return ExitCode
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
