package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// linesOf returns the lines of a file of the repository that begin with a prefix, without it.
func linesOf(t *testing.T, path, prefix string) (found []string) {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}

// words returns a JSON array of strings.
func words(t *testing.T, text string) (all []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

// checkCommand checks the subcommand and flags of a command line without the program.
func checkCommand(t *testing.T, line []string) {
	t.Helper()
	cmd, rest, err := newRoot().Find(line)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

func TestContainerImageStartsWithoutPrivileges(t *testing.T) {
	if user := linesOf(t, "Dockerfile", "USER "); !slices.Equal(user, []string{"65532:65532"}) {
		t.Errorf("the user is %q", user)
	}
	start := words(t, linesOf(t, "Dockerfile", "CMD ")[0])
	checkCommand(t, start)
	_, check, _ := strings.Cut(linesOf(t, "Dockerfile", "HEALTHCHECK ")[0], " CMD ")
	probe := words(t, check)
	checkCommand(t, probe[1:])
	if entry := words(t, linesOf(t, "Dockerfile", "ENTRYPOINT ")[0]); entry[0] != probe[0] {
		t.Errorf("the entry point is %q, and the health check %q", entry, probe)
	}
	if admin := slices.Index(start, "--admin"); admin < 0 || start[admin+1] != probe[2] {
		t.Errorf("the health check requests %s; the command is %q", probe[2], start)
	}
	if build := linesOf(t, "Dockerfile", "RUN "); !slices.Equal(build, []string{"make build"}) {
		t.Errorf("the binary must be static, built by %q", build)
	}
	if build := linesOf(t, "Makefile", "\tCGO_ENABLED=0 $(GO) build "); len(build) != 1 || !strings.HasSuffix(build[0], "-o .out/parley ./cmd/parley") {
		t.Errorf("make build must build a static binary, got %q", build)
	}
}

func TestUnitOfSystemdIsRestricted(t *testing.T) {
	const unit = "deploy/parley.service"
	start := strings.Fields(linesOf(t, unit, "ExecStart=")[0])
	checkCommand(t, start[1:])
	for setting, want := range map[string]string{
		"DynamicUser=": "yes", "NoNewPrivileges=": "yes", "ProtectSystem=": "strict", "ProtectHome=": "yes", "CapabilityBoundingSet=": "",
		"PrivateTmp=": "yes", "RestrictAddressFamilies=": "AF_INET AF_INET6 AF_UNIX", "KillMode=": "mixed",
	} {
		if got := linesOf(t, unit, setting); len(got) != 1 || got[0] != want {
			t.Errorf("%s%q, want %q", setting, got, want)
		}
	}
}
