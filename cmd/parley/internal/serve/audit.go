package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/principal"
)

// auditFlags are the flags of the audit log.
type auditFlags struct {
	path     string
	values   bool
	required bool
}

func (f *auditFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "audit", "",
		"append a record of each request and denial to this `file`, as lines of JSON; - is standard output")
	cmd.Flags().BoolVar(&f.values, "audit-values", false, "record the values of arguments, too")
	cmd.Flags().BoolVar(&f.required, "audit-required", false, "reject requests that cannot be recorded")
}

// open opens the audit log. It returns nil without --audit.
func (f *auditFlags) open(cmd *cobra.Command) (*auditLog, error) {
	if f.path == "" {
		if f.values || f.required {
			return nil, errors.New("--audit-values and --audit-required require --audit FILE")
		}
		return nil, nil
	}
	if stdio, _ := cmd.Flags().GetBool("stdio"); stdio && f.path == "-" {
		return nil, errors.New("--audit - and --stdio would both write to standard output; name a file")
	}
	a := newAuditLog(*f, func(text string) { cmd.PrintErrln("parley: warning: " + terminal.Bounded(text)) },
		func() (auditFile, error) {
			if f.path == "-" {
				return standardOutput{os.Stdout}, nil
			}
			return os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		})
	return a, a.reopen()
}

func newAuditLog(flags auditFlags, warn func(text string), open func() (auditFile, error)) *auditLog {
	a := &auditLog{flags: flags, warn: warn, open: open}
	a.Handler = slog.NewJSONHandler(a, &slog.HandlerOptions{ReplaceAttr: a.member})
	return a
}

// auditFile is the file of an audit log: an *os.File.
type auditFile interface {
	io.WriteCloser
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
}

// standardOutput is the audit log of a container, whose runtime collects the records. Opening /dev/stdout would fail if
// it is a socket, as under systemd, or belongs to another user.
type standardOutput struct{ *os.File }

// Close does nothing: other parts of the program may still write to standard output.
func (standardOutput) Close() error { return nil }

// auditLog is a handler that appends records to a file.
type auditLog struct {
	slog.Handler
	flags auditFlags
	warn  func(text string)
	open  func() (auditFile, error)
	// written returns the name of a server as it is written in its file.
	written func(server string) string

	outsiders outsiders

	mu   sync.Mutex
	file auditFile
	torn bool // the file ends with a part of a record
	lost int  // records that could not be written since the last one that was
}

// reopen opens the file again, which another program may have renamed. It keeps the open file if it fails. a may be
// nil.
func (a *auditLog) reopen() error {
	if a == nil {
		return nil
	}
	file, err := a.open()
	if err != nil {
		return fmt.Errorf("cannot open the audit log: %w", err)
	}
	a.mu.Lock()
	before := a.file
	a.file, a.torn = file, false
	a.mu.Unlock()
	if before != nil {
		return before.Close()
	}
	return nil
}

// Close closes the file. a may be nil.
func (a *auditLog) Close() error {
	if a == nil {
		return nil
	}
	a.outsiders.end(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.recordLost(), a.file.Close())
}

// maxValues limits the values of arguments in a record, in bytes of JSON.
const maxValues = 64 << 10

// member returns an attribute of a record as it is written. No text is longer than a line of a log.
func (a *auditLog) member(groups []string, attr slog.Attr) slog.Attr {
	switch attr.Key {
	case slog.LevelKey:
		return slog.Attr{}
	case slog.MessageKey:
		attr.Key = "event"
	case "server":
		if a.written != nil {
			attr.Value = slog.StringValue(a.written(attr.Value.String()))
		}
	case "values":
		if raw, ok := attr.Value.Any().(json.RawMessage); ok && len(raw) > maxValues {
			attr.Value = slog.StringValue(fmt.Sprintf("not recorded: %d bytes, the limit is %d", len(raw), maxValues))
		}
	}
	return program.BoundedAttr(groups, attr)
}

// Handle writes a record in one piece. It returns an error only if --audit-required is set; otherwise it prints the
// first error of several in a row. When records can be written again, the first one has the number of those that were
// lost.
func (a *auditLog) Handle(ctx context.Context, r slog.Record) error {
	err := a.Handler.Handle(ctx, r)
	if err != nil && a.flags.required {
		return err
	}
	return nil
}

// Write writes a line.
func (a *auditLog) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.recordLost()
	if err == nil {
		err = a.append(line)
	}
	if err != nil {
		if a.lost++; a.lost == 1 {
			a.warn("cannot write the audit log: " + err.Error())
		}
		return 0, err
	}
	return len(line), nil
}

// recordLost writes a record with the number of records that were lost, if there are any.
func (a *auditLog) recordLost() error {
	if a.lost == 0 {
		return nil
	}
	line, err := json.Marshal(struct {
		Time    time.Time `json:"time"`
		Event   string    `json:"event"`
		Records int       `json:"records"`
	}{time.Now(), "lost", a.lost})
	if err == nil {
		err = a.append(append(line, '\n'))
	}
	if err == nil {
		a.warn(fmt.Sprintf("the audit log can be written again; %s lost", terminal.Count(a.lost, "record")))
		a.lost = 0
	}
	return err
}

// append writes a whole line, or nothing. Where it cannot remove a part that was written, the next line begins after a
// line break, so that it can be read.
func (a *auditLog) append(line []byte) error {
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	before := a.size()
	n, err := a.file.Write(line) // the system appends each write as a whole
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err == nil {
		a.torn = false
	} else if n > 0 && (before < 0 || a.size() != before+int64(n) || a.file.Truncate(before) != nil) {
		a.torn = true
	}
	return err
}

// size returns the size of the file, or -1 if it is no regular file.
func (a *auditLog) size() int64 {
	info, err := a.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// record writes a record about a request that was rejected, of a caller with the attributes of callerAttrs. a may be
// nil.
func (a *auditLog) record(ctx context.Context, event string, who principal.Principal, attrs ...any) {
	if a == nil {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, event, 0)
	for _, of := range [][2]string{{"issuer", who.Issuer()}, {"subject", who.Subject()}, {"client", who.Client()}} {
		if of[1] != "" {
			r.Add(of[0], of[1])
		}
	}
	r.Add(attrs...)
	_ = a.Handle(ctx, r) // the request is rejected in any case
}

// recordLogin records that a caller has failed to log in to a server. a may be nil.
func (a *auditLog) recordLogin(user principal.Principal, server string, err error) {
	text := "other"
	if failed := new(oauth.ServerError); errors.As(err, &failed) {
		text = failed.Code
	}
	a.record(context.Background(), "login failed", user, "server", server,
		"reason", "the login to the server has failed", "outcome", "error", "error", text)
}

// watchLogins records requests whose token is not accepted, or does not have a necessary scope. It does not
// record requests without a token: a client sends one to find out how to log in. Requests that do not come from the
// proxy of the users are recorded.
func (a *auditLog) watchLogins(resource *auth.ProtectedResource) {
	if a == nil || resource == nil {
		return
	}
	resource.OnReject = func(r *http.Request, info *auth.Info, rejection *auth.Rejection) {
		status := fmt.Sprintf("status %d", rejection.Status)
		switch {
		case info != nil:
			a.record(r.Context(), "denied", info.Principal, "decision", "deny", "reason", rejection.Reason,
				"outcome", "error", "error", status)
		case (r.Header.Get("Authorization") != "" || rejection.Status != http.StatusUnauthorized) &&
			a.outsiders.mayRecord(a):
			a.record(r.Context(), "login failed", principal.Anonymous, "reason", rejection.Reason,
				"outcome", "error", "error", status)
		}
	}
}

// Limits of the records that requests without a valid token cause: anybody can send them.
const (
	outsiderPeriod  = time.Minute
	outsiderRecords = 10 // in a period
)

// outsiders counts what is not recorded one by one.
type outsiders struct {
	mu      sync.Mutex
	timer   *time.Timer // at the end of the period; nil if none has begun
	records int         // in the period
	more    int         // requests in the period that have no record
}

// mayRecord reports whether a request without a valid token has a record. Those above the limit are counted, and one
// record has their number at the end of the period.
func (o *outsiders) mayRecord(a *auditLog) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil {
		o.timer, o.records = time.AfterFunc(outsiderPeriod, func() { o.end(a) }), 0
	}
	if o.records < outsiderRecords {
		o.records++
		return true
	}
	o.more++
	return false
}

// end ends the period.
func (o *outsiders) end(a *auditLog) {
	o.mu.Lock()
	more := o.more
	if o.more = 0; o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.mu.Unlock()
	if more > 0 {
		a.record(context.Background(), "login failed", principal.Anonymous, "reason",
			"further requests without a token that is accepted", "outcome", "error", "requests", more)
	}
}
