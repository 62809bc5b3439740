//go:build browser

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mcp/parley/internal/must"
)

// chromium starts browsers. They write files to a directory of their own only.
type chromium struct {
	path string
	home string
}

// newChromium returns the Chromium in PATH, or the one that scripts/browser has unpacked.
func newChromium() (*chromium, error) {
	c := &chromium{}
	for _, name := range []string{"../../.tools/browser/chromium", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			c.path = path
			break
		}
	}
	if c.path == "" {
		return nil, errors.New("cannot find Chromium; run scripts/browser")
	}
	var err error
	c.home, err = os.MkdirTemp("", "parley-browser") // Chromium creates sockets in it, whose paths must be short
	return c, err
}

// Close removes the files of the browsers, which must have ended.
func (c *chromium) Close() error { return os.RemoveAll(c.home) }

// tab is a browser with its own profile and one tab.
type tab struct {
	ctx   context.Context
	close func()
}

// open starts a browser with a new profile.
func (c *chromium) open() (*tab, error) {
	profile, err := os.MkdirTemp(c.home, "profile")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(c.path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("site-per-process", true), // as browsers with a window are
		chromedp.Env("HOME="+c.home, "TMPDIR="+c.home))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	t := &tab{ctx, func() { cancel(); stop() }}
	// starts the browser, so without a time-out
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// do runs actions, within waitLimit.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.ctx, waitLimit)
	defer cancel()
	return chromedp.Do(ctx, actions...)
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](t *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, waitLimit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

func (t *tab) navigate(url string) error { return t.do(chromedp.Navigate(url)) }

func (t *tab) address() (string, error) { return evaluate[string](t, "location.href") }

func (t *tab) click(selector string) error { return t.do(chromedp.Click(chromedp.CSS(selector))) }

// text returns the visible text of the page.
func (t *tab) text() (string, error) { return evaluate[string](t, "document.body.innerText") }

// shows waits until the text of the page matches.
func (t *tab) shows(pattern *regexp.Regexp) error {
	var text string
	var err error
	if t.await(func() bool { text, err = t.text(); return err == nil && pattern.MatchString(text) }) {
		return nil
	}
	return fmt.Errorf("no %s in %v on the page: %q, %v", pattern, waitLimit, text, err)
}

// await waits until a condition is true. It polls, because not every condition has an event.
func (t *tab) await(done func() bool) bool {
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-timeout.C:
			return false
		}
	}
	return true
}

// browser returns a browser for a test.
func browser(t *testing.T) *tab {
	t.Helper()
	c, err := newChromium()
	must.Do(t, err)
	opened, err := c.open()
	must.Do(t, err)
	t.Cleanup(func() {
		opened.close()
		if err := c.Close(); err != nil {
			t.Log(err)
		}
	})
	return opened
}

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
