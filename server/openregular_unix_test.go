//go:build unix

package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// A pipe can take the place of a file after the server has found that the file is regular.
func TestAPipeInPlaceOfAFileDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	opened := make(chan error, 1)
	go func() {
		_, _, err := openRegular(root, "pipe")
		opened <- err
	}()
	select {
	case err := <-opened:
		must.CheckThat(t, err != nil, "a pipe was opened as a file")
	case <-time.After(10 * time.Second):
		t.Error("opening a pipe blocks")
		if other, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_WRONLY, 0); err == nil { // ends the goroutine
			other.Close()
		}
		<-opened
	}
	file, info, err := openRegular(root, "file")
	must.Do(t, err)
	must.Equal(t, info.Size(), 4, info)
	file.Close()
}

// A device can have an endless content, and opening one can have effects.
func TestDevicesAreNotOpenedAsFiles(t *testing.T) {
	root := must.Get(os.OpenRoot("/dev"))(t)
	defer root.Close()
	for _, name := range []string{"null", "zero"} {
		if file, _, err := openRegular(root, name); err == nil {
			file.Close()
			t.Errorf("the device %s was opened as a file", name)
		}
	}
}
