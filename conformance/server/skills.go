package main

import (
	"testing/fstest"
	"time"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// addSkills adds two skills, one of which has directories.
func addSkills(s *server.Server) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	_, err := skills.Add(s, fstest.MapFS{
		"pdf-processing/SKILL.md": file("---\nname: pdf-processing\ndescription: Extract, fill, and assemble PDF " +
			"documents\nlicense: Apache-2.0\n---\n\nChoose a template from `templates/`, and read " +
			"`references/FORMS.md` for forms.\n"),
		"pdf-processing/references/FORMS.md":     file("# Forms\n"),
		"pdf-processing/templates/invoice.md":    file("# Invoice\n"),
		"pdf-processing/templates/eu/invoice.md": file("# Invoice of the EU\n"),
		"acme/refunds/SKILL.md": file("---\nname: refunds\ndescription: Refund a customer\n---\n\n# " +
			"Refunds\n"),
		"acme/refunds/examples/email.md": file("# Email\n"),
	}, skills.Options{Cache: server.CachePolicy{TTL: 5 * time.Minute, Public: true}})
	if err != nil {
		panic(err)
	}
}
