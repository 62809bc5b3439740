package schema

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// isURI reports whether s is a URI or, unless absolute is set, a relative reference
// of RFC 3986. With international set it is an IRI (RFC 3987), in which any
// character beyond ASCII may occur.
func isURI(s string, absolute, international bool) bool {
	if scheme, rest, ok := strings.Cut(s, ":"); ok && isScheme(scheme) {
		s = rest
	} else if absolute || ok && !strings.ContainsAny(scheme, "/?#") {
		return false // the first segment of a relative path has no colon
	}
	s, fragment, _ := strings.Cut(s, "#")
	s, query, _ := strings.Cut(s, "?")
	if rest, ok := strings.CutPrefix(s, "//"); ok {
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		if !isAuthority(rest[:end], international) {
			return false
		}
		s = rest[end:]
	}
	return hasURICharacters(s, ":@/", international) && hasURICharacters(query, ":@/?", international) &&
		hasURICharacters(fragment, ":@/?", international)
}

func isScheme(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case isLetter(b):
		case i > 0 && (isDigit(b) || b == '+' || b == '-' || b == '.'):
		default:
			return false
		}
	}
	return s != ""
}

func isAuthority(s string, international bool) bool {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		if !hasURICharacters(s[:at], ":", international) {
			return false
		}
		s = s[at+1:]
	}
	host, port := s, ""
	if literal, ok := strings.CutPrefix(s, "["); ok {
		end := strings.IndexByte(literal, ']')
		if end < 0 || !isIPLiteral(literal[:end]) {
			return false
		}
		host, port = "", literal[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	} else if colon := strings.LastIndexByte(s, ':'); colon >= 0 {
		host, port = s[:colon], s[colon+1:]
	}
	return hasURICharacters(host, "", international) && strings.Trim(port, "0123456789") == ""
}

func isIPLiteral(s string) bool {
	if version, ok := strings.CutPrefix(s, "v"); ok {
		digits, address, ok := strings.Cut(version, ".")
		return ok && digits != "" && address != "" && strings.Trim(digits, "0123456789abcdefABCDEF") == "" &&
			hasURICharacters(address, ":", false)
	}
	address, err := netip.ParseAddr(s)
	return err == nil && address.Is6() && address.Zone() == ""
}

// hasURICharacters reports whether s consists of percent-encoded bytes and of
// characters that are unreserved, a sub-delimiter or in more.
func hasURICharacters(s, more string, international bool) bool {
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case isLetter(b), isDigit(b), strings.IndexByte("-._~!$&'()*+,;=", b) >= 0, strings.IndexByte(more, b) >= 0:
		case b == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		case b >= utf8.RuneSelf && international:
		default:
			return false
		}
	}
	return true
}

// isURITemplate reports whether s is a URI Template of RFC 6570.
func isURITemplate(s string) bool {
	for s != "" {
		literal, rest, ok := strings.Cut(s, "{")
		if !isTemplateLiteral(literal) {
			return false
		}
		if !ok {
			return true
		}
		expression, after, ok := strings.Cut(rest, "}")
		if !ok || !isTemplateExpression(expression) {
			return false
		}
		s = after
	}
	return true
}

// isTemplateLiteral reports whether s is literals of RFC 6570, section 2.1.
func isTemplateLiteral(s string) bool {
	for _, r := range s {
		if r >= utf8.RuneSelf && !httpurl.IsInternational(r) {
			return false
		}
	}
	for i := range len(s) {
		switch b := s[i]; {
		case b == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
		case b <= ' ', b == 0x7f, strings.IndexByte(`"'<>\^`+"`{|}", b) >= 0:
			return false
		}
	}
	return true
}

func isTemplateExpression(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&=,!@|", s[0]) >= 0 {
		s = s[1:]
	}
	for variable := range strings.SplitSeq(s, ",") {
		name, prefix, hasPrefix := strings.Cut(variable, ":")
		if hasPrefix {
			if prefix == "" || len(prefix) > 4 || prefix[0] == '0' || strings.Trim(prefix, "0123456789") != "" {
				return false
			}
		} else {
			name = strings.TrimSuffix(name, "*")
		}
		for part := range strings.SplitSeq(name, ".") {
			if part == "" || !hasNameCharacters(part) {
				return false
			}
		}
	}
	return true
}

func hasNameCharacters(s string) bool {
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case isLetter(b), isDigit(b), b == '_':
		case b == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}
