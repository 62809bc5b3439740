//go:build integration

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parley-mcp/parley/internal/must"
)

// works are what a program does with what its rules allow.
var works = []struct {
	name string
	do   func(w *world) error
}{
	{"read a file", func(w *world) error { return read(filepath.Join(w.Read, "note")) }},
	{"list a directory", func(w *world) error {
		_, err := os.ReadDir(w.Read)
		return err
	}},
	{"change a file", func(w *world) error { return write(filepath.Join(w.Write, "note")) }},
	{"replace a file", func(w *world) error {
		temporary, name := filepath.Join(w.Write, "new"), filepath.Join(w.Write, "note")
		return errors.Join(os.WriteFile(temporary, nil, 0o600), os.Rename(temporary, name))
	}},
	{"move a file between its directories", func(w *world) error {
		dir := filepath.Join(w.Write, "dir")
		return errors.Join(os.Mkdir(dir, 0o700), os.Rename(filepath.Join(w.Write, "note"), filepath.Join(dir, "note")),
			os.Link(filepath.Join(dir, "note"), filepath.Join(w.Write, "note")), os.RemoveAll(dir))
	}},
	{"write a temporary file", func(*world) error {
		file, err := os.CreateTemp("", "")
		if err != nil {
			return err
		}
		return errors.Join(file.Close(), os.Remove(file.Name()))
	}},
	{"run a program of the system", func(*world) error {
		out, err := exec.Command("sh", "-c", "echo x >/dev/null && head -c 1 /dev/urandom | wc -c").Output()
		if strings.TrimSpace(string(out)) != "1" {
			err = errors.Join(err, fmt.Errorf("output %q", out))
		}
		return err
	}},
	{"read its own status", func(*world) error { return read("/proc/self/status") }},
	{"use pairs of sockets", func(*world) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}},
	{"signal its own children", func(*world) error {
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			return err
		}
		err := child.Process.Kill()
		_ = child.Wait()
		return err
	}},
	{"read its own limits", func(*world) error {
		return unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, nil, new(unix.Rlimit))
	}},
}

// networks are what a program with the network does.
var networks = []struct {
	name string
	do   func(w *world) error
}{
	{"connect by TCP", func(w *world) error { return dial("tcp", w.TCP) }},
	{"listen by TCP", func(*world) error { return listen("tcp", "127.0.0.1:0") }},
	{"send by UDP", func(w *world) error { return send("udp", w.UDP) }},
	{"list the addresses of the machine", func(*world) error {
		return socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	}},
}

// work does what the rules allow, and prints what failed.
func work(args []string) int {
	w := new(world)
	if err := json.Unmarshal([]byte(args[1]), w); err != nil {
		return 1
	}
	all := works
	if args[0] == "network" {
		all = networks
	}
	for _, one := range all {
		if err := one.do(w); err != nil {
			fmt.Println(one.name+":", err)
		}
	}
	return 0
}

func TestAConfinedProgramWorks(t *testing.T) {
	w := newWorld(t)
	rules := &Rules{Read: []string{w.Read}, Write: []string{w.Write}, Files: 256, Memory: "2GiB"}
	must.CheckEqual(t, run(t, rules, "work", "files", string(must.Get(json.Marshal(w))(t))), "")
}

// The network opens no other sockets.
func TestAConfinedProgramUsesTheNetwork(t *testing.T) {
	w := newWorld(t)
	text := string(must.Get(json.Marshal(w))(t))
	must.CheckEqual(t, run(t, &Rules{Network: true}, "work", "network", text), "")
	for _, name := range []string{"connect to a Unix socket", "connect to an abstract Unix socket",
		"send to a Unix socket by a pair", "use io_uring", "read a file", "signal a process"} {
		got := run(t, &Rules{Network: true}, "escape", name, text)
		must.CheckThat(t, strings.HasPrefix(got, refused), "the program can %s", name)
	}
}

// consume uses up a resource and prints how much it got.
func consume(args []string) int {
	want := must1(strconv.Atoi(args[1]))
	got := 0
	switch args[0] {
	case "files":
		for ; got < want; got++ {
			if _, err := os.Open("/dev/null"); err != nil {
				break
			}
		}
	case "processes":
		for ; got < want; got++ {
			child := exec.Command("sleep", "600")
			if child.Start() != nil {
				break
			}
			defer child.Wait()
			defer child.Process.Kill()
		}
	default:
		flags := map[string]int{"memory": unix.MAP_PRIVATE, "shared": unix.MAP_SHARED}[args[0]]
		for ; got < want; got++ { // MiB
			if args[0] == "file" {
				if _, err := unix.MemfdCreate("x", 0); err != nil {
					break
				}
				continue
			}
			b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
			if err != nil {
				break
			}
			b[0] = 1
		}
	}
	fmt.Print(got)
	return 0
}

func must1[T any](value T, err error) T {
	must0(err)
	return value
}

// Rule W1.
func TestAConfinedProgramHasLimits(t *testing.T) {
	for _, c := range []struct {
		what  string
		rules Rules
		want  int // attempts, all of which succeed without rules
		most  int
	}{
		{"files", Rules{Files: 64}, 100, 64},
		{"memory", Rules{Memory: "512MiB"}, 1024, 512},
		{"shared", Rules{Memory: "512MiB"}, 1024, 0},
		{"file", Rules{Memory: "512MiB"}, 10, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			want := strconv.Itoa(c.want)
			if got := run(t, nil, "consume", c.what, want); got != want {
				t.Errorf("without rules: %s of %s", got, want)
			}
			got := must.Get(strconv.Atoi(run(t, &c.rules, "consume", c.what, want)))(t)
			must.CheckThat(t, got <= c.most && got >= c.most/8, "%d of %s, want at most %d", got, want, c.most)
		})
	}
}

// asNobody lets a command run as a user without privileges if the test has them: the kernel does not limit the number
// of the processes of root.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/var/tmp", "w"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o777))
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "GORACE=atexit_sleep_ms=0")
	if os.Getuid() == 0 {
		copied := filepath.Join(dir, "program")
		must.Do(t, os.WriteFile(copied, must.Get(os.ReadFile(cmd.Path))(t), 0o755))
		cmd.Path, cmd.Dir = copied, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	}
}

// Rule W1.
func TestAForkBombIsStopped(t *testing.T) {
	const most, want = 40, 100
	self := must.Get(os.Executable())(t)
	for name, rules := range map[string]*Rules{"without": {}, "with": {Processes: most}} {
		t.Run(name, func(t *testing.T) {
			_, args, err := rules.Wrap("test", self, []string{"consume", "processes", strconv.Itoa(want)})
			must.Do(t, err)
			cmd := exec.CommandContext(t.Context(), self, args...)
			asNobody(t, cmd)
			for i, arg := range cmd.Args {
				if arg == self && i > 0 {
					cmd.Args[i] = cmd.Path
				}
			}
			out, err := cmd.Output()
			must.Do(t, err)
			got := must.Get(strconv.Atoi(string(out)))(t)
			if name == "without" && got != want || name == "with" && (got > most || got == 0) {
				t.Errorf("%d processes", got)
			}
		})
	}
}

// Rule W2.
func TestALimitThatRootDoesNotHaveIsAnError(t *testing.T) {
	if os.Getuid() != 0 {
		must.Do(t, (&Rules{Processes: 1}).Check())
		return
	}
	err := (&Rules{Processes: 1}).Check()
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "has no effect on the user root"), "error %v", err)
	must.Do(t, (&Rules{}).Check())
}

// status prints the status of this process.
func status([]string) int {
	text := must1(os.ReadFile("/proc/self/status"))
	os.Stdout.Write(text)
	return 0
}

// Rule W1.
func TestAConfinedProgramHasNoPrivileges(t *testing.T) {
	text := run(t, &Rules{}, "status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		must.CheckThat(t, strings.Contains(text, want+"\n"), "no %q in\n%s", want, text)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapPrm", "CapEff", "CapInh", "CapAmb":
			set := must.Get(strconv.ParseUint(value, 16, 64))(t)
			must.CheckThat(t, set&^kept == 0, "%s is %s", name, value)
		}
	}
}

// onOldKernel becomes the program that args name, on a kernel that seems to have no Landlock.
func onOldKernel(args []string) int {
	runtime.LockOSThread()
	program := []unix.SockFilter{load(offsetNumber), otherwise(1, unix.SYS_LANDLOCK_CREATE_RULESET),
		fail(unix.ENOSYS), allow}
	must0(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	must0(install(program))
	must0(syscall.Exec(args[0], args, os.Environ()))
	return 1
}

// Rule W2.
func TestAProgramDoesNotStartIfTheKernelCannotConfineIt(t *testing.T) {
	w := newWorld(t)
	self := must.Get(os.Executable())(t)
	start := func(rules *Rules) (string, error) {
		role := []string{"escape", "read a file", string(must.Get(json.Marshal(w))(t))}
		program, args, err := rules.Wrap("test", self, role)
		must.Do(t, err)
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), self, append([]string{"old", program}, args...)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "GORACE=atexit_sleep_ms=0"), &stderr
		err = cmd.Run()
		return stderr.String(), err
	}
	const missing = "the kernel has no Landlock"
	text, err := start(&Rules{})
	exit, ok := errors.AsType[*exec.ExitError](err)
	must.CheckThat(t, ok && strings.HasPrefix(Failure(exit.ExitCode(), []byte(text)), missing),
		"error %v\n%s", err, text)
	if text, err := start(&Rules{BestEffort: true}); err != nil || !strings.Contains(text, missing) {
		t.Errorf("error %v\n%s", err, text)
	}
	for version := range requiredABI {
		must.CheckThat(t, checkABI(version) != nil, "version %d is enough", version)
	}
}

// Rule W2.
func TestAPathThatDoesNotExistIsAnError(t *testing.T) {
	self := must.Get(os.Executable())(t)
	for _, rules := range []*Rules{{Read: []string{"/nowhere"}}, {Write: []string{"/nowhere"}, BestEffort: true}} {
		program, args, err := rules.Wrap("test", self, []string{"status"})
		must.Do(t, err)
		_, err = exec.Command(program, args...).Output()
		exit, ok := errors.AsType[*exec.ExitError](err)
		must.CheckThat(t, ok && strings.Contains(Failure(exit.ExitCode(), exit.Stderr),
			"/nowhere: no such file or directory; "), "error %v", err)
	}
}

// A program that replaces a part of its directory by a link gains nothing when it is started again. Links of the user
// count, such as alias.
//
// Rule W1.
func TestALinkOfTheProgramDoesNotWidenItsRules(t *testing.T) {
	w := newWorld(t)
	link, elsewhere := filepath.Join(w.Write, "link"), filepath.Join(w.Outside, "link")
	must.Do(t, os.Symlink(w.Outside, link))
	must.Do(t, os.Symlink(link, elsewhere))
	alias := filepath.Join(filepath.Dir(w.Write), "alias")
	must.Do(t, os.Symlink(w.Write, alias))
	text := string(must.Get(json.Marshal(w))(t))
	for _, rules := range []*Rules{
		{Read: []string{link}, Write: []string{w.Write}}, {Write: []string{link, w.Write}},
		{Write: []string{w.Write, link}}, {Read: []string{filepath.Join(alias, "link")}, Write: []string{w.Write}},
		{Read: []string{link}, Write: []string{alias}}, {Read: []string{elsewhere}, Write: []string{w.Write}},
		{Read: []string{filepath.Join(w.Write, "note", "..", "link")}, Write: []string{w.Write}},
	} {
		got := run(t, rules, "escape", "read a file", text)
		must.CheckThat(t, strings.HasPrefix(got, refused), "%+v: the program has reached it", rules)
		got = run(t, rules, "work", "files", text)
		must.CheckThat(t, !strings.Contains(got, "change a file:"), "%+v: %s", rules, got)
	}
}

func TestAnotherUsersTemporaryDirectoryIsRejected(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := filepath.Dir(must.Get(temporaryDir("a"))(t))
	must.Do(t, os.Chmod(dir, 0o770))
	_, err := temporaryDir("a")
	must.CheckThat(t, err != nil, "others can write to it")
	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.Symlink(t.TempDir(), dir))
	_, err = temporaryDir("a")
	must.CheckThat(t, err != nil && !errors.Is(err, fs.ErrNotExist), "a link: %v", err)
}
