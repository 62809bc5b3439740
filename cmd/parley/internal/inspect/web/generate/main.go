// Command generate bundles the page of parley inspect. It needs the packages that scripts/tools installs, but not Node.
// It writes the files, compressed with gzip, to the directory dist of the package inspect, or to the directory of -out.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	web := flag.String("web", "web", "`directory` with the sources")
	out := flag.String("out", "dist", "`directory` for the files")
	flag.Parse()
	if err := generate(*web, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(web, out string) error {
	if _, err := os.Stat(filepath.Join(web, "node_modules")); err != nil {
		return errors.New("the packages are missing; run scripts/tools")
	}
	files, err := bundle(web)
	if err != nil {
		return err
	}
	for _, name := range []string{"index.html", "icon.svg", "frame.html", "frame.js"} {
		if files[name], err = os.ReadFile(filepath.Join(web, "static", name)); err != nil {
			return err
		}
	}
	if files["licenses.txt"], err = licenses(filepath.Join(web, "node_modules")); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, _ = w.Write(data) // a buffer returns no error
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".gz"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// bundle returns the script and the style sheet of the page.
func bundle(web string) (map[string][]byte, error) {
	root, err := filepath.Abs(web)
	if err != nil {
		return nil, err
	}
	built := api.Build(api.BuildOptions{
		AbsWorkingDir:     root,
		EntryPoints:       []string{"src/app.tsx", "src/app.css"},
		Outdir:            "out",
		Bundle:            true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Charset:           api.CharsetUTF8,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		LegalComments:     api.LegalCommentsNone, // licenses.txt has them
		PreserveSymlinks:  true,
	})
	if len(built.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(built.Errors, api.FormatMessagesOptions{}), ""))
	}
	files := make(map[string][]byte)
	for _, f := range built.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// bundled are the directories of the packages that the bundle can contain.
var bundled = []string{"@codemirror", "@lezer", "@marijn", "@preact", "crelt", "preact", "style-mod", "w3c-keyname"}

// licenses returns the licenses of the packages.
func licenses(modules string) ([]byte, error) {
	var paths []string
	for _, name := range bundled {
		for _, pattern := range []string{"LICENSE*", "*/LICENSE*"} {
			found, err := filepath.Glob(filepath.Join(modules, name, pattern))
			if err != nil {
				return nil, err
			}
			paths = append(paths, found...)
		}
	}
	slices.Sort(paths)
	var b bytes.Buffer
	b.WriteString("The page of parley inspect contains these packages.\n")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(modules, filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n%s\n\n%s\n", filepath.ToSlash(name), strings.TrimSpace(string(text)))
	}
	return b.Bytes(), nil
}
