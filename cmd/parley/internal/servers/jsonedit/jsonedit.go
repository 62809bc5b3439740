// Package jsonedit changes keys in JSON files, and tables in TOML files, without touching the comments, order and
// layout of everything else.
package jsonedit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/internal/atomicfile"
)

var byteOrderMark = []byte("\ufeff")

const maxFile = 16 << 20 // bytes; some programs keep their whole state in the file

// File is a JSON file, in which comments and trailing commas are allowed, or a TOML file, in which members are tables.
// It is not safe for concurrent use.
type File struct {
	path    string
	old     []byte // nil if the file does not exist
	mark    []byte // the byte order mark, which some editors write
	root    hujson.Value
	newline string
	indent  string   // of one level
	changes []change // since the file was opened or saved
	isTOML  bool     // then the content is toml, and otherwise root
	toml    []byte
}

// Open reads the file at path. A file that does not exist, or is empty, is an empty object.
func Open(path string) (*File, error) {
	f := newFile(atomicfile.Target(path)) // Save replaces the file, not the link
	content, err := atomicfile.Read(f.path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f, f.parse(content)
}

func newFile(path string) *File {
	return &File{path: path, newline: "\n", indent: "  ", isTOML: strings.HasSuffix(path, ".toml")}
}

// parse sets the content of the file; nil means that the file does not exist.
func (f *File) parse(old []byte) (err error) {
	f.old = old
	content, marked := bytes.CutPrefix(old, byteOrderMark)
	if marked {
		f.mark = byteOrderMark
	}
	if len(bytes.TrimSpace(content)) == 0 {
		f.root = emptyObject()
		return nil
	}
	if bytes.Contains(old, []byte("\r\n")) {
		f.newline = "\r\n"
	}
	if f.isTOML {
		return f.parseTOML(content)
	}
	if f.root, err = hujson.Parse(bytes.Clone(content)); err != nil {
		return fmt.Errorf("%s: %s", f.path, strings.TrimPrefix(err.Error(), "hujson: "))
	}
	root, ok := f.root.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%s: the file must be an object", f.path)
	}
	if len(root.Members) > 0 {
		if indent := lastLine(root.Members[0].Name.BeforeExtra); indent != "" {
			f.indent = indent
		}
	}
	return nil
}

func emptyObject() hujson.Value {
	return hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra("\n")}
}

// Path returns the path of the file. It is the one of Open, unless that is a symbolic link.
func (f *File) Path() string { return f.path }

// Exists reports whether the file existed when it was opened.
func (f *File) Exists() bool { return f.old != nil }

// Bytes returns the content with all changes.
func (f *File) Bytes() []byte {
	if f.isTOML {
		return append(bytes.Clone(f.mark), f.toml...)
	}
	return append(bytes.Clone(f.mark), f.root.Pack()...)
}

// Changed reports whether the content has changed.
func (f *File) Changed() bool { return !bytes.Equal(f.old, f.Bytes()) }

// Get returns the value of the member at path as standard JSON, or nil if there is none. The caller owns it.
func (f *File) Get(path ...string) json.RawMessage {
	v := f.tree()
	for _, name := range path {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		i := indexOf(object, name)
		if i < 0 {
			return nil
		}
		v = &object.Members[i].Value
	}
	standard := v.Clone()
	standard.Standardize()
	return bytes.TrimSpace(standard.Pack())
}

// Set sets the member at path to a value, which package encoding/json encodes. It creates the objects of the path that
// are missing. A new member is the last one of its object. The value must not change before Save.
func (f *File) Set(value any, path ...string) error { return f.change(value, path, (*File).set) }

func (f *File) set(value any, path []string) error {
	if f.isTOML {
		_, err := f.setTOML(value, path)
		return err
	}
	object := f.root.Value.(*hujson.Object)
	indent := ""
	for depth, name := range path[:len(path)-1] {
		i := indexOf(object, name)
		if i < 0 {
			f.insert(object, indent, name, hujson.Value{Value: &hujson.Object{}})
			i = len(object.Members) - 1
		}
		indent = f.indentOf(object, indent)
		next, ok := object.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s: %s must be an object", f.path, strings.Join(path[:depth+1], "."))
		}
		object = next
	}
	name := path[len(path)-1]
	encoded, err := f.encode(value, f.indentOf(object, indent))
	if err != nil {
		return err
	}
	if i := indexOf(object, name); i >= 0 {
		object.Members[i].Value.Value = encoded.Value
		return nil
	}
	f.insert(object, indent, name, encoded)
	return nil
}

// Append appends a value, which package encoding/json encodes, to the array at path. It creates the array if it is
// missing. The value must not change before Save.
func (f *File) Append(value any, path ...string) error { return f.change(value, path, (*File).append) }

func (f *File) append(value any, path []string) error {
	v, indent := &f.root, ""
	for depth, name := range path {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s: %s must be an object", f.path, strings.Join(path[:depth], "."))
		}
		i := indexOf(object, name)
		if i < 0 {
			return f.set([]any{value}, path)
		}
		v, indent = &object.Members[i].Value, f.indentOf(object, indent)
	}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return fmt.Errorf("%s: %s must be an array", f.path, strings.Join(path, "."))
	}
	own := indent + f.indent
	element, err := f.encode(value, own)
	if err != nil {
		return err
	}
	element.BeforeExtra = hujson.Extra(strings.TrimRight(string(array.AfterExtra), " \t\r\n") + f.newline + own)
	element.AfterExtra = nil
	if n := len(array.Elements); n > 0 && array.Elements[n-1].AfterExtra != nil {
		element.AfterExtra = hujson.Extra{} // the array has a trailing comma
	}
	array.Elements = append(array.Elements, element)
	array.AfterExtra = hujson.Extra(f.newline + indent)
	return nil
}

// encode returns a value whose further lines begin with indent.
func (f *File) encode(value any, indent string) (hujson.Value, error) {
	text, err := Encode(value, indent, f.indent)
	if err != nil {
		return hujson.Value{}, err
	}
	return hujson.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte(f.newline)))
}

// Encode returns a value as package encoding/json does, but without escapes for HTML. Lines after the first begin with
// prefix; without an indent, there is one line.
func Encode(value any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, indent)
	err := encoder.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

// insert appends a member to an object whose closing brace is indented by indent.
func (f *File) insert(object *hujson.Object, indent, name string, value hujson.Value) {
	own := f.indentOf(object, indent)
	// What follows the last member, such as a comment in its line, stays there.
	before := strings.TrimRight(string(object.AfterExtra), " \t\r\n") + f.newline + own
	value.BeforeExtra, value.AfterExtra = hujson.Extra(" "), nil
	if n := len(object.Members); n > 0 && object.Members[n-1].Value.AfterExtra != nil {
		value.AfterExtra = hujson.Extra{} // the object has a trailing comma
	}
	object.Members = append(object.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(before), Value: hujson.String(name)},
		Value: value,
	})
	object.AfterExtra = hujson.Extra(f.newline + indent)
}

// indentOf returns the indentation of the members of an object whose closing brace is indented by indent.
func (f *File) indentOf(object *hujson.Object, indent string) string {
	for i := range object.Members {
		if before := object.Members[i].Name.BeforeExtra; bytes.ContainsRune(before, '\n') {
			return lastLine(before)
		}
	}
	return indent + f.indent
}

// lastLine returns the spaces after the last line feed of white space and comments.
func lastLine(extra hujson.Extra) string {
	at := bytes.LastIndexByte(extra, '\n')
	if at < 0 {
		return ""
	}
	rest := string(extra[at+1:])
	return rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
}

// Remove removes the member at path with the comments before it and in its line. It reports whether there was one.
func (f *File) Remove(path ...string) bool {
	return f.change(nil, path, func(f *File, _ any, path []string) error {
		if !f.remove(path) {
			return errMissing
		}
		return nil
	}) == nil
}

var errMissing = errors.New("no such member")

func (f *File) remove(path []string) bool {
	if f.isTOML {
		found, err := f.setTOML(nil, path)
		return found && err == nil
	}
	object := f.root.Value.(*hujson.Object)
	for _, name := range path[:len(path)-1] {
		i := indexOf(object, name)
		if i < 0 {
			return false
		}
		next, ok := object.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			return false
		}
		object = next
	}
	i := indexOf(object, path[len(path)-1])
	if i < 0 {
		return false
	}
	removed := object.Members[i]
	object.Members = append(object.Members[:i], object.Members[i+1:]...)
	line, _ := cutLine(removed.Name.BeforeExtra) // about the previous member
	if i < len(object.Members) {
		next := &object.Members[i].Name
		next.BeforeExtra = f.join(line, next.BeforeExtra)
		return true
	}
	if i > 0 {
		last := &object.Members[i-1].Value
		if removed.Value.AfterExtra == nil {
			line, last.AfterExtra = string(last.AfterExtra)+line, nil
		} else if last.AfterExtra == nil {
			last.AfterExtra = hujson.Extra{}
		}
	}
	object.AfterExtra = f.join(line, object.AfterExtra)
	if len(object.Members) == 0 && len(bytes.TrimSpace(object.AfterExtra)) == 0 {
		object.AfterExtra = nil
	}
	return true
}

// join returns a line, and what follows the first line of after. A comment with // needs a line feed.
func (f *File) join(line string, after hujson.Extra) hujson.Extra {
	_, rest := cutLine(after)
	if strings.Contains(line, "//") && !strings.HasPrefix(strings.TrimLeft(rest, " \t\r"), "\n") {
		rest = f.newline + rest
	}
	return hujson.Extra(line + rest)
}

// cutLine cuts white space and comments before the first line feed. Without one, the line is empty.
func cutLine(extra hujson.Extra) (line, rest string) {
	text := string(extra)
	at := strings.IndexByte(text, '\n')
	if at > 0 && text[at-1] == '\r' {
		at--
	}
	if at < 0 {
		return "", text
	}
	return text[:at], text[at:]
}

// errChanged is the error of Save if another program has changed what would be changed.
var errChanged = errors.New("another program has changed it meanwhile; run the command again")

// change is a change of a File, which Save can make again in the content that another program has written.
type change struct {
	path   []string
	before json.RawMessage // the value at path before the change; nil if there was none
	after  json.RawMessage // afterwards; nil if it was removed
	value  any             // of Set or Append
	how    func(f *File, value any, path []string) error
}

// change makes a change, and keeps it for Save.
func (f *File) change(value any, path []string, how func(*File, any, []string) error) error {
	path = slices.Clone(path)
	before := f.Get(path...)
	if err := how(f, value, path); err != nil {
		return err
	}
	f.changes = append(f.changes, change{path, before, f.Get(path...), value, how})
	return nil
}

// Save writes the changes to the file, atomically and while no other parley writes it. What others have written since
// the file was opened stays, unless it is what the changes are about: then nothing is written, and Save returns an
// error. Missing directories are created for the user only. A file that exists keeps its permissions; a new one is
// readable by the user only.
func (f *File) Save(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	var saved *File
	err := atomicfile.Update(ctx, f.path, maxFile, func(now []byte) ([]byte, error) {
		saved = f
		if !bytes.Equal(now, f.old) {
			saved = newFile(f.path)
			if err := saved.parse(now); err != nil {
				return nil, err
			}
			for i := range f.changes {
				if err := f.changes[i].again(saved); err != nil {
					return nil, err
				}
			}
		}
		return saved.Bytes(), nil
	})
	if err == nil {
		f.old, f.root, f.toml, f.changes = saved.Bytes(), saved.root, saved.toml, nil
	}
	return err
}

// again makes a change in a file that another program has changed.
func (c *change) again(f *File) error {
	switch now := f.Get(c.path...); {
	case sameValue(now, c.after): // the other program has made the same change
		return nil
	case !sameValue(now, c.before):
		return fmt.Errorf("%s: %s: %w", f.path, strings.Join(c.path, "."), errChanged)
	}
	return c.how(f, c.value, c.path)
}

// sameValue reports whether two values, which can be missing, differ in white space only.
func sameValue(a, b json.RawMessage) bool {
	var first, second bytes.Buffer
	_, _ = json.Compact(&first, a), json.Compact(&second, b) // values are JSON
	return bytes.Equal(first.Bytes(), second.Bytes())
}

// indexOf returns the index of the member with a name, or -1. Of duplicates it is the last one, which most programs
// use.
func indexOf(object *hujson.Object, name string) int {
	for i := len(object.Members) - 1; i >= 0; i-- {
		if literal, ok := object.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			return i
		}
	}
	return -1
}

// Diff describes the changes, one after the other: the name of what is replaced or removed (-), and what is new (+). It
// shows no other value of the file, because that can be a secret. It returns "" if there is no change.
func (f *File) Diff() string {
	var b strings.Builder
	for i := range f.changes {
		c := &f.changes[i]
		name := strings.Join(c.path, ".")
		if c.before != nil {
			fmt.Fprintf(&b, "-%s\n", name)
		}
		if c.value == nil {
			continue
		}
		text, err := Encode(c.value, "", "  ")
		text = append([]byte(name+": "), text...)
		if f.isTOML {
			text, err = tomlTable(c.value, c.path)
		}
		if err == nil { // it was encoded before
			fmt.Fprintf(&b, "+%s\n", bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n+")))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return f.path + "\n" + b.String()
}
