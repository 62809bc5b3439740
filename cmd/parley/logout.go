package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func newLogout() *cobra.Command {
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
	completes(cmd, new(configFlags), completeURL, completeNothing)
	return cmd
}

func logout(cmd *cobra.Command, url string) error {
	c, err := storedLogins(cmd)
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
	return show(cmd, result, func(w io.Writer) error {
		if status == nil {
			cmd.PrintErrf("You are not logged in to %s.\n", terminal.Line(url))
			return nil
		}
		_, err := fmt.Fprintf(w, "Logged out of %s\n", terminal.Line(status.Server))
		return err
	})
}
