//go:build integration

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The official conformance suite tests the conformance server through a tap. A replay of the recording to another
// process of the server has no differences.
func TestARecordingOfTheConformanceSuiteIsReplayedWithoutDifferences(t *testing.T) {
	modules, err := filepath.Abs("../../.tools/conformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	if _, err := os.Stat(suite); err != nil {
		t.Fatalf("cannot find the conformance suite: %v; run make tools", err)
	}
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
			served := startProgram(ctx, t, server, "-listen", "127.0.0.1:0")
			tapped := startProgram(ctx, t, parley, "tap", served, "--quiet", "--record", file)
			cmd := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "node"), suite, "server", "--url", tapped, "--requirements", requirements, "-o", filepath.Join(dir, requirements))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " 0 failed") {
				t.Fatalf("the suite fails through the tap: %v\n%s", err, out)
			}
			again := startProgram(ctx, t, server, "-listen", "127.0.0.1:0")
			cmd = exec.CommandContext(ctx, parley, append([]string{"replay", file, again, "--timeout", "10s"}, flags...)...)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), " 0 differences\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
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
