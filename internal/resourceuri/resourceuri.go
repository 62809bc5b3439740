// Package resourceuri compares URIs of resources with patterns and directories, for rules that decide who may read
// them. Servers decode and resolve URIs in different ways, so one URI can be read in several forms. A rule that
// grants access uses one form and rejects every URI with other readings; a rule that restricts access checks all of
// them.
package resourceuri

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/glob"
)

// maxDecodings is how often percent-encoding is decoded. Servers decode once, and a few of them twice.
const maxDecodings = 4

// Grants reports whether a pattern of package glob matches a URI, or URI template, in its normal form (RFC 3986,
// section 6.2.2). A URI that is not valid, or contains dot segments in any encoding, matches only itself and a
// pattern for everything.
func Grants(pattern, uri string) bool {
	if pattern == uri || pattern != "" && strings.Trim(pattern, "*") == "" {
		return true
	}
	return valid(uri) && !HasDots(uri) && glob.Match(normalize(pattern), normalize(uri))
}

// Restricts reports whether a pattern of package glob matches any form of a URI or URI template: unchanged, in its
// normal form, decoded and without dot segments, and with every other authority that a server may read in it.
func Restricts(pattern, uri string) bool {
	patterns := append(spellings(resolve(pattern), false), pattern, normalize(pattern))
	forms := []string{uri, normalize(uri)}
	uri = trim(uri)
	for range maxDecodings {
		forms = append(forms, spellings(resolve(uri), true)...)
		for _, spelling := range spellings(normalize(uri), true) { // an authority can contain an encoded slash
			forms = append(forms, resolve(spelling))
		}
		decoded := decode(uri)
		if decoded == uri {
			break
		}
		uri = decoded
	}
	return slices.ContainsFunc(forms, func(form string) bool { return glob.Any(patterns, form) })
}

// trim returns text without the characters that parsers of URLs remove: spaces and control characters at both ends, and
// tabs and line breaks anywhere.
func trim(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
}

// spellings returns a URI as resolve writes it, and the URIs that servers may take it for because of its authority.
// Many servers use only the path of a file URI, whatever its authority is, or take the authority for the first segment
// of the path. If anyHost is false, an authority is left out only if it names this computer.
func spellings(uri string, anyHost bool) []string {
	all := []string{uri}
	name := scheme(uri)
	if strings.HasPrefix(uri, "/") { // a path, perhaps of a file
		name, uri = "file", "file:"+uri
	}
	if name == "" {
		return all
	}
	rest, hasAuthority := strings.CutPrefix(uri[len(name):], "://")
	switch {
	case !hasAuthority && name == "file": // file:a is the same as file:///a for some parsers
		return append(all, drive("/"+strings.TrimLeft(rest[1:], "/")))
	case !hasAuthority:
		return all
	}
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i+1:]
	}
	host = strings.TrimSuffix(host, ".")
	if name != "file" {
		if port != "" && port != defaultPorts[name] {
			host += ":" + port
		}
		return append(all, name+"://"+host+path)
	}
	if authority != "" {
		all = append(all, drive("/"+authority+path))
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if anyHost || host == "" || host == "localhost" || err == nil && (address.IsLoopback() || address.IsUnspecified()) {
		all = append(all, drive(path))
	}
	return all
}

// drive returns the file URI of a path, with one spelling of the letter of a drive.
func drive(path string) string {
	if len(path) >= 3 && letter(path[1]) && (path[2] == ':' || path[2] == '|') {
		path = "/" + strings.ToUpper(path[1:2]) + ":" + path[3:]
	}
	return "file://" + path
}

// defaultPorts lists the ports that a URI may omit.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// separators separate parts of URIs; a backslash does so for some servers.
const separators = `/\:;?#&=`

// errAmbiguous is the error of Within for a URI that servers may resolve in different ways.
var errAmbiguous = errors.New("cannot compare the URI: it must be valid, must not have dot segments or encoded " +
	"separators, and a file URI must have the authority of the directory")

// Within reports whether the path of a URI equals the path of a directory or lies below it, and both have the same
// scheme and authority. It returns an error if that depends on how a server reads the URI: many use only the path of
// a file URI.
func Within(uri, directory string) (bool, error) {
	if !valid(uri) || !valid(directory) || HasDots(uri) || HasDots(directory) || decode(uri) != decodeOnce(uri, false) {
		return false, errAmbiguous
	}
	if below(canonical(decode(uri)), canonical(decode(directory))) {
		return true, nil
	}
	for _, dir := range spellings(resolve(directory), false) {
		if slices.ContainsFunc(spellings(resolve(uri), true), func(u string) bool { return below(u, dir) }) {
			return false, errAmbiguous
		}
	}
	return false, nil
}

// below reports whether a URI names a directory or something below it.
func below(uri, dir string) bool {
	uri, _, _ = strings.Cut(uri, "?")
	uri, _, _ = strings.Cut(uri, "#")
	return uri == dir || strings.HasPrefix(uri, strings.TrimSuffix(dir, "/")+"/")
}

// HasScheme reports whether text begins with a scheme, as every URI does. A single letter is the drive of a
// Windows path.
func HasScheme(text string) bool { return len(scheme(text)) > 1 }

func scheme(text string) string {
	name, _, found := strings.Cut(text, ":")
	if !found || name == "" || !letter(name[0]) {
		return ""
	}
	for _, c := range []byte(name) {
		if !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune("+-.", rune(c)) {
			return ""
		}
	}
	return name
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// valid reports whether text has a scheme, and only characters that a URI, an internationalized URI or a template may
// contain.
func valid(text string) bool {
	if scheme(text) == "" {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"<>\\^`|", c) >= 0:
			return false
		case c == '%':
			if _, ok := escape(text[i:]); !ok {
				return false
			}
		}
	}
	return true
}

// HasDots reports whether text, decoded any number of times, contains the segments . or .. in a path, or .. anywhere.
// It also reports true if the decoded text contains control characters, because they end a path for some servers.
func HasDots(text string) bool {
	for range maxDecodings {
		path, rest := text, ""
		if end := strings.IndexAny(text, "?#"); end >= 0 {
			path, rest = text[:end], text[end:]
		}
		if slices.Contains(segments(path), ".") || slices.Contains(segments(text), "..") ||
			slices.Contains(segments(rest), "..") ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return true
		}
		decoded := decode(text)
		if decoded == text {
			return false
		}
		text = decoded
	}
	return true // encoded more often than a server decodes
}

// segments splits a URI at all separators, and trims spaces from the parts.
func segments(text string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) })
	for i, part := range parts {
		parts[i] = strings.Trim(part, " ")
	}
	return parts
}

// escape returns the byte of the percent-encoding at the beginning of text.
func escape(text string) (byte, bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	var value byte
	for _, c := range []byte(text[1:3]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		value = value<<4 | c
	}
	return value, true
}

// decode decodes percent-encoding.
func decode(text string) string { return decodeOnce(text, true) }

// decodeOnce decodes percent-encoding, or only the encoding of characters other than separators and the
// percent sign.
func decodeOnce(text string, all bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, ok := escape(text[i:])
		if !ok || !all && strings.IndexByte(separators+"%", c) >= 0 {
			b.WriteByte(text[i])
			continue
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

// normalize returns text with a scheme and host in lower case, and unreserved characters not encoded. The gateway
// compares URIs in another form.
func normalize(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, ok := escape(text[i:])
		switch {
		case !ok:
			b.WriteByte(text[i])
			continue
		case letter(c) || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString(strings.ToUpper(text[i : i+3]))
		}
		i += 2
	}
	text = b.String()
	name := scheme(text)
	rest := text[len(name):]
	if !strings.HasPrefix(rest, "://") {
		return strings.ToLower(name) + rest
	}
	end := len("://") + strings.IndexAny(rest[len("://"):]+"/", "/?#")
	user := strings.LastIndexByte(rest[:end], '@') + 1
	return strings.ToLower(name) + rest[:user] + strings.ToLower(rest[user:end]) + rest[end:]
}

// resolve returns the normal form of text with its characters decoded, and without backslashes, dot segments and
// empty segments.
func resolve(text string) string {
	text, query := strings.ReplaceAll(decode(normalize(text)), `\`, "/"), ""
	if end := strings.IndexAny(text, "?#"); end >= 0 && !strings.ContainsAny(text[end:], `/`) {
		text, query = text[:end], text[end:]
	}
	text = canonical(text)
	start := len(scheme(text)) + 1
	if start == 1 {
		return text + query
	}
	authority := ""
	if strings.HasPrefix(text[start:], "//") {
		end := start + 2 + strings.IndexByte(text[start+2:]+"/", '/')
		authority, start = text[start:end], end
	}
	var kept []string
	all := strings.Split(text[start:], "/")
	for i, segment := range all {
		name, _, _ := strings.Cut(segment, ";")
		switch {
		case name == "..":
			kept = kept[:max(0, len(kept)-1)]
		case name == "." || name == "" && i < len(all)-1:
		default:
			kept = append(kept, segment)
		}
	}
	head := text[:start-len(authority)] + authority
	if strings.HasPrefix(text[start:], "/") {
		head += "/"
	}
	return head + strings.Join(kept, "/") + query
}

// canonical returns text in its normal form. The beginning of a file URI of this computer, which can be written in
// several ways, is always written in the same way.
func canonical(text string) string {
	text = normalize(text)
	path, found := strings.CutPrefix(text, "file:")
	if !found || !strings.HasPrefix(path, "/") {
		return text
	}
	path = strings.TrimPrefix(path, "//localhost/")
	if strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") { // another computer
		return text
	}
	return "file:///" + strings.TrimLeft(path, "/")
}
