package httpserver

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
)

// isJSON reports whether the values of a Content-Type header are one JSON media type in
// UTF-8.
func isJSON(contentType []string) bool {
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(contentType[0])
	charset, hasCharset := params["charset"]
	return err == nil && kind == "application/json" && (!hasCharset || strings.EqualFold(charset, "utf-8"))
}

// isUnencoded reports whether the values of a Content-Encoding header are empty or name no
// coding but identity.
func isUnencoded(codings []string) bool {
	for _, v := range codings {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}

// accepts reports whether the Accept header allows a media type, by name or by range.
// Without the header, all media types are allowed.
func accepts(h http.Header, mediaType string) bool {
	values := h["Accept"]
	if len(values) == 0 || values[0] == httpcodec.AcceptBoth[0] { // the form in the specification, which most clients send
		return true
	}
	major, _, _ := strings.Cut(mediaType, "/")
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			kind = strings.TrimSpace(kind)
			if (strings.EqualFold(kind, mediaType) || kind == "*/*" || strings.EqualFold(kind, major+"/*")) && !isZeroQuality(params) {
				return true
			}
		}
	}
	return false
}

// isZeroQuality reports whether the parameters of a media range include a quality of 0,
// which excludes the range (RFC 9110, section 12.4.2).
func isZeroQuality(params string) bool {
	if params == "" {
		return false
	}
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}
