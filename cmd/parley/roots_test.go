package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRootOfReturnsAFileURI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my project")
	if _, err := rootOf(dir); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("error for a missing directory: %v", err)
	}
	root, err := rootOf(".")
	if err != nil || !strings.HasPrefix(root.URI, "file:///") || root.Name == "." || root.Name == "" {
		t.Errorf("rootOf(.) = %+v, %v", root, err)
	}
	if _, err := rootOf("roots_test.go"); err == nil || !strings.Contains(err.Error(), "must be a directory") {
		t.Errorf("error for a file: %v", err)
	}
}
