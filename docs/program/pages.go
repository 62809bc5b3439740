// Package program contains the pages about the program parley, which parley help prints.
package program

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.md
var files embed.FS

// Page is a page about the program.
type Page struct {
	Name  string // such as "policy", of the file policy.md
	Title string // the heading of the page
	Text  string // Markdown
}

// Pages returns all pages, sorted by name.
func Pages() []Page {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		panic(err) // the pattern is valid
	}
	var pages []Page
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is a part of the program
		}
		heading, _, _ := strings.Cut(string(text), "\n")
		pages = append(pages,
			Page{strings.TrimSuffix(name, path.Ext(name)), strings.TrimPrefix(heading, "# "), string(text)})
	}
	return pages
}
