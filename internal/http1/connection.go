package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// connection is a connection to a server. It has one request at a time.
type connection struct {
	t       *Transport
	address string
	conn    net.Conn
	raw     syscall.RawConn
	peek    func(fd uintptr) bool // for raw; sets open
	open    bool
	reader  *bufio.Reader // of input
	writer  *bufio.Writer // of output
	left    int64         // bytes that may be read before the end of the header
	sent    int64         // bytes of the request
	since   time.Time     // since when it is idle
}

// newConnection returns nil if the connection cannot tell whether the server has closed it.
func newConnection(t *Transport, address string, conn net.Conn) *connection {
	system, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return nil
	}
	c := &connection{t: t, address: address, conn: conn, raw: raw}
	c.reader, c.writer = bufio.NewReader(input{c}), bufio.NewWriter(output{c})
	c.peek = func(fd uintptr) bool {
		c.open = isOpen(fd)
		return true
	}
	return c
}

// isOpen reports whether an idle connection can be used: the server has neither closed it nor sent anything.
func (c *connection) isOpen() bool {
	return c.raw.Read(c.peek) == nil && c.open
}

// input reads from the connection, within the limit of the header.
type input struct{ *connection }

var errLargeHeader = errors.New("http1: the header of the response is too large")

// Read implements io.Reader.
func (c input) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLargeHeader
	}
	n, err := c.conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// output writes to the connection and counts the bytes.
type output struct{ *connection }

// Write implements io.Writer.
func (c output) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	c.sent += int64(n)
	return n, err
}

// exchange sends a request and returns its response. The connection belongs to the body of the response then, until that ends.
func (c *connection) exchange(req *http.Request) (*http.Response, error) {
	b := &body{c: c, ctx: req.Context()}
	b.stop = context.AfterFunc(b.ctx, b.abort)
	resp, err := c.do(req)
	if err != nil {
		b.Close()
		return nil, err
	}
	b.isLast, b.content = resp.Close || resp.StatusCode < http.StatusOK, resp.Body
	if resp.Body == http.NoBody {
		b.end()
	} else {
		resp.Body = b
	}
	return resp, nil
}

// mayRepeat reports whether a request that has failed with err on a connection that was idle may be sent again: nothing was sent, or
// it is a GET request and nothing was received.
func (c *connection) mayRepeat(req *http.Request, err error) bool {
	received := c.left < c.t.base.MaxResponseHeaderBytes
	return req.Context().Err() == nil && !errors.Is(err, errBody) && (c.sent == 0 || req.Method == http.MethodGet && !received)
}

// do writes a request and reads the header of its response.
func (c *connection) do(req *http.Request) (*http.Response, error) {
	c.sent, c.left = 0, c.t.base.MaxResponseHeaderBytes // the limit of all informational responses (1xx) together
	broken := c.write(req)
	if broken != nil && (c.sent == 0 || !errors.Is(broken, syscall.ECONNRESET) && !errors.Is(broken, syscall.EPIPE)) {
		return nil, fmt.Errorf("write the request: %w", broken)
	}
	for { // also if the server has closed the connection: it may have responded to a part of the request
		resp, err := http.ReadResponse(c.reader, req)
		switch {
		case err != nil && broken != nil:
			return nil, fmt.Errorf("write the request: %w", broken)
		case err != nil:
			return nil, fmt.Errorf("read the response: %w", err)
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("http1: the server switches protocols, which the request does not allow")
		case resp.StatusCode < http.StatusContinue || resp.StatusCode >= http.StatusOK:
			c.left = math.MaxInt64
			resp.Close = resp.Close || broken != nil
			return resp, nil
		}
	}
}

// write writes a request that addressOf has accepted, and closes its body.
func (c *connection) write(req *http.Request) error {
	if req.Body != nil {
		defer req.Body.Close()
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	w := c.writer
	for _, text := range [...]string{req.Method, " ", req.URL.RequestURI(), " HTTP/1.1\r\nHost: ", host, "\r\nUser-Agent: Go-http-client/1.1\r\n"} {
		w.WriteString(text)
	}
	if req.Header["Accept-Encoding"] == nil { // otherwise, the server may choose
		w.WriteString("Accept-Encoding: identity\r\n")
	}
	if hasBody(req) || req.Method == http.MethodPost {
		length := int64(0)
		if hasBody(req) {
			length = req.ContentLength
		}
		w.WriteString("Content-Length: ")
		w.Write(strconv.AppendInt(w.AvailableBuffer(), length, 10))
		w.WriteString("\r\n")
	}
	for name, values := range req.Header {
		for _, value := range values {
			for _, text := range [...]string{name, ": ", value, "\r\n"} {
				w.WriteString(text)
			}
		}
	}
	w.WriteString("\r\n")
	if hasBody(req) {
		if err := c.writeBody(req); err != nil {
			return err
		}
	}
	return w.Flush()
}

// errBody means that the body of a request does not have the announced length, or that it cannot be read.
var errBody = errors.New("http1: the body of the request")

func (c *connection) writeBody(req *http.Request) error {
	n, err := io.Copy(c.writer, io.LimitReader(req.Body, req.ContentLength))
	if _, lost := c.writer.Write(nil); lost != nil { // the error of an earlier write
		return lost
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w cannot be read: %w", errBody, err)
	case n < req.ContentLength:
		return fmt.Errorf("%w has %d bytes instead of %d", errBody, n, req.ContentLength)
	}
	var more [1]byte
	if n, _ := req.Body.Read(more[:]); n > 0 {
		return fmt.Errorf("%w has more than %d bytes", errBody, req.ContentLength)
	}
	return nil
}
