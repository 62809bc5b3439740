package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/suite"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// testRun is one run of parley test.
type testRun struct {
	cmd      *cobra.Command
	flags    *testFlags
	selected *regexp.Regexp
	reports  []*suite.Report
	lost     error // the first error of a connection
}

// file runs the tests of a file in each of its revisions. Its error ends the command.
func (t *testRun) file(f *suite.File) error {
	words, flags, err := t.flags.targetOf(t.cmd, f)
	if err != nil {
		return err
	}
	revisions, err := t.flags.revisionsOf(f)
	if err != nil {
		return err
	}
	for _, r := range revisions {
		flags.revision = string(r)
		if err := t.revision(f, flags, words, r); err != nil {
			return err
		}
	}
	return nil
}

// targetOf returns the words of the target of a file, and the flags to connect to it.
func (f *testFlags) targetOf(cmd *cobra.Command, file *suite.File) (words []string, flags *dialFlags, err error) {
	copied := f.dialFlags
	flags = &copied
	switch dash := cmd.ArgsLenAtDash(); {
	case dash >= 0:
		words = cmd.Flags().Args()[dash:]
	case f.target != "":
		words = []string{f.target}
	case file.Target != "":
		words = []string{file.Target}
	case len(file.Command) > 0:
		words, flags.starts = file.Command, true
	default:
		err = fmt.Errorf("%s has no target; add one, or name it with --target or a command after --", file.Path)
	}
	return words, flags, err
}

// revisionsOf returns the revisions in which the tests of a file run; an empty one is the newest that the server supports.
func (f *testFlags) revisionsOf(file *suite.File) (revisions []mcp.Revision, err error) {
	switch {
	case f.revision != "":
		return []mcp.Revision{mcp.Revision(f.revision)}, nil
	case slices.Equal(f.revisions, []string{"all"}):
		return mcp.Revisions(), nil
	case len(f.revisions) > 0:
		for _, r := range f.revisions {
			revisions = append(revisions, mcp.Revision(r))
		}
		return revisions, nil
	case len(file.Revisions) > 0:
		return file.Revisions, nil
	}
	return []mcp.Revision{""}, nil
}

// revision runs the tests of a file in one revision. Its error ends the command; one of the connection is in the report.
func (t *testRun) revision(f *suite.File, flags *dialFlags, words []string, r mcp.Revision) error {
	report := &suite.Report{File: f.Path, Target: client.URL(words[0]).String(), Revision: r, Time: time.Now(), Tests: []*suite.Result{}}
	t.reports = append(t.reports, report)
	valid := false
	c, err := flags.dial(t.cmd, words, func(d *client.Dialer, to client.Target) error {
		report.Target = to.String()
		f.Configure(d)
		err := offerRoots(d, t.flags.roots)
		valid = err == nil
		return err
	})
	if err == nil {
		defer closeQuietly(c)
		report.Revision = c.Revision()
	}
	if valid {
		t.printf("%s: %s\n", terminal.Line(f.Path), terminal.Line(report.Target+" "+string(report.Revision)))
	}
	if err == nil {
		report.Tests, err = f.Run(t.cmd.Context(), c, suite.Options{
			Selected: t.selected.MatchString, FailFast: t.flags.failFast, Explain: explain,
			Done: func(r *suite.Result) {
				if t.isTable() {
					r.Print(t.cmd.OutOrStdout(), f.Path)
				}
			},
		})
	}
	if err == nil {
		return nil
	}
	report.Error = explain(err)
	switch {
	case t.cmd.Context().Err() != nil:
		return context.Cause(t.cmd.Context())
	case !valid: // the target or a flag is wrong
		return err
	}
	t.printf("  FAIL  %s\n", terminal.Line(report.Error))
	if t.lost == nil {
		t.lost = err
	}
	return nil
}

func (t *testRun) isTable() bool { return format(t.cmd) == output.Table }

// printf prints text for people.
func (t *testRun) printf(format string, args ...any) {
	if t.isTable() {
		_, _ = fmt.Fprintf(t.cmd.OutOrStdout(), format, args...) // the summary reports the error of a closed output
	}
}

// finish prints the summary and returns the error of the command.
func (t *testRun) finish() error {
	var total suite.Counts
	for _, r := range t.reports {
		total.Add(r)
	}
	err := show(t.cmd, t.reports, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, total)
		return err
	})
	switch {
	case err != nil:
		return err
	case t.lost != nil:
		return &reportedError{t.lost}
	case total.Failed > 0:
		return errTestsFailed
	case total == suite.Counts{} && t.flags.run != "":
		return fmt.Errorf("no test ran: no name matches --run %s", t.flags.run)
	}
	return nil
}

// errTestsFailed is the error of parley test if tests fail, which it has printed.
var errTestsFailed = &reportedError{errors.New("tests failed")}
