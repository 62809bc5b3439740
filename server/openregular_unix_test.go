//go:build unix

package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe can take the place of a file after the server has found that the file is regular.
func TestAPipeInPlaceOfAFileDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	opened := make(chan error, 1)
	go func() {
		_, _, err := openRegular(root, "pipe")
		opened <- err
	}()
	select {
	case err := <-opened:
		if err == nil {
			t.Error("a pipe was opened as a file")
		}
	case <-time.After(10 * time.Second):
		t.Error("opening a pipe blocks")
		if other, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_WRONLY, 0); err == nil { // ends the goroutine
			other.Close()
		}
		<-opened
	}
	file, info, err := openRegular(root, "file")
	if err != nil || info.Size() != 4 {
		t.Fatalf("%v, %v", info, err)
	}
	file.Close()
}

// A device can have an endless content, and opening one can have effects.
func TestDevicesAreNotOpenedAsFiles(t *testing.T) {
	root, err := os.OpenRoot("/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"null", "zero"} {
		if file, _, err := openRegular(root, name); err == nil {
			file.Close()
			t.Errorf("the device %s was opened as a file", name)
		}
	}
}
