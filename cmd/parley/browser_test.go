//go:build browser

package main

import (
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/browser log in as a user does, with a real browser.
func TestBrowserScripts(t *testing.T) {
	params := scripts("testdata/browser")
	setUp := params.Setup
	params.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		c, err := newChromium()
		if err != nil {
			return err
		}
		all := &browsers{c, make(map[string]*tab)}
		env.Defer(func() {
			for _, t := range all.tabs {
				t.close()
			}
			if err := c.Close(); err != nil {
				env.T().Log(err)
			}
		})
		env.Values[browsersKey{}] = all
		return nil
	}
	params.Cmds["profile"] = profile
	testscript.Run(t, params)
}

type browsersKey struct{}

// browsers are the browsers of one script, by the names of their profiles.
type browsers struct {
	chromium *chromium
	tabs     map[string]*tab
}

// profile controls the browser with a profile. The first use of a profile starts a browser.
//
//	profile NAME open URL           opens a page
//	profile NAME login COMMAND      opens the login page that the background command printed
//	profile NAME click SELECTOR     clicks an element
//	profile NAME shows PATTERN      waits until the text of the page matches
//	profile NAME address VARIABLE   sets a variable to the address of the page
func profile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: profile NAME open|login|click|shows|address WORD")
	}
	all := ts.Value(browsersKey{}).(*browsers)
	t := all.tabs[args[0]]
	if t == nil {
		var err error
		t, err = all.chromium.open()
		ts.Check(err)
		all.tabs[args[0]] = t
	}
	switch word := args[2]; args[1] {
	case "open":
		ts.Check(t.navigate(word))
	case "login":
		ts.Check(t.navigate(running(ts)[word].match(ts, `(http://\S+/login/\S+)`)[1]))
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
