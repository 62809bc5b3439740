//go:build browser

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/browser log in as a person does, with a real browser.
func TestLoginsInABrowser(t *testing.T) {
	params := scripts("testdata/browser")
	setUp := params.Setup
	params.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		home, err := os.MkdirTemp("", "parley-browser") // short: Chromium makes sockets in it
		if err != nil {
			return err
		}
		env.Defer(func() { _ = os.RemoveAll(home) })
		driver, err := startWebdriver(home)
		if err != nil {
			return err
		}
		env.Defer(func() {
			if err := driver.Close(); err != nil {
				env.T().Log(err)
			}
		})
		env.Values[browsersKey{}] = &browsers{driver, home, make(map[string]*tab)}
		return nil
	}
	params.Cmds["profile"] = profile
	testscript.Run(t, params)
}

type browsersKey struct{}

// browsers are those of one script, by the names of their profiles.
type browsers struct {
	driver *webdriver
	home   string
	tabs   map[string]*tab
}

// profile NAME visit URL: the browser with this profile, which is new the first time,
// opens a page.
// profile NAME begin PROGRAM: it opens the page that what was started as PROGRAM has printed.
// profile NAME click SELECTOR: it clicks on an element.
// profile NAME shows PATTERN: its page comes to show that.
// profile NAME address VARIABLE: the variable gets the address of its page.
func profile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: profile NAME visit|begin|click|shows|address WORD")
	}
	all := ts.Value(browsersKey{}).(*browsers)
	t := all.tabs[args[0]]
	if t == nil {
		var err error
		t, err = all.driver.open(filepath.Join(all.home, args[0]))
		ts.Check(err)
		all.tabs[args[0]] = t
	}
	switch word := args[2]; args[1] {
	case "visit":
		ts.Check(t.visit(word))
	case "begin":
		ts.Check(t.visit(running(ts)[word].match(ts, `(http://\S+/login/\S+)`)[1]))
	case "click":
		ts.Check(t.click(word))
	case "shows":
		pattern, err := regexp.Compile(word)
		ts.Check(err)
		ts.Check(t.shows(pattern))
	case "address":
		address, err := t.address()
		ts.Check(err)
		ts.Setenv(word, address)
	default:
		ts.Fatalf("profile: unknown %s", args[1])
	}
}
