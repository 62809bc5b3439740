package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Source is a server that offers skills, such as a [client.Client].
type Source interface {
	CallExtension(ctx context.Context, method string, params any, options ...client.CallOption) (json.RawMessage, error)
	ReadResource(ctx context.Context, uri string, options ...client.CallOption) (*mcp.ReadResourceResult, error)
	Server() client.ServerDetails
}

var _ Source = (*client.Client)(nil)

// ErrUnsupported is returned if a server does not declare the extension, or a setting of it that a function needs.
var ErrUnsupported = errors.New("server does not support it")

// VerificationError means that a file must not be used, because its contents differ from what the skill's entry
// describes. The skill may have changed: [Get] returns its current entry, which the user must approve again.
type VerificationError struct {
	URI    string
	Reason string
}

func (e *VerificationError) Error() string {
	return fmt.Sprintf("skills: %.200q cannot be verified: %s", e.URI, e.Reason)
}

// maxPages limits the pages of a listing.
const maxPages = 10_000

// settings returns whether the server supports the extension, and whether it can read directories.
func settings(from Source) (supported, directories bool) {
	raw, ok := from.Server().Extension(mcp.ExtensionSkills)
	var s struct {
		DirectoryRead bool `json:"directoryRead"`
	}
	_ = jsonv2.Unmarshal(raw, &s) // other settings do not matter
	return ok, s.DirectoryRead
}

// List iterates over the skills that a server lists, without reading their files. A server need not list all its
// skills. An entry that must not be used is an error, after which the iteration continues; after any other error it
// ends.
func List(ctx context.Context, from Source) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		if ok, _ := settings(from); !ok {
			yield(nil, fmt.Errorf("skills: %w: %s", ErrUnsupported, mcp.ExtensionSkills))
			return
		}
		for raw, err := range pages(ctx, from, mcp.MethodListSkills, nil, "skills") {
			if err != nil {
				yield(nil, err)
				return
			}
			s := new(Skill)
			if err := s.UnmarshalJSON(raw); err != nil {
				if !yield(nil, fmt.Errorf("skills: %w", err)) {
					return
				}
				continue
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// pages iterates over the items of a paginated list.
func pages(ctx context.Context, from Source, method string, params map[string]any,
	member string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		cursor := ""
		for range maxPages {
			p := map[string]any{}
			for name, value := range params {
				p[name] = value
			}
			if cursor != "" {
				p["cursor"] = cursor
			}
			raw, err := from.CallExtension(ctx, method, p)
			if err != nil {
				yield(nil, err)
				return
			}
			var page map[string]json.RawMessage
			var items []json.RawMessage
			err = jsonv2.Unmarshal(raw, &page)
			if err == nil {
				err = jsonv2.Unmarshal(page[member], &items)
			}
			if err != nil {
				yield(nil, fmt.Errorf("skills: the result of %s must have %s: %w", method, member, err))
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			next := ""
			if page["nextCursor"] != nil {
				_ = jsonv2.Unmarshal(page["nextCursor"], &next) // anything but a string ends the list
			}
			if next == "" {
				return
			}
			if next == cursor {
				break
			}
			cursor = next
		}
		yield(nil, fmt.Errorf("skills: the list of %s does not end", method))
	}
}

// Get returns the entry of the skill whose SKILL.md has the given URI, even if the server does not list it. If there is
// no such skill, the error is a *jsonrpc.Error.
func Get(ctx context.Context, from Source, uri string) (*Skill, error) {
	if ok, _ := settings(from); !ok {
		return nil, fmt.Errorf("skills: %w: %s", ErrUnsupported, mcp.ExtensionSkills)
	}
	raw, err := from.CallExtension(ctx, mcp.MethodGetSkill, map[string]string{"uri": uri})
	if err != nil {
		return nil, err
	}
	var result struct {
		Skill *Skill `json:"skill"`
	}
	switch err := jsonv2.Unmarshal(raw, &result); {
	case err != nil:
		return nil, fmt.Errorf("skills: %w", err)
	case result.Skill == nil || result.Skill.URI != uri:
		return nil, fmt.Errorf("skills: the server returned a different skill than %.200q", uri)
	}
	return result.Skill, nil
}

// Read reads a file of a skill, and verifies that its size, its digest and, for SKILL.md, its frontmatter match the
// entry. If the entry does not list the file, for example because it was added later, Read returns a
// *[VerificationError] without requesting it. Keep the entry while the model uses the skill, and pass it again.
//
// If the entry lists no files, only the frontmatter is verified, and a file must not exceed [MaxSize].
func Read(ctx context.Context, from Source, s *Skill, uri string) ([]byte, error) {
	want, listed := s.file(uri)
	if s.Files == nil {
		if !isInside(s, uri) {
			return nil, &VerificationError{uri, "it is not in the directory of the skill"}
		}
	} else if !listed {
		return nil, &VerificationError{uri, "the entry of the skill does not list it"}
	}
	result, err := from.ReadResource(ctx, uri)
	if err != nil {
		return nil, err
	}
	if len(result.Contents) != 1 || result.Contents[0].URI != uri {
		return nil, &VerificationError{uri, "the server has not returned this file alone"}
	}
	contents := result.Contents[0].Blob
	if contents == nil {
		contents = []byte(result.Contents[0].Text)
	}
	switch size := int64(len(contents)); {
	case s.Files == nil && size > MaxSize:
		return nil, &VerificationError{uri, fmt.Sprintf("it has %d bytes, the limit is %d", size, MaxSize)}
	case s.Files != nil && size != want.Size:
		return nil, &VerificationError{uri, fmt.Sprintf("it has %d bytes, the entry says %d", size, want.Size)}
	case s.Files != nil && digestOf(contents) != want.Digest:
		return nil, &VerificationError{uri, "its digest is not that of the entry"}
	}
	if uri == s.URI {
		frontmatter, err := frontmatterOf(contents)
		if err == nil {
			err = compareFrontmatter(s.Frontmatter, frontmatter)
		}
		if err != nil {
			return nil, &VerificationError{uri, err.Error()}
		}
	}
	return contents, nil
}

func isInside(s *Skill, uri string) bool {
	root := s.Root() + "/"
	return len(uri) > len(root) && uri[:len(root)] == root && isRelative(uri[len(root):])
}

// ReadDirectory returns the files and directories that a directory contains now. The MIME type of a directory is
// inode/directory. Entries whose URIs are not in the directory are left out. The result adds no files to the entry of a
// skill: see [Read].
func ReadDirectory(ctx context.Context, from Source, uri string) (all []mcp.Resource, err error) {
	if _, ok := settings(from); !ok {
		return nil, fmt.Errorf("skills: %w: %s", ErrUnsupported, mcp.MethodReadDirectory)
	}
	for raw, err := range pages(ctx, from, mcp.MethodReadDirectory, map[string]any{"uri": uri}, "resources") {
		if err != nil {
			return nil, err
		}
		var r mcp.Resource
		if err := jsonv2.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("skills: %w", err)
		}
		if rest, inside := strings.CutPrefix(r.URI, strings.TrimSuffix(uri, "/")+"/"); inside &&
			isRelative(strings.TrimSuffix(rest, "/")) {
			all = append(all, r)
		}
	}
	return all, nil
}
