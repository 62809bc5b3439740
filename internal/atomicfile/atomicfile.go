// Package atomicfile replaces files atomically.
package atomicfile

import (
	"os"
	"path/filepath"
)

// Write replaces the file at path with content. If Write fails or the program crashes, the
// file has its old content or the new one. The file gets mode 0600. The directory must exist.
func Write(path string, content []byte) (err error) {
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
	if err = temporary.Sync(); err != nil {
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // not every system supports this
		dir.Close()
	}
	return nil
}
