package jsonedit

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/tailscale/hujson"
)

// quoted matches a line of a comment from its first quotation mark on. The comment can contain a whole entry.
var quoted = regexp.MustCompile(`"[^\r\n]*`)

// Diff returns the changes in the unified format. Strings that were in the file before are shown as "…", because they can
// be secrets; those of the values of Set and Append are shown. It returns "" if there is no change.
func (f *File) Diff() string {
	var old []byte // stays nil for a file of white space
	if root, err := hujson.Parse(bytes.TrimPrefix(bytes.Clone(f.old), byteOrderMark)); err == nil {
		old = f.shown(root)
	}
	text := string(diff.Diff(f.path, old, f.path, f.shown(f.root)))
	_, text, _ = strings.Cut(text, "\n") // the command diff
	return text
}

func (f *File) shown(root hujson.Value) []byte {
	return append(bytes.Clone(f.mark), f.withoutOld(root).Pack()...)
}

// withoutOld returns a copy of v with … instead of the strings, other than names, that were in the file before.
func (f *File) withoutOld(v hujson.Value) hujson.Value {
	v.BeforeExtra, v.AfterExtra = withoutQuoted(v.BeforeExtra), withoutQuoted(v.AfterExtra)
	switch old := v.Value.(type) {
	case hujson.Literal:
		if old.Kind() == '"' && !f.added[&old[0]] {
			v.Value = hujson.Literal(`"…"`)
		}
	case *hujson.Object:
		shown := &hujson.Object{AfterExtra: withoutQuoted(old.AfterExtra)}
		for _, m := range old.Members {
			m.Name.BeforeExtra, m.Name.AfterExtra = withoutQuoted(m.Name.BeforeExtra), withoutQuoted(m.Name.AfterExtra)
			shown.Members = append(shown.Members, hujson.ObjectMember{Name: m.Name, Value: f.withoutOld(m.Value)})
		}
		v.Value = shown
	case *hujson.Array:
		shown := &hujson.Array{AfterExtra: withoutQuoted(old.AfterExtra)}
		for _, element := range old.Elements {
			shown.Elements = append(shown.Elements, f.withoutOld(element))
		}
		v.Value = shown
	}
	return v
}

// withoutQuoted returns white space and comments without what is quoted in them.
func withoutQuoted(extra hujson.Extra) hujson.Extra {
	if len(extra) == 0 {
		return extra // empty is a trailing comma, and nil is none
	}
	return quoted.ReplaceAll(extra, []byte(`"…`))
}
