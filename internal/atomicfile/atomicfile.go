// Package atomicfile replaces files atomically.
package atomicfile

import (
	"os"
	"path/filepath"
)

// Write replaces the file at path with content. If Write fails, or the program or the system crashes, the
// file has its old content or the new one. The file gets mode 0600. The directory must exist.
func Write(path string, content []byte) error { return replace(path, content, true) }

// WriteCache is like Write, but does not wait for the disk. After a crash of the system, the file can be empty.
func WriteCache(path string, content []byte) error { return replace(path, content, false) }

func replace(path string, content []byte, durable bool) (err error) {
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
	if durable {
		if err = temporary.Sync(); err != nil {
			return err
		}
	}
	if err = temporary.Close(); err != nil {
		return err
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
