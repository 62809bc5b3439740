package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
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
	return a, a.reopen()
}

// auditLog appends records to a file.
type auditLog struct {
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

// line is a record with the values of the arguments.
type line struct {
	host.AuditRecord
	Values json.RawMessage `json:"values,omitempty"`
}

// record writes a record in one piece. It returns an error only if --audit-required is set; otherwise it
// prints the first error of several in a row.
func (a *auditLog) record(_ context.Context, r *host.AuditRecord) error {
	err := a.write(r)
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

func (a *auditLog) write(r *host.AuditRecord) error {
	l := line{AuditRecord: *r}
	if a.written != nil {
		l.Server = a.written(r.Server)
	}
	if a.flags.values {
		l.Values = r.Arguments
	}
	text, err := schema.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	for {
		file := a.file.Load()
		_, err := file.Write(text) // the system appends each write as a whole
		if errors.Is(err, os.ErrClosed) && a.file.Load() != file {
			continue // reopen has replaced it
		}
		return err
	}
}

// recordLogin records that a caller has failed to log in to a server. a may be nil.
func (a *auditLog) recordLogin(user principal.Principal, server string, err error) {
	if a == nil {
		return
	}
	record := &host.AuditRecord{
		Time: time.Now(), Event: host.AuditLogin, Issuer: user.Issuer(), Subject: user.Subject(), Server: server,
		Reason: "the login to the server has failed", Outcome: "error", Error: "other",
	}
	if failed := new(oauth.ServerError); errors.As(err, &failed) {
		record.Error = failed.Code
	}
	_ = a.record(context.Background(), record) // there is no request that could be rejected
}

// watchLogins records requests whose token is not accepted, or does not have a necessary scope. It does not
// record requests without a token: a client sends one to find out how to log in.
func (a *auditLog) watchLogins(resource *auth.ProtectedResource) {
	if a == nil || resource == nil {
		return
	}
	resource.OnReject = func(r *http.Request, info *auth.Info, rejection *auth.Rejection) {
		record := &host.AuditRecord{Time: time.Now(), Event: host.AuditLogin, Reason: rejection.Reason,
			Outcome: "error",
			Error:   fmt.Sprintf("status %d", rejection.Status)}
		switch {
		case info != nil:
			p := info.Principal
			record.Event, record.Decision = host.AuditDenied, host.Deny.String()
			record.Issuer, record.Subject, record.Client = p.Issuer(), p.Subject(), p.Client()
		case r.Header.Get("Authorization") == "":
			return
		}
		_ = a.record(r.Context(), record) // the request is rejected in any case
	}
}
