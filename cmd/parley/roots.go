package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// offerRoots lets the server list the directories as roots.
func offerRoots(d *client.Dialer, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	var roots []mcp.Root
	for _, dir := range dirs {
		root, err := rootOf(dir)
		if err != nil {
			return fmt.Errorf("--root: %w", err)
		}
		roots = append(roots, root)
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return roots, nil }
	return nil
}

// rootOf returns the root of a directory.
func rootOf(dir string) (mcp.Root, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return mcp.Root{}, err
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return mcp.Root{}, err
	case !info.IsDir():
		return mcp.Root{}, fmt.Errorf("%s must be a directory", path)
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a path with a drive letter
	}
	return mcp.Root{URI: (&url.URL{Scheme: "file", Path: slashed}).String(), Name: filepath.Base(path)}, nil
}
