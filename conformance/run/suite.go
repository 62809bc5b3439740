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

// legTimeout is the limit for one leg. The suite allows 30 seconds for a scenario.
const legTimeout = 8 * time.Minute

// suite is the installed conformance suite. The paths are absolute; out has the programs under test.
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
			return suite{}, fmt.Errorf("cannot find the conformance suite: %w; run scripts/tools", err)
		}
	}
	return suite{command: command, out: out}, nil
}

// check is one element of the checks.json of a scenario.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
}

// outcome is the result of one scenario.
type outcome struct {
	scenario string
	checks   []check
	dir      string // the directory with its files, or empty if there is none
	crash    error  // a panic or data race of the client
}

// run runs one leg and returns the outcome of each of its scenarios, in the order of the suite. subject is the URL of
// the server under test or the command of the client under test. The command is relative to s.out, because the suite
// splits it at spaces.
func (s suite) run(ctx context.Context, l leg, subject string) ([]outcome, error) {
	scenarios, err := s.scenarios(ctx, l)
	if err != nil {
		return nil, err
	}
	flag := map[string]string{"server": "--url", "client": "--command"}[l.tested()]
	log, err := os.Create(filepath.Join(s.out, l.String()+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	ctx, cancel := context.WithTimeout(ctx, legTimeout)
	defer cancel()
	cmd := s.cmd(ctx, append([]string{l.tested(), flag, subject, "-o", l.String()}, l.selection()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// The checks say more than the exit status. A suite that did not finish leaves scenarios without checks.
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("suite did not finish: %w; see %s", err, log.Name())
	}
	found, err := readOutcomes(filepath.Join(s.out, l.String()), l.tested())
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
		return nil, fmt.Errorf("suite ran %q, which is not in its list", name)
	}
	return outcomes, nil
}

func (s suite) cmd(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.command[0], slices.Concat(s.command[1:], args)...)
	cmd.Dir = s.out
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// scenarios returns the names of the scenarios in the leg.
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
		return nil, fmt.Errorf("cannot list the scenarios: %w\n%s", err, stderr.Bytes())
	}
	names := parseList(string(text), l.tested())
	if len(names) == 0 {
		return nil, fmt.Errorf("suite lists no scenarios for %v:\n%s", l, text)
	}
	return names, nil
}

var listLine = regexp.MustCompile(`^ +- (\S+)(?: \[(.*)\])?$`)

// parseList reads the output of the list command of the suite. It has headings that name a role and a line for each
// scenario. After the last heading, for scenarios that are not scored, each line names its role.
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

// resultDir matches the directory of a scenario: its name and the time. The scenarios of servers have the prefix
// "server-".
var resultDir = regexp.MustCompile(`^(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// readOutcomes reads all outcomes in dir. The names of scenarios can contain slashes.
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
			return fmt.Errorf("unexpected directory %s: its name must be that of a scenario and a time", rel)
		}
		o := outcome{scenario: m[1], dir: filepath.Dir(file)}
		if role == "server" {
			o.scenario = strings.TrimPrefix(o.scenario, "server-")
		} else {
			o.crash = crashIn(filepath.Join(o.dir, "stderr.txt"))
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
