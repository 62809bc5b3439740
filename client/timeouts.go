package client

import "time"

// Timeouts limit how long requests wait for their results. Zero means the default of the
// field, a negative value no limit. The option [WithTimeout] replaces Read or Tool for one
// request.
type Timeouts struct {
	// Ping limits a ping. The default is 5 s.
	Ping time.Duration
	// Initialize limits server/discover and the handshake of a session. The default is 10 s.
	Initialize time.Duration
	// Read limits the requests of lists, resources, prompts and completions. The default is
	// 30 s.
	Read time.Duration
	// Tool limits the call of a tool or of a method of an extension. A progress notification
	// restarts it. The default is 60 s.
	Tool time.Duration
	// Max limits every request, whatever progress it reports, and the time for which
	// [Client.CallTool] waits for a task. The default is 30 min.
	Max time.Duration
	// URLElicitation limits the wait for a user who has agreed to open a URL, in 2025-11-25.
	// Meanwhile the time-outs of calls, except Max, are paused. A call that the server has
	// rejected because of the elicitation is then repeated. If the server does not report the
	// end of the elicitation, the wait lasts until the limit. The default is 5 min.
	URLElicitation time.Duration
	// Probe is how long Dial waits for a server on a byte stream to answer server/discover,
	// before it tries the handshake of older revisions. A server that accepts the handshake
	// is then used in its revision, even if it answers server/discover later. For a Command,
	// the time begins when the process has read server/discover or written its first output,
	// or after Start. Whether it has read is known on Linux, macOS and FreeBSD. The default
	// is 2 s. If it is negative, Dial tries the handshake only after an answer, or after
	// Initialize.
	Probe time.Duration
	// Start is how long a Command may take to write its first output, before other time-outs
	// begin: package runners may download the program first. The default is 60 s. If it is
	// negative, other time-outs begin at once.
	Start time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(p *time.Duration, def time.Duration) {
		if *p == 0 {
			*p = def
		}
		*p = max(*p, 0)
	}
	set(&t.Ping, 5*time.Second)
	set(&t.Initialize, 10*time.Second)
	set(&t.Read, 30*time.Second)
	set(&t.Tool, 60*time.Second)
	set(&t.Max, 30*time.Minute)
	set(&t.URLElicitation, 5*time.Minute)
	set(&t.Probe, 2*time.Second)
	set(&t.Start, 60*time.Second)
	return t
}
