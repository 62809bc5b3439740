package legacy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The client tracks accepted elicitations after their requests for a limited time, and drops one when it has too many.
func TestLateURLElicitationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e urlElicitations
		reported := 0
		keep := func(id string) {
			o := e.add(id)
			if o == nil {
				t.Fatalf("elicitation %s is not tracked", id)
			}
			o.accepted = true
			o.completion.Then(func() { reported++ })
			o.end()
		}
		for i := range maxURLElicitations + 1 {
			keep(fmt.Sprint(i))
		}
		if len(e.open) != maxURLElicitations {
			t.Errorf("%d elicitations are tracked, the limit is %d", len(e.open), maxURLElicitations)
		}
		newest := fmt.Sprint(maxURLElicitations)
		if o := e.done(newest); o == nil {
			t.Error("the newest elicitation is not tracked")
		} else if o.completion.Report(); reported != 1 {
			t.Errorf("%d completions reported, want 1", reported)
		}
		time.Sleep(lateTime + time.Second)
		synctest.Wait()
		if len(e.open) != 0 {
			t.Errorf("%d elicitations are tracked after the time limit", len(e.open))
		}
		e.close()
		o := e.add("after the end")
		o.accepted = true
		o.completion.Then(func() {})
		if o.end(); len(e.open) != 0 {
			t.Error("an elicitation is tracked after the end of the client")
		}
	})
}

// A completion may arrive before the error that requires its elicitation, on another
// stream.
func TestEarlyElicitationCompletionsCount(t *testing.T) {
	var v urlElicitations
	for i := range 2 * maxEarly {
		v.done(fmt.Sprint(i))
	}
	v.done(strings.Repeat("x", maxEarlyID+1))
	for id, early := range map[string]bool{"0": false, fmt.Sprint(maxEarly): true, fmt.Sprint(2*maxEarly - 1): true} {
		for n := range 2 { // once
			o := v.add(id)
			select {
			case <-o.done:
				if !early || n > 0 {
					t.Errorf("elicitation %s is complete", id)
				}
			default:
				if early && n == 0 {
					t.Errorf("elicitation %s is not complete", id)
				}
			}
			o.end()
		}
	}
}
