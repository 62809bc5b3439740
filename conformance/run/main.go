package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, parseFlags())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

type config struct {
	legs       []leg
	tools, out string // directories
	// Files. The table is not written if its name is empty.
	baseline, table string
	// Packages.
	server, client, gateway string
	race, shrink            bool
}

func parseFlags() config {
	var c config
	flag.Func("leg", "run only this leg: "+strings.Join(legNames(), ", ")+"; repeatable (default all)",
		func(name string) error {
			l, err := parseLeg(name)
			c.legs = append(c.legs, l)
			return err
		})
	flag.StringVar(&c.tools, "tools", filepath.Join(".tools", "conformance"),
		"`directory` in which scripts/tools installed the suite")
	flag.StringVar(&c.out, "out", filepath.Join(".out", "conformance"),
		"`directory` for programs and logs; its content is removed first")
	flag.StringVar(&c.baseline, "baseline", filepath.Join("conformance", "baseline.yaml"),
		"`file` with the scenarios that are known not to pass")
	flag.StringVar(&c.table, "table", "", "`file` to write with the results as Markdown")
	flag.StringVar(&c.server, "server", "./conformance/server", "`package` of the server under test")
	flag.StringVar(&c.client, "client", "./conformance/client", "`package` of the client under test")
	flag.StringVar(&c.gateway, "gateway", "./conformance/gateway", "`package` of the gateway under test")
	flag.BoolVar(&c.race, "race", false, "build the programs with the race detector")
	flag.BoolVar(&c.shrink, "shrink", false, "remove the entries that pass from the baseline")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if len(c.legs) == 0 {
		c.legs = allLegs
	}
	return c
}

// run reports whether the results equal the baseline.
func run(ctx context.Context, c config) (ok bool, err error) {
	known, err := readBaseline(c.baseline)
	if err != nil {
		return false, err
	}
	suite, err := findSuite(c.tools, c.out)
	if err != nil {
		return false, err
	}
	if err := os.RemoveAll(suite.out); err != nil {
		return false, err
	}
	if err := os.MkdirAll(suite.out, 0o755); err != nil {
		return false, err
	}

	needs := func(role string) bool {
		return slices.ContainsFunc(c.legs, func(l leg) bool { return l.role == role })
	}
	subjects := map[string]string{"client": "./client"}
	if needs("client") {
		if err := build(ctx, c.client, filepath.Join(suite.out, "client"), c.race); err != nil {
			return false, err
		}
	}
	start := func(role, pkg string, args ...string) (stop func() error, err error) {
		if err := build(ctx, pkg, filepath.Join(suite.out, role), c.race); err != nil {
			return nil, err
		}
		p, err := startServer(ctx, suite.out, role, args...)
		if err != nil {
			return nil, err
		}
		subjects[role] = p.url
		return p.stop, nil
	}
	if needs("server") || needs("gateway") {
		stop, startErr := start("server", c.server)
		if startErr != nil {
			return false, startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if needs("gateway") {
		stop, startErr := start("gateway", c.gateway, "-server", subjects["server"])
		if startErr != nil {
			return false, startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}

	var reports []legReport
	for _, l := range c.legs {
		began := time.Now()
		outcomes, err := suite.run(ctx, l, subjects[l.role])
		if err != nil {
			return false, fmt.Errorf("%v: %w", l, err)
		}
		reports = append(reports, evaluate(l, outcomes, known.entries[l.String()], time.Since(began)))
	}
	if c.shrink {
		if err := known.shrink(c.baseline, reports); err != nil {
			return false, err
		}
	}
	if c.table != "" {
		if err := writeTable(c.table, c.tools, reports); err != nil {
			return false, err
		}
	}
	return report(os.Stdout, reports), nil
}
