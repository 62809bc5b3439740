package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// legTimeout bounds one leg. The suite gives a scenario 30 s; a leg whose scenarios mostly run into that is broken.
const legTimeout = 8 * time.Minute

// A suite is the installed conformance suite. Both fields are absolute; out holds the programs under test.
type suite struct {
	command []string
	out     string
}

func findSuite(tools, out string) (suite, error) {
	modules, err := filepath.Abs(filepath.Join(tools, "node_modules"))
	if err != nil {
		return suite{}, err
	}
	if out, err = filepath.Abs(out); err != nil {
		return suite{}, err
	}
	command := []string{
		filepath.Join(modules, ".bin", "node"),
		filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
	}
	for _, file := range command {
		if _, err := os.Stat(file); err != nil {
			return suite{}, fmt.Errorf("the conformance suite is not installed, run scripts/tools: %w", err)
		}
	}
	return suite{command: command, out: out}, nil
}

// A check is one line of a scenario's checks.json.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
}

// An outcome is what the suite found out in one scenario.
type outcome struct {
	scenario string
	checks   []check
	dir      string // where its files are; empty if the suite left none
	distress error  // the client crashed or raced
}

// run drives one leg and returns an outcome for each of its scenarios, in the suite's order. subject is the URL of
// the server under test, or the command of the client under test, relative to s.out because the suite splits it at spaces.
func (s suite) run(ctx context.Context, l leg, subject string) ([]outcome, error) {
	scenarios, err := s.scenarios(ctx, l)
	if err != nil {
		return nil, err
	}
	flag := map[string]string{"server": "--url", "client": "--command"}[l.role]
	log, err := os.Create(filepath.Join(s.out, l.String()+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	ctx, cancel := context.WithTimeout(ctx, legTimeout)
	defer cancel()
	cmd := s.cmd(ctx, append([]string{l.role, flag, subject, "-o", l.String()}, l.selection()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// The exit status says less than the checks do; that the suite ran to its end shows in every scenario having some.
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the suite did not end: %w; see %s", err, log.Name())
	}
	found, err := readOutcomes(filepath.Join(s.out, l.String()), l.role)
	if err != nil {
		return nil, err
	}

	outcomes := make([]outcome, 0, len(scenarios))
	for _, name := range scenarios {
		o, ok := found[name]
		if !ok {
			o = outcome{scenario: name}
		}
		delete(found, name)
		outcomes = append(outcomes, o)
	}
	for name := range found {
		return nil, fmt.Errorf("the suite ran %q, which is not in its list", name)
	}
	return outcomes, nil
}

func (s suite) cmd(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.command[0], slices.Concat(s.command[1:], args)...)
	cmd.Dir = s.out
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// scenarios asks the suite what belongs to the leg.
func (s suite) scenarios(ctx context.Context, l leg) ([]string, error) {
	args := []string{"list"}
	if l.set != "all" {
		args = append(args, "--requirements", l.set)
	}
	cmd := s.cmd(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the scenarios: %w\n%s", err, stderr.Bytes())
	}
	names := parseList(string(text), l.role)
	if len(names) == 0 {
		return nil, fmt.Errorf("the suite lists no scenario for %v:\n%s", l, text)
	}
	return names, nil
}

var listLine = regexp.MustCompile(`^ +- (\S+)(?: \[(.*)\])?$`)

// parseList reads the output of the suite's list command: headings at the margin that name a role, and a line per
// scenario. Below a last heading, of what a set runs but does not score, each line names its role itself.
func parseList(text, role string) []string {
	var names []string
	var section string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := listLine.FindStringSubmatch(line); m != nil {
			if section == role || section == "" && m[2] == role {
				names = append(names, m[1])
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "Server scenarios"):
			section = "server"
		case strings.HasPrefix(line, "Client scenarios"):
			section = "client"
		case line != "" && line[0] != ' ':
			section = ""
		}
	}
	return names
}

// The suite names a scenario's folder after it and the time, and puts "server-" before those of servers.
var resultDir = regexp.MustCompile(`^(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// readOutcomes reads the checks below dir, by scenario. Scenario names may hold slashes.
func readOutcomes(dir, role string) (map[string]outcome, error) {
	found := map[string]outcome{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(file))
		if err != nil {
			return err
		}
		m := resultDir.FindStringSubmatch(filepath.ToSlash(rel))
		if m == nil {
			return fmt.Errorf("no scenario's folder: %s", rel)
		}
		o := outcome{scenario: m[1], dir: filepath.Dir(file)}
		if role == "server" {
			o.scenario = strings.TrimPrefix(o.scenario, "server-")
		} else {
			o.distress = distress(filepath.Join(o.dir, "stderr.txt"))
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &o.checks); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		found[o.scenario] = o
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	return found, err
}
