package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/childenv"
	"github.com/parley-mcp/parley/internal/httpguard"
	"github.com/parley-mcp/parley/transport"
)

// outputGrace is the time for output after the server has exited, which a process that it has started can write.
const outputGrace = 2 * time.Second

// tapProgram is a server that is a program, between In and Out.
type tapProgram struct {
	// Server is the program. Its Path, Args, Dir, Env and InheritEnv are used.
	Server transport.CommandOptions
	// In and Out are the client. Run closes Out when the output of the server ends, and In, if it is an
	// io.Closer, when the server reads no more.
	In  io.Reader
	Out io.WriteCloser
	// Stderr receives the standard error of the server. The server writes directly to an *os.File.
	Stderr io.Writer
	// Signals are sent to the server. May be nil.
	Signals <-chan os.Signal
	// Report receives each line of both directions before it is forwarded, possibly concurrently. A message is
	// valid until Report returns.
	Report func(recording.Event)
}

// Run starts the server, forwards until it has exited, and returns its exit code: 128 and the number of the
// signal if one has ended it. The error is of the start. When Run returns, a read of In may still be blocked.
func (c *tapProgram) Run() (code int, err error) {
	cmd := exec.Command(c.Server.Path, c.Server.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.Server.Dir, childenv.New(c.Server.InheritEnv, c.Server.Env), c.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	output, childOutput, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, stdin.Close())
	}
	cmd.Stdout = childOutput
	err = cmd.Start()
	childOutput.Close()
	if err != nil { // Start has closed stdin
		output.Close()
		return 0, err
	}

	go func() {
		readAll := c.forward(stdin, c.In, recording.Client)
		_ = stdin.Close()
		if in, ok := c.In.(io.Closer); ok && !readAll {
			_ = in.Close() // the client finds out that the server does not read
		}
	}()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.forward(c.Out, output, recording.Server)
		_ = c.Out.Close()
		_ = output.Close() // after a failed write, the next write of the server fails
	}()
	exited := make(chan struct{})
	var signalling sync.WaitGroup
	signalling.Go(func() {
		for {
			select {
			case s := <-c.Signals:
				_ = cmd.Process.Signal(s)
			case <-exited:
				return
			}
		}
	})

	err = cmd.Wait()
	close(exited)
	signalling.Wait()
	select {
	case <-written:
	case <-time.After(outputGrace):
		_ = output.Close()
		<-written
	}
	return exitCode(cmd.ProcessState, err)
}

// exitCode returns the exit code of a process that has ended.
func exitCode(state *os.ProcessState, err error) (int, error) {
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("cannot wait for the server: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// forward copies lines from r to w until one of them ends, and reports them. It reports whether r has ended.
func (c *tapProgram) forward(w io.Writer, r io.Reader, from recording.Side) (readAll bool) {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), recording.MaxMessage+1-len(line))]...)
		ended := !errors.Is(err, bufio.ErrBufferFull)
		if message := bytes.TrimSuffix(line, []byte("\n")); ended && len(message) > 0 {
			c.Report(recording.Event{From: from, Wire: recording.Stdio, Message: message})
		}
		if ended {
			line = line[:0]
		}
		if ended && err != nil {
			c.Report(recording.Event{From: from, Wire: recording.Stdio, End: true})
		}
		if len(part) > 0 {
			if _, err := w.Write(part); err != nil {
				return false
			}
		}
		if ended && err != nil {
			return true
		}
	}
}

// tapProxy forwards every request to the origin of a URL, whatever its path, and reports requests and responses. The
// bodies are unchanged, except that the endpoint event of HTTP+SSE and redirects name the proxy instead of the
// server if they name the server. It is safe for concurrent use.
type tapProxy struct {
	Target *url.URL    // of the server
	Header http.Header // set in every request
	// Hosts and Origins are the accepted values of the Host and Origin headers; see server.Server.AllowedHosts and
	// AllowedOrigins. The server answers the questions of browsers.
	Hosts, Origins []string
	// Transport sends the requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Report receives the events, possibly concurrently. A message is valid until Report returns.
	Report func(recording.Event)
}

// Handler returns the handler. As servers do, it rejects requests that web pages of other origins have caused, and
// those that a page can send without the permission of the other origin, whose bodies are not JSON.
func (p *tapProxy) Handler() http.Handler {
	target := p.Target.Scheme + "://" + p.Target.Host
	proxy := &httputil.ReverseProxy{
		Transport:      &recording.Transport{Base: p.Transport, Report: p.Report},
		FlushInterval:  -1, // at once
		ErrorLog:       log.New(io.Discard, "", 0),
		Rewrite:        func(r *httputil.ProxyRequest) { p.rewrite(r, target) },
		ModifyResponse: func(resp *http.Response) error { return nameProxy(resp, target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "cannot reach the server: "+err.Error(), http.StatusBadGateway)
		},
	}
	guard := &httpguard.Guard{Hosts: p.Hosts, Origins: p.Origins}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := guard.Check(r); err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), hostKey{}, r.Host))
		if readBody(r) == nil {
			proxy.ServeHTTP(w, r)
		}
	})
}

// readBody reads the body of a request before it is sent, unless it is longer than a message. Otherwise the server
// of net/http could close the body, when the response begins, before the end of the body has been read; the
// connection to the server would break.
func readBody(r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, recording.MaxMessage))
	if err != nil {
		return err
	}
	if len(body) == recording.MaxMessage {
		r.Body = readCloser{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// hostKey is the key of the Host header of the client in the context of a request.
type hostKey struct{}

// rewrite sets the fields of the request for the server.
func (p *tapProxy) rewrite(r *httputil.ProxyRequest, target string) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = p.Target.Scheme, p.Target.Host, p.Target.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header[name]; values != nil { // which ReverseProxy has removed
			r.Out.Header[name] = values
		}
	}
	if origin := r.In.Header.Get("Origin"); origin == "http://"+r.In.Host { // a page of the proxy's origin
		r.Out.Header.Set("Origin", target)
	}
	r.Out.Header.Set("Accept-Encoding", "identity") // compressed messages cannot be shown
	for name, values := range p.Header {
		r.Out.Header[name] = values
	}
}

// nameProxy changes the URLs of a response that the client must request through the proxy. Clients name
// the proxy in the Host header.
func nameProxy(resp *http.Response, target string) error {
	proxy := "http://" + resp.Request.Context().Value(hostKey{}).(string)
	if location, ok := cutOrigin(resp.Header.Get("Location"), target); ok {
		resp.Header.Set("Location", proxy+location)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "text/event-stream" &&
		resp.Request.Method == http.MethodGet {
		resp.Body = &endpointReader{Closer: resp.Body, in: bufio.NewReaderSize(resp.Body, maxEndpoint), target: target,
			proxy: proxy}
	}
	return nil
}

// cutOrigin removes the origin of the server from a URL.
func cutOrigin(text, origin string) (path string, ok bool) {
	path, ok = strings.CutPrefix(text, origin)
	return path, ok && (path == "" || strings.ContainsAny(path[:1], "/?#"))
}

// endpointReader reads an event stream. It changes the URL in the endpoint event, which is the first event with
// data. The rest is unchanged.
type endpointReader struct {
	io.Closer
	in            *bufio.Reader
	target, proxy string // origins

	passed     bool // the first event
	isEndpoint bool
	ready      []byte // to be returned
}

// maxEndpoint is the limit of a line that endpointReader changes, in bytes.
const maxEndpoint = 8 << 10

// Read implements io.Reader.
func (r *endpointReader) Read(p []byte) (int, error) {
	if len(r.ready) == 0 && !r.passed {
		line, err := r.in.ReadSlice('\n')
		r.passed = err != nil
		r.ready = []byte(r.changed(string(line)))
		if len(line) == 0 {
			return 0, err
		}
	}
	if len(r.ready) == 0 {
		return r.in.Read(p)
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// changed returns a line, with its end, in which the URL of an endpoint names the proxy.
func (r *endpointReader) changed(line string) string {
	field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "event":
		r.isEndpoint = value == "endpoint"
		r.passed = r.passed || !r.isEndpoint
	case "data":
		r.passed = true
		if path, ok := cutOrigin(value, r.target); ok && r.isEndpoint {
			return strings.Replace(line, value, r.proxy+path, 1)
		}
	}
	return line
}
