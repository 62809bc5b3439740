package httpclient

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// codingError is the error of the body of a response with a content coding that the client cannot read.
type codingError struct{ coding string }

func (e *codingError) Error() string {
	return fmt.Sprintf("the response has the Content-Encoding %.40q, for which the client has not asked: the "+
		"server, or a proxy in front of it, must observe the Accept-Encoding of the request", e.coding)
}

// decode replaces the body of a response that has a content coding: some servers, and proxies in front of them,
// compress responses although the request does not accept that. Package net/http has already decoded gzip if it asked
// for it.
func decode(resp *http.Response) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ", ")))
	var open func(r *bufio.Reader) (io.Reader, error)
	switch coding {
	case "", "identity":
		return
	case "gzip", "x-gzip":
		open = func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = openDeflate
	default:
		open = func(*bufio.Reader) (io.Reader, error) { return nil, &codingError{coding} }
	}
	resp.Body = &decodedBody{ReadCloser: resp.Body, open: open}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	resp.Header.Del("Content-Encoding")
}

// openDeflate opens the coding deflate, which is the zlib format. Some servers send it without that (RFC 9110, section
// 8.4.1.2).
func openDeflate(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if err == nil && head[0]&0x0F == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// decodedBody is a body whose content coding is removed. Nothing is read before the first Read.
type decodedBody struct {
	io.ReadCloser
	open    func(*bufio.Reader) (io.Reader, error)
	decoded io.Reader // nil before the first Read
	err     error     // error of open
}

func (b *decodedBody) Read(p []byte) (int, error) {
	if b.decoded == nil && b.err == nil {
		b.decoded, b.err = b.open(bufio.NewReader(b.ReadCloser))
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.decoded.Read(p)
}
