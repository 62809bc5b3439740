//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is a connection that is kept alive, as a user of k6 uses it. It is cheap, because it shares its CPU with the
// services.
type conn struct {
	addr string
	nc   net.Conn
	r    *bufio.Reader
	body []byte // of the last response
}

type reply struct {
	status  int
	session string
	body    []byte // valid until the next request
}

// do sends a request and reads the whole response. After an error the next request uses a new connection.
func (c *conn) do(request []byte) (reply, error) {
	if c.nc == nil {
		nc, err := net.Dial("tcp", c.addr)
		if err != nil {
			return reply{}, err
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		c.nc, c.r = nc, bufio.NewReaderSize(nc, 16<<10)
	}
	r, closing, err := c.exchange(request)
	if err != nil || closing {
		c.close()
	}
	return r, err
}

func (c *conn) close() {
	if c.nc != nil {
		_ = c.nc.Close()
		c.nc = nil
	}
}

// patience bounds an iteration.
const patience = 30 * time.Second

func (c *conn) beginIteration() {
	if c.nc != nil {
		_ = c.nc.SetDeadline(time.Now().Add(patience))
	}
}

func (c *conn) exchange(request []byte) (r reply, closing bool, err error) {
	if _, err := c.nc.Write(request); err != nil {
		return r, true, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return r, true, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return r, true, fmt.Errorf("not a response: %q", line)
	}
	r.status, _ = strconv.Atoi(string(line[9:12]))
	length, chunked := -1, false
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return r, true, err
		}
		name, value, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if !found {
			break // the empty line
		}
		value = bytes.TrimSpace(value)
		switch len(name) {
		case len("Content-Length"): // Mcp-Session-Id is as long
			if bytes.EqualFold(name, []byte("Content-Length")) {
				length, _ = strconv.Atoi(string(value))
			} else if bytes.EqualFold(name, []byte("Mcp-Session-Id")) {
				r.session = string(value)
			}
		case len("Transfer-Encoding"):
			chunked = chunked ||
				bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(value, []byte("chunked"))
		case len("Connection"):
			closing = closing || bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close"))
		}
	}
	c.body = c.body[:0]
	switch {
	case r.status == 204 || r.status == 304:
	case chunked:
		err = c.chunks()
	case length >= 0:
		err = c.read(length)
	default:
		err = errors.New("response without a length")
	}
	r.body = c.body
	return r, closing, err
}

func (c *conn) chunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return err
		}
		if err := c.read(int(n)); err != nil {
			return err
		}
		if _, err := c.r.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// read appends n bytes to the body.
func (c *conn) read(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

// message returns the JSON of a body. In an event stream it is the data of the first event that contains an object.
func message(body []byte) []byte {
	if b := bytes.TrimSpace(body); len(b) > 0 && b[0] == '{' {
		return b
	}
	for line := range bytes.Lines(body) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
				return data
			}
		}
	}
	return nil
}
