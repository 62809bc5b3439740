package transport_test

import (
	"io"
	"testing"

	"github.com/parley-mcp/parley/transport"
)

func TestWriteDoesNotAllocate(t *testing.T) {
	conn := transport.StreamOf(readOnly{stuck{}}, io.Discard, func() error { return nil })
	defer conn.Close()
	ctx := timeoutContext(t)
	if n := testing.AllocsPerRun(1000, func() {
		if err := conn.Write(ctx, callMessage); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("Write allocates %v times", n)
	}
}

func TestPipeAllocatesOncePerMessage(t *testing.T) {
	a, b := transport.Pipe()
	defer a.Close()
	defer b.Close()
	ctx := timeoutContext(t)
	if n := testing.AllocsPerRun(1000, func() {
		if err := a.Write(ctx, callMessage); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Fatalf("a message allocates %v times", n)
	}
}
