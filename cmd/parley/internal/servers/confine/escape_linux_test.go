//go:build integration

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/parley-mcp/parley/internal/must"
)

// world is what a program of a test tries to reach. All of it exists, and belongs to the user.
type world struct {
	Outside string // a directory that no rule names, with the file secret
	Read    string // a directory to read, with the file note, and a symbolic link to the secret
	Write   string // a directory to write, with the file note
	TCP     string
	UDP     string
	Socket  string // a Unix socket of streams
	Packets string // a Unix socket of datagrams
	Name    string // an abstract Unix socket
	Victim  int    // the process ID of a program
}

func (w *world) secret() string { return filepath.Join(w.Outside, "secret") }

// escapes are what a hostile program tries. A function returns an error if it is refused.
var escapes = []struct {
	name string
	try  func(w *world) error
}{
	{"read a file", func(w *world) error { return read(w.secret()) }},
	{"list a directory", func(w *world) error {
		_, err := os.ReadDir(w.Outside)
		return err
	}},
	{"change a file", func(w *world) error { return write(w.secret()) }},
	{"truncate a file", func(w *world) error { return os.Truncate(w.secret(), 0) }},
	{"create a file", func(w *world) error { return write(filepath.Join(w.Outside, "new")) }},
	{"create a directory", func(w *world) error { return os.Mkdir(filepath.Join(w.Outside, "newdir"), 0o700) }},
	{"create a symbolic link", func(w *world) error { return os.Symlink("/", filepath.Join(w.Outside, "newlink")) }},
	{"delete a file", func(w *world) error { return os.Remove(w.secret()) }},
	{"execute a program", func(w *world) error { return exec.Command(filepath.Join(w.Outside, "program")).Run() }},
	{"change a file that it may only read", func(w *world) error { return write(filepath.Join(w.Read, "note")) }},
	{"delete a file that it may only read", func(w *world) error { return os.Remove(filepath.Join(w.Read, "note")) }},
	{"follow a symbolic link", func(w *world) error { return read(filepath.Join(w.Read, "link")) }},
	{"follow a symbolic link of its own", func(w *world) error {
		link := filepath.Join(w.Write, "link")
		_ = os.Remove(link)
		return errors.Join(must0(os.Symlink(w.secret(), link)), read(link))
	}},
	{"make a hard link to a file", func(w *world) error { return os.Link(w.secret(), filepath.Join(w.Write, "hard")) }},
	{"make a hard link to what it may only read", func(w *world) error {
		return os.Link(filepath.Join(w.Read, "note"), filepath.Join(w.Write, "hard"))
	}},
	{"make a hard link outside", func(w *world) error {
		return os.Link(filepath.Join(w.Write, "note"), filepath.Join(w.Outside, "hard"))
	}},
	{"move a file to its directory", func(w *world) error {
		return os.Rename(w.secret(), filepath.Join(w.Write, "moved"))
	}},
	{"move a file outside", func(w *world) error {
		return os.Rename(filepath.Join(w.Write, "note"), filepath.Join(w.Outside, "moved"))
	}},
	{"exchange two files", func(w *world) error {
		return unix.Renameat2(unix.AT_FDCWD, w.secret(), unix.AT_FDCWD, filepath.Join(w.Write, "note"),
			unix.RENAME_EXCHANGE)
	}},
	{"leave by .. of its directory", func(w *world) error { return read(filepath.Join(w.Write, "../outside/secret")) }},
	{"leave by /proc/self/root", func(w *world) error { return read("/proc/self/root" + w.secret()) }},
	{"leave by /proc/self/cwd", func(w *world) error {
		return errors.Join(must0(os.Chdir(w.Outside)), read("/proc/self/cwd/secret"))
	}},
	{"use a file that parley has inherited", func(*world) error {
		_, err := os.NewFile(3, "inherited").Read(make([]byte, 1))
		return err
	}},
	{"bind a directory", func(w *world) error { return unix.Mount(w.Outside, w.Write, "", unix.MS_BIND, "") }},

	{"read the environment of a process", func(w *world) error { return read(w.process("environ")) }},
	{"read the command line of a process", func(w *world) error { return read(w.process("cmdline")) }},
	{"read the memory map of a process", func(w *world) error { return read(w.process("maps")) }},
	{"use the files of a process", func(w *world) error { return read(w.process("fd/0")) }},
	{"leave by the root of a process", func(w *world) error { return read(w.process("root") + w.secret()) }},
	{"list processes", func(*world) error {
		_, err := os.ReadDir("/proc")
		return err
	}},
	{"attach to a process", func(w *world) error {
		runtime.LockOSThread()
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(w.Victim), 0, 0, 0, 0)
		return orNil(errno)
	}},
	{"read the memory of a process", func(w *world) error {
		var b [1]byte
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		_, err := unix.ProcessVMReadv(w.Victim, local, []unix.RemoteIovec{{Base: 0x1000, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) { // nothing is there
			return nil
		}
		return err
	}},
	{"take a file of a process", func(w *world) error {
		process, err := unix.PidfdOpen(w.Victim, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(process, 0, 0)
		}
		return err
	}},
	{"signal a process", func(w *world) error { return unix.Kill(w.Victim, 0) }},
	{"signal a process by a descriptor", func(w *world) error {
		process, err := unix.PidfdOpen(w.Victim, 0)
		if err == nil {
			err = unix.PidfdSendSignal(process, unix.SIGURG, nil, 0)
		}
		return err
	}},
	{"limit a process", func(w *world) error { return unix.Prlimit(w.Victim, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) }},

	{"connect by TCP", func(w *world) error { return dial("tcp", w.TCP) }},
	{"listen by TCP", func(*world) error { return listen("tcp", "127.0.0.1:0") }},
	{"send by UDP", func(w *world) error { return send("udp", w.UDP) }},
	{"listen by UDP", func(*world) error {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"connect by multipath TCP", func(*world) error { return socket(unix.AF_INET, unix.SOCK_STREAM, 262) }},
	{"use netlink", func(*world) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{"connect to a Unix socket", func(w *world) error { return dial("unix", w.Socket) }},
	{"connect to an abstract Unix socket", func(w *world) error { return dial("unix", w.Name) }},
	{"send to a Unix socket", func(w *world) error { return send("unixgram", w.Packets) }},
	{"send to a Unix socket by a pair", func(w *world) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: w.Packets})
	}},
	{"use a pair of streams for a Unix socket", func(w *world) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Connect(pair[0], &unix.SockaddrUnix{Name: w.Socket})
	}},
	{"use io_uring", func(*world) error {
		var parameters [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
		return orNil(errno)
	}},
	{"use the keys of the user", func(*world) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	}},
	{"share memory with a process", func(*world) error {
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1, 0o600)
		return err
	}},
}

// neverReached are the attempts that succeed on some systems only, such as for root, without rules too.
var neverReached = map[string]bool{"bind a directory": true, "use io_uring": true, "connect by multipath TCP": true,
	"use a pair of streams for a Unix socket": true}

func must0(err error) error {
	if err != nil {
		fmt.Fprintln(os.Stderr, "the attempt has failed for another reason:", err)
		os.Exit(1)
	}
	return nil
}

func (w *world) process(name string) string { return fmt.Sprintf("/proc/%d/%s", w.Victim, name) }

func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	_, err = file.Read(make([]byte, 1))
	return err
}

func write(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		file.Close()
	}
	return err
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func listen(network, address string) error {
	l, err := net.Listen(network, address)
	if err == nil {
		l.Close()
	}
	return err
}

func send(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

const refused = "refused: "

// roles are what this program does as a child process of a test, by its first argument.
var roles = map[string]func(args []string) int{"escape": escape, "work": work, "consume": consume, "status": status, "change": change,
	"old": onOldKernel}

func TestMain(m *testing.M) {
	if code, isStep := Main(os.Args[1:]); isStep {
		os.Exit(code)
	}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]](os.Args[2:]))
	}
	os.Exit(m.Run())
}

// escape tries the escape with a name in a world.
func escape(args []string) int {
	w := new(world)
	if err := json.Unmarshal([]byte(args[1]), w); err != nil {
		return 1
	}
	for _, e := range escapes {
		if e.name == args[0] {
			if err := e.try(w); err != nil {
				fmt.Print(refused, err)
			}
			return 0
		}
	}
	return 1
}

// newWorld returns a world of its own.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // names of sockets are short
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{Outside: filepath.Join(dir, "outside"), Read: filepath.Join(dir, "read"),
		Write: filepath.Join(dir, "write"), Socket: filepath.Join(dir, "s"),
		Packets: filepath.Join(dir, "p"), Name: "@" + filepath.Base(dir)}
	for _, sub := range []string{w.Outside, w.Read, w.Write} {
		must.Do(t, os.Mkdir(sub, 0o700))
	}
	for _, path := range []string{w.secret(), filepath.Join(w.Read, "note"), filepath.Join(w.Write, "note")} {
		must.Do(t, os.WriteFile(path, []byte("text"), 0o600))
	}
	must.Do(t, os.WriteFile(filepath.Join(w.Outside, "program"), []byte("#!/bin/sh\n"), 0o700))
	must.Do(t, os.Symlink(w.secret(), filepath.Join(w.Read, "link")))
	tcp := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { tcp.Close() })
	udp := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { udp.Close() })
	w.TCP, w.UDP = tcp.Addr().String(), udp.LocalAddr().String()
	for _, name := range []string{w.Socket, w.Name} {
		l := must.Get(net.Listen("unix", name))(t)
		t.Cleanup(func() { l.Close() })
	}
	packets := must.Get(net.ListenPacket("unixgram", w.Packets))(t)
	t.Cleanup(func() { packets.Close() })
	victim := exec.Command("sleep", "600")
	victim.Stdin = must.Get(os.Open(w.secret()))(t)
	must.Do(t, victim.Start())
	w.Victim = victim.Process.Pid
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	return w
}

// run runs this program in a role, with rules unless they are nil, and returns what it prints.
func run(t *testing.T, rules *Rules, role ...string) string {
	t.Helper()
	program := must.Get(os.Executable())(t)
	args := role
	if rules != nil {
		var err error
		program, args, err = rules.Wrap("test", program, role)
		must.Do(t, err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{must.Get(os.Open("/proc/self/exe"))(t)}
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%q: %v\n%s", role, err, exit.Stderr)
	}
	must.Do(t, err)
	return string(out)
}

// changes are what a program that may write nothing tries with files that it may read, and with others.
var changes = []struct {
	name string
	try  func(path string) error
}{
	{"chmod", func(path string) error { return unix.Chmod(path, 0o644) }},
	{"fchmodat", func(path string) error { return unix.Fchmodat(unix.AT_FDCWD, path, 0o644, 0) }},
	{"fchmodat2", func(path string) error {
		return unix.Fchmodat(unix.AT_FDCWD, path, 0o644, unix.AT_SYMLINK_NOFOLLOW)
	}},
	{"chown", func(path string) error { return unix.Chown(path, os.Getuid(), os.Getgid()) }},
	{"lchown", func(path string) error { return unix.Lchown(path, os.Getuid(), os.Getgid()) }},
	{"fchownat", func(path string) error { return unix.Fchownat(unix.AT_FDCWD, path, os.Getuid(), os.Getgid(), 0) }},
	{"utimes", func(path string) error { return unix.Utimes(path, make([]unix.Timeval, 2)) }},
	{"utimensat", func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) }},
	{"setxattr", func(path string) error { return unix.Setxattr(path, "user.x", []byte("x"), 0) }},
	{"removexattr", func(path string) error { return unix.Removexattr(path, "user.x") }},
}

// change tries the changes of a file, and prints those that succeeded.
func change(args []string) int {
	for _, c := range changes {
		if c.try(args[0]) == nil {
			fmt.Print(c.name + " ")
		}
	}
	return 0
}

// Rule W1.
func TestAConfinedProgramThatWritesNothingChangesNoAttributes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{w.secret(), filepath.Join(w.Read, "note")} {
		got := run(t, nil, "change", path)
		must.CheckThat(t, len(strings.Fields(got)) >= len(changes), "without rules, only %s", got)
		got = run(t, &Rules{Read: []string{w.Read}}, "change", path)
		must.CheckThat(t, got == "", "the program has used %s", got)
	}
	rules := &Rules{Write: []string{w.Write}}
	got := run(t, rules, "change", filepath.Join(w.Write, "note"))
	must.CheckThat(t, len(strings.Fields(got)) >= len(changes), "a program that may write has only used %s", got)
}

// Rule W1.
func TestAConfinedProgramDoesNotLeave(t *testing.T) {
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			place := func() (*world, string) {
				w := newWorld(t)
				return w, string(must.Get(json.Marshal(w))(t))
			}
			_, open := place()
			if got := run(t, nil, "escape", e.name, open); got != "" && !neverReached[e.name] {
				t.Errorf("without rules: %s", got)
			}
			w, closed := place()
			rules := &Rules{Read: []string{w.Read}, Write: []string{w.Write}}
			got := run(t, rules, "escape", e.name, closed)
			must.CheckThat(t, strings.HasPrefix(got, refused), "the program has reached it")
			t.Log(got)
		})
	}
}
