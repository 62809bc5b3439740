package main

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/skills"
)

// listSkills lists the skills of the server and loads none.
func listSkills(ctx context.Context, c *client.Client) error {
	for _, err := range skills.List(ctx, c) {
		if err != nil {
			return err
		}
	}
	return nil
}

// loadSkills reads all files of the skills of the server. A skill that cannot be verified is not read further.
func loadSkills(ctx context.Context, c *client.Client) error {
	for s, err := range skills.List(ctx, c) {
		if err != nil {
			return err
		}
		for _, f := range s.Files { // SKILL.md first
			_, err := skills.Read(ctx, c, s, f.URI)
			var unverified *skills.VerificationError
			if errors.As(err, &unverified) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
