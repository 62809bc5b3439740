//go:build integration

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The official conformance suite tests the conformance server through a tap. A replay of the recording to another
// process of the server has no differences.
func TestARecordingOfTheConformanceSuiteIsReplayedWithoutDifferences(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	server := build(ctx, t, dir, "../../conformance/server")
	parley := build(ctx, t, dir, ".")
	for requirements, flags := range map[string][]string{
		"2025-11-25": nil,
		// Tasks have times, and what a poll of a task finds depends on time. The message of an error has the id of a task.
		"2026-07-28": {
			"--pace", "--ignore", "/result/createdAt", "--ignore", "/result/lastUpdatedAt", "--ignore", "/error/message",
			"--ignore", "/result/status", "--ignore", "/result/result", "--ignore", "/result/inputRequests",
		},
	} {
		t.Run(requirements, func(t *testing.T) {
			file := filepath.Join(dir, requirements+".jsonl")
			recordSuite(ctx, t, server, parley, requirements, file)
			again := startProgram(ctx, t, server, "-listen", "127.0.0.1:0")
			cmd := exec.CommandContext(ctx, parley, append([]string{"replay", file, again, "--timeout", "10s"}, flags...)...)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), " 0 differences\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The official conformance suite passes with a mock of the conformance server, made from a recording of the suite.
func TestTheConformanceSuitePassesWithTheMockOfItsRecording(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	server := build(ctx, t, dir, "../../conformance/server")
	parley := build(ctx, t, dir, ".")
	for _, requirements := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(requirements, func(t *testing.T) {
			file := filepath.Join(dir, requirements+".jsonl")
			want := recordSuite(ctx, t, server, parley, requirements, file)
			mocked := startProgram(ctx, t, parley, "mock", file, "--listen", "127.0.0.1:0", "--pace") // tasks take their time
			if got := runSuite(ctx, t, mocked, requirements); got != want {
				t.Errorf("with the mock: %s; with the server: %s", got, want)
			}
		})
	}
}

// recordSuite records the suite with the server, which must pass, and returns its summary.
func recordSuite(ctx context.Context, t *testing.T, server, parley, requirements, file string) string {
	t.Helper()
	served := startProgram(ctx, t, server, "-listen", "127.0.0.1:0")
	return runSuite(ctx, t, startProgram(ctx, t, parley, "tap", served, "--quiet", "--record", file), requirements)
}

// runSuite runs the suite for the server at a URL, which must pass. The summary is like "Total: 83 passed, 0 failed".
func runSuite(ctx context.Context, t *testing.T, url, requirements string) string {
	t.Helper()
	modules, err := filepath.Abs("../../.tools/conformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	if _, err := os.Stat(suite); err != nil {
		t.Fatalf("cannot find the conformance suite: %v; run make tools", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "node"), suite, "server", "--url", url, "--requirements", requirements, "-o", t.TempDir())
	out, err := cmd.CombinedOutput()
	summary := regexp.MustCompile(`(?m)^Total: [1-9][0-9]* passed, 0 failed$`).FindString(string(out))
	if err != nil || summary == "" {
		t.Fatalf("the suite fails: %v\n%s", err, out)
	}
	return summary
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

// startProgram starts a program until the end of the test, and returns the first URL that it prints.
func startProgram(ctx context.Context, t *testing.T, file string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, file, args...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	})
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "http://"); ok {
			go func() {
				for lines.Scan() { // so that the program does not wait
				}
			}()
			return "http://" + strings.Fields(url)[0]
		}
	}
	t.Fatalf("%s printed no URL: %v", file, lines.Err())
	return ""
}
