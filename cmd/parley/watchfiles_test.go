package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Another file of the directory changes all the time.
func TestChangeIsReportedInABusyDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mcp.json", "{}")
	changed, err := watchFiles(t.Context(), []string{filepath.Join(dir, "mcp.json")})
	if err != nil {
		t.Fatal(err)
	}
	write("mcp.json", "{ }")
	limit := time.After(waitLimit)
	for n := 0; ; n++ {
		select {
		case <-changed:
			return
		case <-limit:
			t.Fatal("the change is not reported")
		default:
			write("other", strconv.Itoa(n))
		}
	}
}
