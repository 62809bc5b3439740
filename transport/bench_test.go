package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

var callMessage = []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo",` +
	`"arguments":{"text":"` + string(bytes.Repeat([]byte("x"), 200)) + `"}}}`)

func systemPipes(b *testing.B) (x, y duplex) {
	r1, w1, err := os.Pipe()
	must.Do(b, err)
	r2, w2, err := os.Pipe()
	must.Do(b, err)
	return duplex{r1, w2}, duplex{r2, w1}
}

func roundTrips(b *testing.B, x, y transport.Conn) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer x.Close()
	go func() {
		defer y.Close()
		for {
			msg, err := y.Read(ctx)
			if err != nil {
				return
			}
			if err := y.Write(ctx, msg); err != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, x.Write(ctx, callMessage))
		must.Do(b, must.Err(x.Read(ctx)))
	}
}

func BenchmarkPipeRoundTrip(b *testing.B) {
	x, y := transport.Pipe()
	roundTrips(b, x, y)
}

func BenchmarkStreamRoundTrip(b *testing.B) {
	x, y := systemPipes(b)
	roundTrips(b, transport.StreamOf(x.ReadCloser, x.w, x.Close), transport.StreamOf(y.ReadCloser, y.w, y.Close))
}

// The baseline of BenchmarkStreamRoundTrip: bufio on both sides, one flush per message.
func BenchmarkBufioRoundTrip(b *testing.B) {
	x, y := systemPipes(b)
	go func() {
		defer y.Close()
		r, w := bufio.NewReaderSize(y, 64<<10), bufio.NewWriterSize(y, 64<<10)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			w.Write(line)
			w.Flush()
		}
	}()
	defer x.Close()
	r, w := bufio.NewReaderSize(x, 64<<10), bufio.NewWriterSize(x, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		w.Write(callMessage)
		w.WriteByte('\n')
		w.Flush()
		must.Do(b, must.Err(r.ReadBytes('\n')))
	}
}

// 64 calls are in flight. Each message is answered by a new goroutine, as in a server.
func BenchmarkStream64InFlight(b *testing.B) {
	p, q := systemPipes(b)
	x, y := transport.StreamOf(p.ReadCloser, p.w, p.Close), transport.StreamOf(q.ReadCloser, q.w, q.Close)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer x.Close()
	go func() {
		defer y.Close()
		for {
			msg, err := y.Read(ctx)
			if err != nil {
				return
			}
			go y.Write(ctx, msg)
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	tokens := make(chan struct{}, 64)
	go func() {
		for range b.N {
			tokens <- struct{}{}
			if err := x.Write(ctx, callMessage); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	for range b.N {
		must.Do(b, must.Err(x.Read(ctx)))
		<-tokens
	}
}

func BenchmarkStreamWrite64Writers(b *testing.B) {
	for _, size := range []int{len(callMessage), 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := systemPipes(b)
			conn := transport.StreamOf(x.ReadCloser, x.w, x.Close)
			defer conn.Close()
			go io.Copy(io.Discard, onlyReader{y})
			defer y.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			msg := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := conn.Write(ctx, msg); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkStream1MiB(b *testing.B) {
	p, q := systemPipes(b)
	x, y := transport.StreamOf(p.ReadCloser, p.w, p.Close), transport.StreamOf(q.ReadCloser, q.w, q.Close)
	defer x.Close()
	defer y.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	msg := bytes.Repeat([]byte("x"), 1<<20)
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			x.Write(ctx, msg)
		}
	}()
	for range b.N {
		must.Do(b, must.Err(y.Read(ctx)))
	}
}

// The baseline of BenchmarkStream1MiB.
func BenchmarkBufio1MiB(b *testing.B) {
	x, y := systemPipes(b)
	defer x.Close()
	defer y.Close()
	msg := bytes.Repeat([]byte("x"), 1<<20)
	msg[len(msg)-1] = '\n'
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		w := bufio.NewWriterSize(x, 64<<10)
		for range b.N {
			w.Write(msg)
			w.Flush()
		}
	}()
	r := bufio.NewReaderSize(y, 64<<10)
	for range b.N {
		must.Do(b, must.Err(r.ReadBytes('\n')))
	}
}

type onlyReader struct{ io.Reader }
