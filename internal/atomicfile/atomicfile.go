// Package atomicfile changes the user's files. It replaces a file as a whole, and programs that change the same file
// wait for each other.
package atomicfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const newMode fs.FileMode = 0o600 // mode of a new file

// Write replaces the file at path with content. If Write fails, or the program or the system crashes, the file keeps
// its old content or has the new content. It gets mode 0600. The directory must exist. A symbolic link at path is kept:
// the file that it names is replaced.
//
// Write is for content that does not depend on the content of the file; see [Update].
func Write(path string, content []byte) error {
	return replace(Target(path), content, newMode, true, nil)
}

// WriteCache is like Write, but does not wait for the disk. After a crash of the system, the file can be empty.
func WriteCache(path string, content []byte) error {
	return replace(Target(path), content, newMode, false, nil)
}

// maxAttempts limits how often Update begins again because a program that does not use the lock has changed the file.
const maxAttempts = 10

// errChanging is the error of Update if a program changes the file again and again.
var errChanging = errors.New("another program is changing the file; try again")

// Update changes the file at path. It holds the lock of the file while it reads the file, calls change with its
// content, and replaces it with the content that change returns, as [Write] does. The old content is nil if there is no
// file. If change returns an error, Update returns it and writes nothing. Nor does Update write if change returns the
// old content.
//
// A program that does not use the lock, such as an editor, may change the file at the same time: Update compares the
// content right before it replaces the file, and calls change again with the new content. An existing file keeps its
// permissions, and a symbolic link is kept. The directory must exist.
func Update(ctx context.Context, path string, limit int64, change func(old []byte) ([]byte, error)) error {
	path = Target(path)
	switch unlock, err := Lock(ctx, lockOf(path)); {
	case err == nil:
		defer unlock()
	case !errors.Is(err, errors.ErrUnsupported): // some systems and file systems have no locks
		return err
	}
	for range maxAttempts {
		old, mode, err := read(path, limit)
		if err != nil {
			return err
		}
		content, err := change(bytes.Clone(old))
		if err != nil {
			return err
		}
		if old != nil && bytes.Equal(content, old) {
			return nil
		}
		err = replace(path, content, mode, true, func() error {
			if now, _, err := read(path, limit); err != nil || !bytes.Equal(now, old) || (now == nil) != (old == nil) {
				return errors.Join(errChanging, err)
			}
			return nil
		})
		if !errors.Is(err, errChanging) {
			return err
		}
	}
	return fmt.Errorf("cannot write %s: %w", path, errChanging)
}

// lockOf returns the path of the lock of the file at path. It is in the same directory, so that all programs that can
// replace the file find it.
func lockOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
}

// read returns the content and the permissions of the file at path; the content is nil if there is none.
func read(path string, limit int64) ([]byte, fs.FileMode, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, newMode, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() { // a rename would replace a device or a pipe with a file
		return nil, 0, fmt.Errorf("%s must be a regular file", path)
	}
	content, err := readAll(file, limit)
	return append([]byte{}, content...), info.Mode().Perm(), err
}

// Read returns the content of the file at path, which can also be a pipe. More than limit bytes are an error.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, limit)
}

func readAll(file *os.File, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("file %s is too large: the limit is %d bytes", file.Name(), limit)
	}
	return content, err
}

// maxLinks is the maximum length of a chain of symbolic links, as in Linux.
const maxLinks = 40

// Target returns the path of the file to which the symbolic links at path lead, even if that file does not exist.
func Target(path string) string {
	for range maxLinks {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// replace replaces the file at path, if compare, which is called right before that and can be nil, returns nil.
func replace(path string, content []byte, mode fs.FileMode, durable bool, compare func() error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temporary.Close()
			os.Remove(temporary.Name())
		}
	}()
	if _, err = temporary.Write(content); err != nil {
		return err
	}
	if mode != newMode {
		if err = temporary.Chmod(mode); err != nil {
			return err
		}
	}
	if durable {
		if err = temporary.Sync(); err != nil {
			return err
		}
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	if compare != nil {
		if err = compare(); err != nil {
			return err
		}
	}
	if err = os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // not every system supports this
		dir.Close()
	}
	return nil
}
