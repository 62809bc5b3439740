package login

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/doctor"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
)

func NewWhoami() *cobra.Command {
	explain := false
	cmd := &cobra.Command{
		Use:   "whoami [URL] [flags]",
		Short: "Show your logins",
		Long: `Show your login to the server at a URL, or all logins: user, issuer, scopes and expiry. whoami sends no
requests and shows no secrets.

With --explain, check the token of each login as a server does, and print what is wrong and what to do: issuer, keys,
signature, type, audience, expiry and scopes. For this, parley asks the issuer for its keys, and the server whether it
accepts the token.

The exit code is 6 if there is no login to the URL.`,
		Example: `
parley whoami
parley whoami https://example.com/mcp
parley whoami --explain https://example.com/mcp
parley whoami -o json https://example.com/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return whoami(cmd, "", explain)
			}
			url, err := oneURL(cmd, args)
			if err != nil {
				return err
			}
			return whoami(cmd, url, explain)
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "check the token as a server does, and print each result")
	completion.Add(cmd, new(dialing.ConfigFlags), completion.URL, completion.Nothing)
	return cmd
}

// loginStatus is a login in the JSON output.
type loginStatus struct {
	Server    string     `json:"server"`
	Subject   string     `json:"subject,omitempty"`
	Issuer    string     `json:"issuer"`
	Scopes    []string   `json:"scopes"`
	Expires   *time.Time `json:"expires,omitempty"`
	Renewable bool       `json:"renewable"`
	Bound     bool       `json:"bound"` // the token is bound to a key
	// The settings of the login.
	NoResource bool `json:"noResource,omitempty"`
	AssumePKCE bool `json:"assumePkce,omitempty"`

	Checks []doctor.Finding `json:"checks,omitempty"` // of the token
}

func statusOf(server string, s *oauth.Status) loginStatus {
	out := loginStatus{
		Server: server, Subject: s.Subject, Issuer: s.Issuer, Scopes: append([]string{}, s.Scopes...),
		Renewable: s.Renewable, Bound: s.Bound,
		NoResource: s.NoResource, AssumePKCE: s.AssumePKCE,
	}
	if !s.Expires.IsZero() {
		at := s.Expires.UTC().Truncate(time.Second)
		out.Expires = &at
	}
	return out
}

// explained returns a login with the checks of its token if explain is set, and the text for people.
func explained(cmd *cobra.Command, server string, status *oauth.Status, explain bool) (loginStatus, string, error) {
	out, text := statusOf(server, status), new(strings.Builder)
	text.WriteString(describeLogin(server, status))
	if !explain {
		return out, text.String(), nil
	}
	target := client.URL(server)
	auth, err := credstore.AuthorizerFor(cmd.Context(), target, nil)
	if err != nil {
		return out, "", err
	}
	e := &doctor.Examination{Target: target, Dialer: client.Dialer{Auth: auth}, Explain: failure.Explain}
	e.Report = func(f doctor.Finding) {
		out.Checks = append(out.Checks, f)
		_ = doctor.Print(text, f)
	}
	e.ExplainToken(cmd.Context())
	return out, text.String(), context.Cause(cmd.Context())
}

// whoami shows the login to the server at a URL, or all logins if the URL is empty.
func whoami(cmd *cobra.Command, url string, explain bool) error {
	c, err := credstore.OpenClient(cmd.Context())
	if err != nil {
		return err
	}
	servers := []string{url}
	if url == "" {
		if servers, err = c.Servers(cmd.Context()); err != nil {
			return err
		}
	}
	all := []loginStatus{}
	var shown strings.Builder
	for _, server := range servers {
		status, err := c.Status(cmd.Context(), server)
		switch {
		case err != nil:
			return err
		case status == nil && url != "":
			return failure.WithCode(failure.ExitUnauthorized, fmt.Errorf("you are not logged in to %s; run: %s", url,
				quoting.OfUser().Command([]string{"login"}, url)))
		case status == nil:
			continue
		}
		of, text, err := explained(cmd, server, status, explain)
		if err != nil {
			return err
		}
		all = append(all, of)
		shown.WriteString(text)
	}
	if url != "" {
		return output.Print(cmd, all[0], "%s", shown.String())
	}
	if len(all) == 0 && output.Of(cmd) == output.Table {
		cmd.PrintErrln("You have no logins.")
	}
	return output.Print(cmd, all, "%s", shown.String())
}

// describeLogin returns lines about a login to a server, without secrets.
func describeLogin(server string, s *oauth.Status) string {
	var b strings.Builder
	b.WriteString(terminal.Line(server) + "\n")
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", name, terminal.Line(text))
		}
	}
	line("subject", s.Subject)
	line("issuer", s.Issuer)
	line("scopes", strings.Join(s.Scopes, " "))
	line("expires", expiry(s))
	line("settings", strings.Join(config.LoginSettings{NoResource: s.NoResource, AssumePKCE: s.AssumePKCE}.Flags(),
		" "))
	return b.String()
}

// expiry returns the time at which a login expires.
func expiry(s *oauth.Status) string {
	var text string
	switch now := time.Now(); {
	case s.Expires.IsZero():
		return ""
	case now.After(s.Expires):
		text = s.Expires.Local().Format(time.DateTime) + ", expired"
	default:
		text = s.Expires.Local().Format(time.DateTime) + ", in " + s.Expires.Sub(now).Round(time.Second).String()
	}
	if s.Renewable {
		text += "; refreshed when used"
	}
	return text
}

func NewLogout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout URL",
		Short: "Log out of a server",
		Long: `Delete the login to the MCP server at a URL, and revoke its tokens if the authorization server
supports it.`,
		Example: `
parley logout https://example.com/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := oneURL(cmd, args)
			if err != nil {
				return err
			}
			return logout(cmd, url)
		},
	}
	completion.Add(cmd, new(dialing.ConfigFlags), completion.URL, completion.Nothing)
	return cmd
}

func logout(cmd *cobra.Command, url string) error {
	c, err := credstore.OpenClient(cmd.Context())
	if err != nil {
		return err
	}
	status, err := c.Status(cmd.Context(), url)
	if err != nil {
		return err
	}
	if err := c.Logout(cmd.Context(), url); err != nil {
		return fmt.Errorf("cannot log out completely: %w", err)
	}
	result := struct {
		Server    string `json:"server"`
		LoggedOut bool   `json:"loggedOut"` // there was a login
	}{url, status != nil}
	return output.Text(cmd, result, func(b *strings.Builder) {
		if status == nil {
			cmd.PrintErrf("You are not logged in to %s.\n", terminal.Line(url))
		} else {
			b.WriteString("Logged out of " + terminal.Line(url) + "\n")
		}
	})
}
