package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/host"
)

func TestRecordThatCannotBeWrittenIsReported(t *testing.T) {
	for _, required := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit.log")
		var printed strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&printed)
		a, err := (&auditFlags{path: path, required: required}).open(cmd)
		if err != nil {
			t.Fatal(err)
		}
		record := &host.AuditRecord{Event: host.AuditAllowed, Name: "a"}
		if err := a.record(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil { // later writes fail
			t.Fatal(err)
		}
		for range 3 {
			if err := a.record(t.Context(), record); (err != nil) != required {
				t.Errorf("required is %v: %v", required, err)
			}
		}
		if strings.Count(printed.String(), "parley: warning: cannot write the audit log: ") != 1 {
			t.Errorf("printed %q, want one warning", printed.String())
		}
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		if err := a.reopen(); err == nil || !strings.Contains(err.Error(), "closed") { // that of the old file
			t.Errorf("reopen: %v", err)
		}
		if err := a.record(t.Context(), record); err != nil {
			t.Errorf("record after reopen: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for _, name := range []string{path, path + ".1"} {
			if text, err := os.ReadFile(name); err != nil || strings.Count(string(text), "\n") != 1 {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
	}
}
