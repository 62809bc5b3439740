//go:build integration && long

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The official conformance suite tests the conformance server through a tap, which records it. A replay of the
// recording to another process of the server has no differences.
func TestARecordingOfTheConformanceSuiteIsReplayed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel) // after the parallel tests
	dir := t.TempDir()
	server := build(ctx, t, dir, "../../conformance/server")
	parley := build(ctx, t, dir, ".")
	for requirements, flags := range map[string][]string{
		"2025-11-25": nil,
		// Tasks have times, and what a poll of a task finds depends on time. The message of an error has the id of a
		// task.
		"2026-07-28": {
			"--pace", "--ignore", "/result/createdAt", "--ignore", "/result/lastUpdatedAt", "--ignore",
			"/error/message",
			"--ignore", "/result/status", "--ignore", "/result/statusMessage", "--ignore", "/result/result", "--ignore",
			"/result/error",
			"--ignore", "/result/inputRequests",
		},
	} {
		t.Run(requirements, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, requirements+".jsonl")
			recorded := startProgram(t, anyURL, exec.Command(parley, "tap", startServer(t, server), "--quiet",
				"--record", file))
			runSuite(ctx, t, recorded, requirements)
			cmd := exec.CommandContext(ctx, parley, append([]string{"replay", file, startServer(t, server), "--timeout",
				"10s"}, flags...)...)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), " 0 differences\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// anyURL is the pattern of a URL in the output of a program.
const anyURL = `http://\S+`

// startServer starts the conformance server until the end of the test, and returns its URL.
func startServer(t *testing.T, server string) string {
	t.Helper()
	return startProgram(t, anyURL, exec.Command(server, "-listen", "127.0.0.1:0"))
}

// runSuite runs the suite for the server at a URL, which must pass.
func runSuite(ctx context.Context, t *testing.T, url, requirements string) {
	t.Helper()
	modules, err := filepath.Abs("../../.tools/conformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	if _, err := os.Stat(suite); err != nil {
		t.Fatalf("cannot find the conformance suite: %v; run make tools", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "node"), suite, "server", "--url", url,
		"--requirements", requirements, "-o", t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^Total: [1-9][0-9]* passed, 0 failed$`).Match(out) {
		t.Fatalf("the suite fails: %v\n%s", err, out)
	}
}

// build compiles a program.
func build(ctx context.Context, t *testing.T, dir, pkg string) string {
	t.Helper()
	file := filepath.Join(dir, "program"+strings.ReplaceAll(filepath.Base(pkg), ".", "parley"))
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", file, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}
