package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
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
		"append a record of each request and denial to this `file`, as lines of JSON")
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
	a := &auditLog{flags: *f, report: func(err error) {
		cmd.PrintErrln("parley: warning: cannot write the audit log: " + terminal.Line(err.Error()))
	}}
	a.Handler = slog.NewJSONHandler(a, &slog.HandlerOptions{ReplaceAttr: a.member})
	return a, a.reopen()
}

// auditLog is a handler that appends records to a file.
type auditLog struct {
	slog.Handler
	flags   auditFlags
	report  func(error)
	file    atomic.Pointer[os.File]
	failing atomic.Bool // the last record could not be written
	// written returns the name of a server as it is written in its file.
	written func(server string) string
}

// reopen opens the file again, which another program may have renamed. It keeps the open file if it fails.
func (a *auditLog) reopen() error {
	file, err := os.OpenFile(a.flags.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the audit log: %w", err)
	}
	if before := a.file.Swap(file); before != nil {
		return before.Close()
	}
	return nil
}

// Close closes the file. a may be nil.
func (a *auditLog) Close() error {
	if a == nil {
		return nil
	}
	return a.file.Load().Close()
}

// member returns an attribute of a record as it is written.
func (a *auditLog) member(_ []string, attr slog.Attr) slog.Attr {
	switch attr.Key {
	case slog.LevelKey:
		return slog.Attr{}
	case slog.MessageKey:
		attr.Key = "event"
	case "server":
		if a.written != nil {
			attr.Value = slog.StringValue(a.written(attr.Value.String()))
		}
	}
	return attr
}

// Handle writes a record in one piece. It returns an error only if --audit-required is set; otherwise it prints the
// first error of several in a row.
func (a *auditLog) Handle(ctx context.Context, r slog.Record) error {
	err := a.Handler.Handle(ctx, r)
	if err == nil {
		a.failing.Store(false)
		return nil
	}
	if !a.failing.Swap(true) {
		a.report(err)
	}
	if a.flags.required {
		return err
	}
	return nil
}

// Write writes a line.
func (a *auditLog) Write(line []byte) (int, error) {
	for {
		file := a.file.Load()
		n, err := file.Write(line) // the system appends each write as a whole
		if errors.Is(err, os.ErrClosed) && a.file.Load() != file {
			continue // reopen has replaced it
		}
		return n, err
	}
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
// record requests without a token: a client sends one to find out how to log in.
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
		case r.Header.Get("Authorization") != "":
			a.record(r.Context(), "login failed", principal.Anonymous, "reason", rejection.Reason,
				"outcome", "error", "error", status)
		}
	}
}
