//go:build unix

package transport_test

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/transport"
)

func wantSignal(t *testing.T, p *transport.Process, want os.Signal) {
	t.Helper()
	var exit *transport.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.Signal != want || exit.Code != -1 {
		t.Fatalf("the process ended with %v, want signal %v", err, want)
	}
}

// S3: its input is closed, and it has been given time.
func TestAServerThatIgnoresTheEndOfItsInputIsTerminated(t *testing.T) {
	life := newLifeline(t)
	p := start(t, as("deaf", life.env()))
	wantMessage(t, p, "ready")
	closeWithin(t, p, 2*time.Second)
	wantSignal(t, p, syscall.SIGTERM)
	life.gone(life.born(1))
}

// S3: the last step.
func TestAServerThatIgnoresSIGTERMIsKilled(t *testing.T) {
	life := newLifeline(t)
	p := start(t, as("stubborn", life.env()))
	wantMessage(t, p, "ready")
	closeWithin(t, p, 2*time.Second)
	wantSignal(t, p, syscall.SIGKILL)
	life.gone(life.born(1))
}

func TestAServerThatIsStoppedIsKilled(t *testing.T) {
	life := newLifeline(t)
	p := start(t, as("deaf", life.env()))
	wantMessage(t, p, "ready")
	syscall.Kill(p.Pid(), syscall.SIGSTOP) // it cannot even receive SIGTERM now
	closeWithin(t, p, 2*time.Second)
	wantSignal(t, p, syscall.SIGKILL)
	life.gone(life.born(1))
}

func TestNoDescriptorIsLeftOpen(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cycle := func() {
		p := start(t, as("echo"))
		send(t, p, "{}")
		wantMessage(t, p, "{}")
		p.Close()
		if _, err := transport.Command(transport.CommandOptions{Path: "/no/such/program"}); err == nil {
			t.Fatal("it started")
		}
	}
	cycle() // opens what the runtime keeps for itself
	before := count()
	for range 5 {
		cycle()
	}
	if after := count(); after != before {
		t.Fatalf("%d descriptors became %d", before, after)
	}
}

func TestGrandchildrenDoNotOutliveClose(t *testing.T) {
	life := newLifeline(t)
	opts := as("leave:on EOF", life.env())
	opts.ExitGrace = patience
	p := start(t, opts)
	wantMessage(t, p, "grandchild ready")
	family := life.born(2)
	closeWithin(t, p, patience/2)
	life.gone(family)
	if err := p.Err(); err != nil {
		t.Fatalf("the server itself exited cleanly, but: %v", err)
	}
}

func TestGrandchildrenDoNotOutliveAServerThatExits(t *testing.T) {
	life := newLifeline(t)
	p := start(t, as("leave:at once", life.env()))
	family := life.born(2)
	life.gone(family) // without any Close
	<-p.Done()
	for {
		if _, err := p.Read(soon(t)); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("Read: %v, want io.EOF", err)
		}
	}
	closeWithin(t, p, time.Second)
}

func TestAProcessThatLeftTheGroupDoesNotHoldUpAnything(t *testing.T) {
	life := newLifeline(t)
	p := start(t, as("daemon", life.env()))
	family := life.born(2)
	wantMessage(t, p, "grandchild ready")
	<-p.Done()
	// Somebody holds all three pipes, and yet they are at their end.
	if _, err := p.Read(soon(t)); err != io.EOF {
		t.Fatalf("Read: %v, want io.EOF", err)
	}
	if err := p.Write(soon(t), []byte("{}")); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("Write: %v, want os.ErrProcessDone", err)
	}
	closeWithin(t, p, time.Second)
	for _, conn := range family {
		conn.Close() // upon which it exits
	}
}

func TestAServerKilledBySomebodyElseIsAtItsEnd(t *testing.T) {
	p := start(t, as("kill yourself"))
	if _, err := p.Read(soon(t)); err != io.EOF {
		t.Fatalf("Read: %v, want io.EOF", err)
	}
	wantSignal(t, p, syscall.SIGKILL)
}

// The thread that starts a child must not end before the child: on Linux that would end the child too.
func TestAChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	var p *transport.Process
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		p = start(t, as("echo"))
	})
	wg.Wait()
	for range 20 { // so that the thread is gone for certain
		var threads sync.WaitGroup
		threads.Go(func() { runtime.LockOSThread() })
		threads.Wait()
		send(t, p, "{}")
		wantMessage(t, p, "{}")
	}
}

func TestAServerDoesNotOutliveAClientThatIsKilled(t *testing.T) {
	for _, role := range []string{"deaf", "echo"} {
		t.Run(role, func(t *testing.T) {
			if role == "deaf" && runtime.GOOS != "linux" {
				return // elsewhere the end of the input is all that the child learns
			}
			life := newLifeline(t)
			p := start(t, as("host:"+role, life.env()))
			if role == "deaf" {
				wantMessage(t, p, "ready")
			}
			family := life.born(2)
			syscall.Kill(p.Pid(), syscall.SIGKILL)
			life.gone(family)
		})
	}
}
