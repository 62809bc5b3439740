package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/suite"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/mcp"
)

// testFlags are the flags of parley test.
type testFlags struct {
	dialing.Flags
	target    string
	revisions []string
	roots     []string
	run       string
	failFast  bool
	junit     string
	schema    bool
}

func NewTest() *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use:   "test FILE... [flags]",
		Short: "Test a server with a YAML file",
		Long: `Run the tests of YAML files. A test sends a request to a server and checks the result:

  target: http://127.0.0.1:7777/mcp   # or a name, or a command: [node, server.js]
  tests:
    - call: add
      arguments: {a: 2, b: 3}
      expect: {at: {/structuredContent/sum: 5}, within: 1s}

The tests of a file run in order, over one connection for each revision. --target, or a command after --, replaces
their target (parley help testing).

` + dialing.TargetHelp,
		Example: `
parley test server.test.yaml
parley test tests/*.yaml --junit report.xml -- uv run server.py
parley test server.test.yaml --target https://example.com/mcp --revisions all`,
		Annotations: map[string]string{program.ExitCodesKey: "0 all tests passed, 1 a test failed or another error, " +
			"4 the server cannot be reached or does not respond in time, 6 the server requires a login or other " +
			"credentials, 130 interrupted"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.schema {
				_, err := cmd.OutOrStdout().Write(suite.Schema)
				return err
			}
			return runTests(cmd, &flags, args)
		},
	}
	flags.AddUnrecorded(cmd, "end the command after this `time`, such as 5m")
	flags.Limit(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.target, "target", "", "test this `TARGET` instead of the target of the files")
	f.StringSliceVar(&flags.revisions, "revisions", nil,
		"run the tests in these `revisions`, separated by commas; all for all that the server supports")
	f.Var((*program.Repeated)(&flags.roots), "root",
		"tell the server that it may use this `directory`, an MCP root; not enforced (repeatable)")
	f.StringVar(&flags.run, "run", "", "run only tests whose names match this `expression`")
	f.BoolVar(&flags.failFast, "fail-fast", false, "skip the tests of a file after one that fails")
	f.StringVar(&flags.junit, "junit", "", "write the results to this `file`, as JUnit XML")
	f.BoolVar(&flags.schema, "schema", false, "print the JSON Schema of the files")
	_ = cmd.MarkFlagDirname("root") // the flags exist
	program.CompleteFlag(cmd, "revisions", append(program.WordsOf(mcp.Revisions()), "all"))
	completion.Add(cmd, &flags, completion.Files)
	return cmd
}

func runTests(cmd *cobra.Command, flags *testFlags, args []string) error {
	files, err := flags.read(cmd, args)
	if mistakes := strings.Split(fmt.Sprint(err), "\n"); len(mistakes) > 1 && output.Of(cmd) == output.Table {
		for _, line := range mistakes {
			cmd.PrintErrln("parley: " + terminal.Line(line))
		}
		return failure.Reported(err)
	}
	if err != nil {
		return err
	}
	selected, err := regexp.Compile(flags.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	junit, err := flags.createJUnit()
	if err != nil {
		return err
	}
	t := &testRun{cmd: cmd, flags: flags, selected: selected, reports: []*suite.Report{}}
	for _, f := range files {
		if err = t.file(f); err != nil {
			break
		}
	}
	if junit != nil {
		err = errors.Join(err, suite.WriteJUnit(junit, t.reports), junit.Close())
	}
	if err != nil {
		return err
	}
	return t.finish()
}

// read reads the files of a command line.
func (f *testFlags) read(cmd *cobra.Command, args []string) (files []*suite.File, err error) {
	paths := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		paths = args[:dash]
		switch {
		case dash == len(args):
			return nil, errors.New("no command after --; write the command that starts the server")
		case f.target != "":
			return nil, errors.New("cannot combine --target with a command after --; use one of them")
		}
	}
	if err := program.FilesArgs(cmd, paths); err != nil {
		return nil, err
	}
	if f.Revision != "" && len(f.revisions) > 0 {
		return nil, errors.New("cannot combine --revision with --revisions; use one of them")
	}
	var failed error
	for _, path := range paths {
		file, err := suite.Read(path, os.LookupEnv)
		failed = errors.Join(failed, err)
		files = append(files, file)
	}
	return files, failed
}

// createJUnit creates the file of --junit, before tests run, or returns nil.
func (f *testFlags) createJUnit() (*os.File, error) {
	if f.junit == "" {
		return nil, nil
	}
	file, err := os.Create(f.junit)
	if err != nil {
		return nil, fmt.Errorf("--junit: %w", err)
	}
	return file, nil
}

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
	all, before := t.flags.all(f), len(t.reports)
	var rejected error // of the newest revision that the server does not support
	for _, r := range t.flags.revisionsOf(f) {
		flags.Revision = string(r)
		err := t.revision(f, flags, words, r, all)
		switch unsupported := new(unsupportedError); {
		case errors.As(err, &unsupported):
			rejected = cmp.Or(rejected, unsupported.error)
		case err != nil:
			return err
		}
	}
	if len(t.reports) == before && rejected != nil {
		return fmt.Errorf("%s: the server supports none of the revisions of this file: %w", f.Path, rejected)
	}
	return nil
}

// unsupportedError says that a server does not support a revision in which the tests need not run.
type unsupportedError struct{ error }

// targetOf returns the words of the target of a file, and the flags to connect to it.
func (f *testFlags) targetOf(cmd *cobra.Command, file *suite.File) (words []string, flags *dialing.Flags, err error) {
	copied := f.Flags
	flags = &copied
	switch dash := cmd.ArgsLenAtDash(); {
	case dash >= 0:
		words = cmd.Flags().Args()[dash:]
	case f.target != "":
		words = []string{f.target}
	case file.Target != "":
		words = []string{file.Target}
	case len(file.Command) > 0:
		words, flags.Starts = file.Command, true
	default:
		err = fmt.Errorf("%s has no target; add one, or name it with --target or a command after --", file.Path)
	}
	return words, flags, err
}

// all reports whether the tests of a file run in all revisions that the server supports.
func (f *testFlags) all(file *suite.File) bool {
	if f.Revision != "" || len(f.revisions) > 0 {
		return slices.Equal(f.revisions, []string{"all"})
	}
	return file.AllRevisions
}

// revisionsOf returns the revisions in which the tests of a file run; an empty one is the newest that the server
// supports.
func (f *testFlags) revisionsOf(file *suite.File) (revisions []mcp.Revision) {
	switch {
	case f.Revision != "":
		return []mcp.Revision{mcp.Revision(f.Revision)}
	case f.all(file):
		return mcp.Revisions()
	case len(f.revisions) > 0:
		for _, r := range f.revisions {
			revisions = append(revisions, mcp.Revision(r))
		}
		return revisions
	case len(file.Revisions) > 0:
		return file.Revisions
	}
	return []mcp.Revision{""}
}

// revision runs the tests of a file in one revision. Its error ends the command; one of the connection is in the
// report. If the revision is optional, an *unsupportedError says that the server does not support it.
func (t *testRun) revision(f *suite.File, flags *dialing.Flags, words []string, r mcp.Revision, optional bool) error {
	report := &suite.Report{File: f.Path, Target: client.URL(words[0]).String(), Revision: r, Time: time.Now(),
		Tests: []*suite.Result{}}
	valid := false
	c, err := flags.Dial(t.cmd, words, func(d *client.Dialer, to client.Target) error {
		report.Target = to.String()
		f.Configure(d)
		err := dialing.OfferRoots(d, t.flags.roots)
		valid = err == nil
		return err
	})
	if err != nil && optional && valid && t.cmd.Context().Err() == nil && failure.RejectsRevision(err, r) {
		t.printf("%s: %s: not supported by the server\n", terminal.Line(f.Path),
			terminal.Line(report.Target+" "+string(r)))
		return &unsupportedError{err}
	}
	t.reports = append(t.reports, report)
	if err == nil {
		defer dialing.CloseQuietly(c)
		report.Revision = c.Revision()
	}
	if valid {
		t.printf("%s: %s\n", terminal.Line(f.Path), terminal.Line(report.Target+" "+string(report.Revision)))
	}
	if err == nil {
		report.Tests, err = f.Run(t.cmd.Context(), c, suite.Options{
			Selected: t.selected.MatchString, FailFast: t.flags.failFast, Explain: failure.Explain,
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
	report.Error = failure.Explain(err)
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

func (t *testRun) isTable() bool { return output.Of(t.cmd) == output.Table }

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
	err := output.Print(t.cmd, t.reports, "%s\n", total)
	switch {
	case err != nil:
		return err
	case t.lost != nil:
		return failure.Reported(t.lost)
	case total.Failed > 0:
		return errTestsFailed
	case total == suite.Counts{} && t.flags.run != "":
		return fmt.Errorf("no test ran: no name matches --run %s", t.flags.run)
	}
	return nil
}

// errTestsFailed is the error of parley test if tests fail, which the text output has.
var errTestsFailed = failure.Reported(errors.New("tests failed"))
