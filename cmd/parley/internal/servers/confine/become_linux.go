package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// become restricts the calling thread and makes it the program, with all that the thread has by then. execve ends the
// other threads of this process, which are not restricted.
func (r *Rules) become(name string, command []string) error {
	runtime.LockOSThread() // and never unlock it
	program, err := exec.LookPath(command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return fmt.Errorf("%w; install the program or write its path", err)
	}
	temporary, err := temporaryDir(name)
	if err != nil {
		return err
	}
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		return err
	}
	limits, err := r.limits()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	if err := r.landlock(program, temporary); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("cannot drop capabilities: %w", err)
	}
	// A descriptor that parley has inherited could be one of a file, a terminal or a socket.
	err = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil {
		err = fmt.Errorf("cannot close inherited files: %w; use Linux 6.12 or newer", err)
	}
	if err := r.unenforced(err); err != nil {
		return err
	}
	// The signal that the parent has asked for is one of the main thread, which this one replaces.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set the signal for the end of parley: %w", err)
	}
	environment := os.Environ()
	if err := r.unenforced(r.installFilter()); err != nil {
		return err
	}
	for _, l := range limits {
		if err := l.set(); err != nil {
			return err
		}
	}
	err = syscall.Exec(program, command, environment)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("cannot start %s: %w; its interpreter must be in \"read\" of \"confine\"", program, err)
	}
	return fmt.Errorf("cannot start %s: %w", program, err)
}

// unenforced returns an error about what the system cannot enforce, with advice. With BestEffort it writes it to
// standard error instead.
func (r *Rules) unenforced(err error) error {
	switch {
	case err == nil:
		return nil
	case r.BestEffort:
		fmt.Fprintln(os.Stderr, prefix+err.Error()+`; continuing because of "bestEffort"`)
		return nil
	}
	return fmt.Errorf(`%w, or set "bestEffort": true to start the server with the restrictions that are possible`, err)
}

// temporaryDir returns a directory for the temporary files of a server, in one that only the user can access. Other
// users can write to the parent directory, and may have created it before.
func temporaryDir(name string) (string, error) {
	dir := filepath.Join(os.TempDir(), "parley-confined-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s must be a directory of yours that other users cannot access; remove it", dir)
	}
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// limit is a resource limit.
type limit struct {
	name     string
	resource int
	value    uint64
}

func (l limit) set() error {
	var now unix.Rlimit
	err := unix.Getrlimit(l.resource, &now)
	if err == nil {
		value := min(l.value, now.Max) // only a privileged process can raise the maximum
		err = unix.Setrlimit(l.resource, &unix.Rlimit{Cur: value, Max: value})
	}
	if err != nil {
		return fmt.Errorf("cannot limit %s: %w", l.name, err)
	}
	return nil
}

// limits returns the resource limits of the rules.
func (r *Rules) limits() (all []limit, err error) {
	if r.Memory != "" {
		bytes, err := ParseSize(r.Memory)
		if err != nil {
			return nil, fmt.Errorf("memory %w", err)
		}
		// RLIMIT_AS would count addresses that a runtime reserves and never uses: many GiB in Node.js.
		all = append(all, limit{"the memory", unix.RLIMIT_DATA, uint64(bytes)})
	}
	if r.Files > 0 {
		all = append(all, limit{"the open files", unix.RLIMIT_NOFILE, uint64(r.Files)})
	}
	if r.Processes > 0 {
		if err := r.unenforced(checkProcesses()); err != nil {
			return nil, err
		}
		all = append(all, limit{"the processes", unix.RLIMIT_NPROC, uint64(r.Processes + otherTasks())})
	}
	return all, nil
}

// checkProcesses returns an error if the kernel does not limit the number of this user's processes.
func checkProcesses() error {
	mapping, err := os.ReadFile("/proc/self/uid_map")
	outer := strings.Fields(string(mapping))
	if os.Getuid() != 0 || err == nil && len(outer) > 1 && outer[1] != "0" { // root of a namespace is another user
		return nil
	}
	return errors.New(`"processes" has no effect on the user root; run parley as another user`)
}

// otherTasks returns the number of processes and threads of the user without those of this process. The limit is for
// all of them, although it is meant for a program.
func otherTasks() int {
	names, _ := filepath.Glob("/proc/[0-9]*/status")
	user, own, n := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getpid()), 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil { // it has ended
			continue
		}
		fields := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			if key, value, found := strings.Cut(line, ":"); found {
				fields[key] = strings.TrimSpace(value)
			}
		}
		uid, _, _ := strings.Cut(fields["Uid"], "\t")
		if threads, err := strconv.Atoi(fields["Threads"]); err == nil && uid == user && fields["Pid"] != own {
			n += threads
		}
	}
	return n
}

// kept are the capabilities that a program keeps that root has started: to use the files that its rules name whoever
// owns them.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// dropCapabilities drops the others. Some of them, such as loading a module into the kernel, lead out of every
// restriction. no_new_privs keeps execve from giving them back.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for i, keep := range []uint32{kept, 0} {
		data[i].Effective &= keep
		data[i].Permitted &= keep
		data[i].Inheritable &= keep
	}
	return unix.Capset(&header, &data[0])
}
