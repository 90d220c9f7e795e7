package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"ciddk/validate"
	"ciddk/validate/report"
)

// progress prints the progress of a run. On a terminal it prints one live line and a line for each case that did not
// pass, elsewhere a line for each case.
type progress struct {
	out   io.Writer
	style report.Style
	quiet bool
	live  bool
	first string // printed before the identity; may be empty

	mu  sync.Mutex
	bar *bar
	fd  int // descriptor of the terminal
}

// slow is the duration from which a case's line has it.
const slow = time.Second

func newProgress(a *app, quiet bool) *progress {
	p := &progress{out: a.Stdout, quiet: quiet}
	if f, ok := a.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) && a.Getenv("TERM") != "dumb" {
		p.live, p.fd = true, int(f.Fd())
		p.style.Color = a.Getenv("NO_COLOR") == "" // https://no-color.org: no color if it is set and not empty
	}
	return p
}

func (p *progress) update(n validate.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && p.bar == nil {
		start := time.Now()
		elapsed := func() time.Duration { return time.Since(start) }
		p.bar = &bar{out: p.out, numTotal: n.Total, width: p.width, now: elapsed}
	}
	switch {
	case n.Identity != nil:
		if p.first != "" {
			p.line(p.first)
		}
		p.line(n.Identity.String())
	case n.Started != nil && p.bar != nil:
		p.bar.describe(n.Started.ID)
	case n.Result != nil:
		r := n.Result
		if !p.quiet && (!p.live || r.Status != validate.Pass && r.Status != validate.Skip) {
			p.line(p.caseLine(r))
		}
		if p.bar != nil {
			p.bar.set(n.Done)
		}
	}
}

// width returns the number of columns of the terminal, or 0 if it is unknown.
func (p *progress) width() int {
	w, _, err := term.GetSize(p.fd)
	if err != nil {
		return 0
	}
	return w
}

// line prints a line above the live one.
func (p *progress) line(s string) {
	if p.quiet {
		return
	}
	if p.bar != nil {
		p.bar.clear()
	}
	fmt.Fprintln(p.out, s)
}

func (p *progress) caseLine(r *validate.Result) string {
	s := p.style.Status(r.Status) + " " + r.Case
	if r.Attempt > 1 {
		s += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	if d := time.Duration(r.Elapsed); d >= slow {
		s += fmt.Sprintf("  %.1fs", d.Seconds())
	}
	switch {
	case len(r.Failures) > 0:
		s += "  " + oneLine(r.Failures[0].String())
	case r.Reason != "":
		s += "  " + oneLine(r.Reason)
	}
	return s
}

func oneLine(s string) string {
	s = report.Printable(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return s
}

// stop removes the live line.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.clear()
		p.bar = nil
	}
}
