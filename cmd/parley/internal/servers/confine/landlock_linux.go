package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// requiredABI is the version of Landlock that the rules need: 6, of Linux 6.12, is the first that keeps a program from
// sending signals to processes that it has not started. Version 3 is the first that protects files from being
// truncated.
const requiredABI = 6

// signalsFixed is the bit of the erratum about signals, which says that the kernel has the correction.
const signalsFixed = 1 << 1

// Rights of programs. Device files are never created, which root could use to reach a disk, and ioctl on devices, such
// as terminals, is never allowed.
const (
	readRights  landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writeRights landlock.AccessFSSet = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir |
		ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo |
		ll.AccessFSMakeSym | ll.AccessFSRefer
	fileRights landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile |
		ll.AccessFSTruncate
)

// ABI returns the version of Landlock that the kernel has, 0 if it has none.
func ABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	if errata, err := ll.LandlockGetErrata(); version >= 6 && (err != nil || errata&signalsFixed == 0) {
		return 5 // the restriction of signals has a fault
	}
	return version
}

// Check returns an error if the kernel or the user's rights do not suffice to enforce the rules.
func (r *Rules) Check() error {
	err := errors.Join(checkABI(ABI()), checkArchitecture())
	if r.Processes > 0 {
		err = errors.Join(err, checkProcesses())
	}
	return err
}

// checkABI returns an error if a version of Landlock is too old.
func checkABI(version int) error {
	switch {
	case version >= requiredABI:
		return nil
	case version == 0:
		return errors.New("the kernel has no Landlock, or it is turned off; use Linux 6.12 or newer with " +
			"landlock in lsm=")
	}
	return fmt.Errorf("the kernel has version %d of Landlock, and 6 is required; use Linux 6.12 or newer", version)
}

// landlock restricts the calling thread to the files that the rules name.
func (r *Rules) landlock(program, temporary string) error {
	version := ABI()
	if err := r.unenforced(checkABI(version)); err != nil {
		return err
	}
	restricted := landlock.V6
	if r.Network {
		restricted.HandledAccessNet = 0
	}
	write := writeRights
	if r.BestEffort {
		restricted = restricted.BestEffort()
		if version < 2 { // a kernel without the right never moves files between directories
			write &^= ll.AccessFSRefer
		}
	}
	rules, err := r.paths(program, temporary, write)
	if err != nil {
		return err
	}
	fd, flags, err := restricted.NewRulesetFD(rules...)
	if err != nil || fd < 0 { // fd is -1 if there is nothing to restrict
		return err
	}
	defer unix.Close(fd)
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

// resolve returns a path without symbolic links. A path below a directory that the program may write is covered by the
// rule for that directory, and is not followed further: the program could have put a link there, and would gain what it
// leads to when it is started again.
func resolve(path string, changeable []string) (real string, covered bool, err error) {
	const most = 40 // links, as in the kernel
	real = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch {
		case name == "" || name == ".":
			continue
		case within(real, changeable):
			return "", true, nil
		case name == "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", false, err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			real = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err == nil && links > most {
			err = fmt.Errorf("%s: %w", path, unix.ELOOP)
		}
		if err != nil {
			return "", false, err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, false, nil
}

// paths returns the rules for files. A path of the user must exist: if it is misspelt, the server would not work, and
// nobody would know why.
func (r *Rules) paths(program, temporary string, write landlock.AccessFSSet) (rules []landlock.Rule, err error) {
	add := func(rights landlock.AccessFSSet, path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			rights &= fileRights
		}
		rules = append(rules, landlock.PathAccess(rights, path))
		return nil
	}
	readable, writable := Defaults(r.Network)
	for _, path := range readable {
		_ = add(readRights, path) // it may not exist, or may be a link to nowhere
	}
	for _, path := range writable {
		_ = add(fileRights, path)
	}
	_ = add(readRights, fmt.Sprintf("/proc/%d", os.Getpid())) // execve keeps the process ID
	changeable := slices.Clone(r.Write)
	for _, path := range r.Write {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			changeable = append(changeable, real)
		}
	}
	own := func(rights landlock.AccessFSSet, path string) error {
		real, covered, err := resolve(path, changeable)
		if err != nil || covered {
			return err
		}
		return add(rights, real)
	}
	for _, path := range r.Read {
		if err := own(readRights, path); err != nil {
			return nil, fmt.Errorf("\"read\" of \"confine\": %w; correct or remove the path", err)
		}
	}
	for _, path := range r.Write {
		if err := own(write, path); err != nil {
			return nil, fmt.Errorf("\"write\" of \"confine\": %w; create it, or correct or remove the path", err)
		}
	}
	return rules, errors.Join(add(readRights, program), add(write, temporary))
}
