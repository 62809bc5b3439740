package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
)

// disk is a file on a disk with some free bytes. Short makes it return no error for a part that it writes.
type disk struct {
	*os.File
	free  int
	short bool
	fixed bool // it cannot be truncated
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.free)
	d.free -= n
	written, err := d.File.Write(p[:n])
	if err == nil && n < len(p) && !d.short {
		err = errors.New("no space left on device")
	}
	return written, err
}

func (d *disk) Truncate(size int64) error {
	if d.fixed {
		return errors.ErrUnsupported
	}
	info := must.Get(d.File.Stat())(panicking{})
	d.free += int(info.Size() - size)
	return d.File.Truncate(size)
}

type panicking struct{}

func (panicking) Helper()        {}
func (panicking) Error(a ...any) { panic(a) }
func (panicking) Fatal(a ...any) { panic(a) }

// A full disk loses whole records. They are counted, and the requests are rejected if records are required.
func TestAFullDiskTearsNoAuditRecord(t *testing.T) {
	for name, d := range map[string]*disk{
		"error": {}, "short write": {short: true}, "pipe": {fixed: true}, "short write to a pipe": {short: true, fixed: true},
	} {
		path := filepath.Join(t.TempDir(), "audit.log")
		d.File = must.Get(os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		var warnings []string
		a := newAuditLog(auditFlags{required: true}, func(text string) { warnings = append(warnings, text) },
			func() (auditFile, error) { return d, nil })
		must.Do(t, a.reopen())
		write := func(message string) error {
			return a.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, message, 0))
		}
		d.free = 200
		ok := 0
		for write("before") == nil {
			ok++
		}
		must.CheckThat(t, write("lost") != nil, "%s: a record is written to a full disk", name)
		d.free = 10_000
		for range 3 {
			must.Do(t, write("after"))
		}
		must.Do(t, a.Close())
		events := ""
		for line := range bytes.Lines(must.Get(os.ReadFile(path))(t)) {
			var r struct {
				Event   string
				Records int
			}
			if err := json.Unmarshal(line, &r); err != nil {
				must.CheckThat(t, d.fixed && events == strings.Repeat("before ", ok),
					"%s: line %q: %v", name, line, err)
				continue
			}
			events += r.Event + " "
			if r.Event == "lost" {
				must.CheckEqual(t, r.Records, 2, name)
			}
		}
		must.CheckEqual(t, events, strings.Repeat("before ", ok)+"lost after after after ", name)
		must.CheckEqual(t, len(warnings), 2, name, warnings)
	}
}

func TestLinesOfTheAuditLogAreBounded(t *testing.T) {
	a, lines := auditTo(t)
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "denied", 0)
	long := strings.Repeat("x", 1<<20)
	r.Add("reason", long, "error", errors.New(long), "values", json.RawMessage(`{"a":"`+long+`"}`), "server", long)
	must.Do(t, a.Handle(t.Context(), r))
	if all := lines(); len(all) != 1 || len(all[0]) > 20_000 {
		t.Errorf("%d lines, the first with %d bytes", len(all), len(all[0]))
	}
}

// Anybody can send tokens that are not accepted.
func TestRequestsOfOutsidersAddAFewAuditRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, lines := auditTo(t)
		resource := &auth.ProtectedResource{}
		a.watchLogins(resource)
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		reject := func(n int) {
			for range n {
				resource.OnReject(request, nil, &auth.Rejection{Status: 401, Reason: "invalid"})
			}
		}
		reject(3)
		must.CheckEqual(t, len(lines()), 0, "requests without a token")
		request.Header.Set("Authorization", "Bearer x")
		reject(300)
		must.CheckEqual(t, len(lines()), outsiderRecords)
		time.Sleep(outsiderPeriod + time.Second)
		all := lines()
		must.CheckEqual(t, len(all), outsiderRecords+1)
		must.CheckContains(t, all[outsiderRecords], `"requests":290`)
		reject(5)
		must.CheckEqual(t, len(lines()), outsiderRecords+6)
		time.Sleep(outsiderPeriod + time.Second)
		reject(outsiderRecords + 1)
		must.Do(t, a.Close())
		must.CheckContains(t, lines()[2*outsiderRecords+6], `"requests":1}`)
	})
}

// auditTo returns an audit log, and a function that returns its lines.
func auditTo(t *testing.T) (a *auditLog, lines func() []string) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a = newAuditLog(auditFlags{values: true}, func(text string) { t.Error(text) }, func() (auditFile, error) {
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	})
	must.Do(t, a.reopen())
	return a, func() (all []string) {
		for line := range strings.Lines(string(must.Get(os.ReadFile(path))(t))) {
			all = append(all, line)
		}
		return all
	}
}
