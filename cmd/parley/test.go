package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/suite"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// testFlags are the flags of parley test.
type testFlags struct {
	dialFlags
	target    string
	revisions []string
	roots     []string
	run       string
	failFast  bool
	junit     string
	schema    bool
}

func newTest() *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use:   "test FILE... [flags]",
		Short: "Test a server: send requests, and check the results",
		Long: `Run the tests of YAML files. A test sends a request to a server and checks the result:

  target: http://127.0.0.1:7777/mcp   # or a name, or a command: [node, server.js]
  tests:
    - call: add
      arguments: {a: 2, b: 3}
      expect: {at: {/structuredContent/sum: 5}, within: 1s}

The tests of a file run one after another over one connection, or one for each revision. --target or a command after --
replaces the target of the files. parley help testing describes the files.

` + targetHelp,
		Example: `
parley test server.test.yaml
parley test tests/*.yaml --junit report.xml -- ./my-server
parley test server.test.yaml --target https://example.com/mcp --revisions all`,
		Annotations: map[string]string{exitCodesKey: "0 all tests passed, 1 a test failed or another error, 4 the server cannot be reached " +
			"or does not respond in time, 6 the server requires a login or other credentials, 130 interrupted"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.schema {
				_, err := cmd.OutOrStdout().Write(suite.Schema)
				return err
			}
			return runTests(cmd, &flags, args)
		},
	}
	flags.addUnrecorded(cmd, timeoutUsage)
	flags.limit(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.target, "target", "", "`TARGET` to test instead of that of the files")
	f.StringSliceVar(&flags.revisions, "revisions", nil, "run the tests in these `revisions`, or in all")
	f.Var((*repeated)(&flags.roots), "root", "`directory` that the server may work in (repeatable)")
	f.StringVar(&flags.run, "run", "", "run only tests whose names match this `expression`")
	f.BoolVar(&flags.failFast, "fail-fast", false, "skip the tests of a file after one that fails")
	f.StringVar(&flags.junit, "junit", "", "write the results to this `file`, in the form of JUnit")
	f.BoolVar(&flags.schema, "schema", false, "print the JSON Schema of the files")
	_ = cmd.MarkFlagDirname("root") // the flags exist
	_ = cmd.RegisterFlagCompletionFunc("revisions", cobra.FixedCompletions(append(wordsOf(mcp.Revisions()), "all"), cobra.ShellCompDirectiveNoFileComp))
	completes(cmd, &flags, completeFiles)
	return cmd
}

func runTests(cmd *cobra.Command, flags *testFlags, args []string) error {
	files, err := flags.read(cmd, args)
	if mistakes := strings.Split(fmt.Sprint(err), "\n"); len(mistakes) > 1 && format(cmd) == output.Table {
		for _, line := range mistakes {
			cmd.PrintErrln("parley: " + terminal.Line(line))
		}
		return &reportedError{err}
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
	if err := filesArgs(cmd, paths); err != nil {
		return nil, err
	}
	if f.revision != "" && len(f.revisions) > 0 {
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
