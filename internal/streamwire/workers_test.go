package streamwire_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
)

// goroutineID returns the number of the calling goroutine.
func goroutineID() string {
	buf := make([]byte, 64)
	return strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1]
}

// countWorkers returns the number of goroutines that serve requests or wait for them.
func countWorkers() int { return goroutinesIn("(*connection).work") }

func TestIdleWorkersServeTheNextRequests(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		var served []string
		p := connect(t, newServer(handlers{"slow": func(context.Context, *rpc.Call) (any, error) {
			time.Sleep(10 * time.Millisecond)
			served = append(served, goroutineID())
			return text("slow")
		}}))
		e.begin(p)
		call := func() {
			p.send(e.call("1", "slow", "{}"))
			p.want(e.reply("1", "slow"))
			synctest.Wait()
		}
		call()
		call()
		if served[0] != served[1] {
			t.Error("a new goroutine was started while a worker was idle")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := countWorkers(); n != 0 {
			t.Errorf("%d workers are left after they were idle for 2 s", n)
		}
		call()
	})
}

func TestIdleWorkersAreLimited(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		s.MaxInflight = 100
		p := connect(t, s)
		e.begin(p)
		for id := range s.MaxInflight {
			p.send(e.call(fmt.Sprint(id), "block", "{}"))
			<-b.started
		}
		close(b.proceed)
		for range s.MaxInflight {
			p.receive()
		}
		synctest.Wait()
		if n := countWorkers(); n != 64 {
			t.Errorf("%d workers are idle, not 64", n)
		}
	})
}

func TestWorkersEndWithTheirConnection(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		e.begin(p)
		p.send(e.call("1", "block", "{}"))
		<-b.started
		close(b.proceed)
		p.want(e.reply("1", "released"))
		synctest.Wait()
		begin := time.Now()
		p.conn.Close()
		if err := p.ended(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("the end of the connection waits %v for idle workers", d)
		}
		if n := countWorkers(); n != 0 {
			t.Errorf("%d workers are left after the end of their connection", n)
		}
	})
}
