//go:build browser

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"time"
)

// webdriver is a ChromeDriver process and its browsers (W3C WebDriver).
type webdriver struct {
	cmd      *exec.Cmd
	url      string
	chromium string
	tabs     []*tab
}

// tab is a browser with its own profile and one tab.
type tab struct {
	driver *webdriver
	path   string // of the WebDriver session
}

var driverPort = regexp.MustCompile(`started successfully on port (\d+)`)

// startWebdriver starts a ChromeDriver. It and its browsers write files to home only.
func startWebdriver(home string) (*webdriver, error) {
	d := &webdriver{}
	var err error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if d.chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, errors.New("chromium must be in PATH; run scripts/browser")
	}
	path, err := exec.LookPath("chromedriver")
	if err != nil {
		return nil, errors.New("chromedriver must be in PATH; run scripts/browser")
	}
	d.cmd = exec.Command(path, "--port=0")
	d.cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := driverPort.FindStringSubmatch(lines.Text()); m != nil {
			d.url = "http://127.0.0.1:" + m[1]
			go func() { _, _ = io.Copy(io.Discard, out) }() // until it exits
			return d, nil
		}
	}
	return nil, errors.Join(errors.New("chromedriver did not start"), d.cmd.Process.Kill(), d.cmd.Wait())
}

// open starts a browser whose profile is in a new directory.
func (d *webdriver) open(profile string) (*tab, error) {
	var created struct {
		ID string `json:"sessionId"`
	}
	err := d.do(http.MethodPost, "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"binary": d.chromium, "args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
			"--user-data-dir=" + profile,
		}},
	}}}, &created)
	if err != nil {
		return nil, err
	}
	t := &tab{d, "/session/" + created.ID}
	d.tabs = append(d.tabs, t)
	return t, nil
}

// Close stops the browsers and the driver.
func (d *webdriver) Close() error {
	var errs []error
	for _, t := range d.tabs {
		errs = append(errs, d.do(http.MethodDelete, t.path, nil, nil))
	}
	errs = append(errs, d.cmd.Process.Kill())
	_ = d.cmd.Wait() // returns an error because the process was killed
	return errors.Join(errs...)
}

// do sends one command and decodes the value of the response.
func (d *webdriver) do(method, path string, command, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
	defer cancel()
	var body io.Reader
	if command != nil {
		raw, err := json.Marshal(command)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, body)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("webdriver: %s %s: status %d: %.500s", method, path, resp.StatusCode, raw)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, &struct {
		Value any `json:"value"`
	}{into})
}

func (t *tab) navigate(url string) error {
	return t.driver.do(http.MethodPost, t.path+"/url", map[string]string{"url": url}, nil)
}

func (t *tab) address() (url string, err error) {
	return url, t.driver.do(http.MethodGet, t.path+"/url", nil, &url)
}

// element returns the path of the first element that matches a CSS selector.
func (t *tab) element(selector string) (string, error) {
	found := map[string]string{}
	err := t.driver.do(http.MethodPost, t.path+"/element", map[string]string{"using": "css selector", "value": selector}, &found)
	for _, id := range found {
		return t.path + "/element/" + id, err
	}
	return "", err
}

func (t *tab) click(selector string) error {
	element, err := t.element(selector)
	if err != nil {
		return err
	}
	return t.driver.do(http.MethodPost, element+"/click", struct{}{}, nil)
}

// text returns the text of the page.
func (t *tab) text() (text string, err error) {
	element, err := t.element("body")
	if err != nil {
		return "", err
	}
	return text, t.driver.do(http.MethodGet, element+"/text", nil, &text)
}

// shows waits until the text of the page matches. It polls, because WebDriver does not report
// changes of the page.
func (t *tab) shows(pattern *regexp.Regexp) error {
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		text, err := t.text()
		if err == nil && pattern.MatchString(text) {
			return nil
		}
		select {
		case <-poll.C:
		case <-timeout.C:
			return fmt.Errorf("no %s in %v on the page: %q, %v", pattern, waitLimit, text, err)
		}
	}
}
