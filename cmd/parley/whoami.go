package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func newWhoami() *cobra.Command {
	var output output
	cmd := &cobra.Command{
		Use:   "whoami [URL] [flags]",
		Short: "Show who you are logged in as",
		Long: `Show the login to the server at a URL, or all logins: as whom as far as the token says so, who
has issued it, what it grants, and when it ends. Nobody is asked, and nothing secret is shown.

` + exitCodesHelp,
		Example: `
parley whoami
parley whoami https://example.com/mcp
parley whoami -o json https://example.com/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return whoamiAll(cmd, output)
			}
			url, err := oneURL(cmd, args)
			if err != nil {
				return err
			}
			return whoami(cmd, url, output)
		},
	}
	output.add(cmd)
	return cmd
}

// loginStatus is a login as JSON.
type loginStatus struct {
	Server    string     `json:"server"`
	Subject   string     `json:"subject,omitempty"`
	Issuer    string     `json:"issuer"`
	Resource  string     `json:"resource,omitempty"`
	Scopes    []string   `json:"scopes"`
	Expires   *time.Time `json:"expires,omitempty"`
	Renewable bool       `json:"renewable"`
	Bound     bool       `json:"bound"` // to a key
}

func statusOf(s *oauth.Status) loginStatus {
	out := loginStatus{
		Server: s.Server, Subject: s.Subject, Issuer: s.Issuer, Resource: s.Resource,
		Scopes: append([]string{}, s.Scopes...), Renewable: s.Renewable, Bound: s.Bound,
	}
	if !s.Expires.IsZero() {
		at := s.Expires.UTC().Truncate(time.Second)
		out.Expires = &at
	}
	return out
}

func whoami(cmd *cobra.Command, url string, output output) error {
	c, err := quietClient(cmd)
	if err != nil {
		return err
	}
	status, err := c.Status(cmd.Context(), url)
	if err != nil {
		return err
	}
	if status == nil {
		return &codeError{exitLogin, fmt.Errorf("you are not logged in to %s: run: parley login %s", url, quoted(url))}
	}
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), statusOf(status))
	}
	fmt.Fprintln(cmd.OutOrStdout(), terminal.Line(status.Server))
	printLogin(cmd.OutOrStdout(), status)
	return nil
}

func whoamiAll(cmd *cobra.Command, output output) error {
	c, err := quietClient(cmd)
	if err != nil {
		return err
	}
	servers, err := c.Servers(cmd.Context())
	if err != nil {
		return err
	}
	all := []loginStatus{}
	for _, server := range servers {
		status, err := c.Status(cmd.Context(), server)
		switch {
		case err != nil:
			return err
		case status == nil:
			continue
		case output == outputJSON:
			all = append(all, statusOf(status))
			continue
		}
		all = append(all, loginStatus{})
		fmt.Fprintln(cmd.OutOrStdout(), terminal.Line(status.Server))
		printLogin(cmd.OutOrStdout(), status)
	}
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		cmd.PrintErrln("You are logged in nowhere.")
	}
	return nil
}

// quietClient is for looking at logins.
func quietClient(cmd *cobra.Command) (*oauth.Client, error) {
	kept, err := openLogins()
	if err != nil {
		return nil, err
	}
	return kept.client(cmd.Context(), slog.New(slog.DiscardHandler))
}

func newLogout() *cobra.Command {
	return &cobra.Command{
		Use:   "logout URL",
		Short: "Forget the login to a server",
		Long: `Forget the login to the MCP server at a URL, and have its issuer revoke it where that is
possible.`,
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
}

func logout(cmd *cobra.Command, url string) error {
	c, err := quietClient(cmd)
	if err != nil {
		return err
	}
	status, err := c.Status(cmd.Context(), url)
	if err != nil {
		return err
	}
	if err := c.Logout(cmd.Context(), url); err != nil {
		return errors.Join(errors.New("not everything could be forgotten"), err)
	}
	if status == nil {
		cmd.PrintErrf("You were not logged in to %s.\n", terminal.Line(url))
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Logged out of %s\n", terminal.Line(status.Server))
	return nil
}
