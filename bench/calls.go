package bench

import (
	"fmt"
	"strings"
)

// Calls are the system calls of the data path that applications and a daemon count.
type Calls struct {
	Doorbells uint64 // rung by applications
	Wakes     uint64 // doorbells that the daemon has read
	Sleeps    uint64 // of the daemon's engine
	Yields    uint64 // of processes that found nothing to do
}

func (c *Calls) add(o Calls) {
	c.Doorbells += o.Doorbells
	c.Wakes += o.Wakes
	c.Sleeps += o.Sleeps
	c.Yields += o.Yields
}

// since returns what has been counted after old.
func (c Calls) since(old Calls) Calls {
	return Calls{c.Doorbells - old.Doorbells, c.Wakes - old.Wakes, c.Sleeps - old.Sleeps, c.Yields - old.Yields}
}

// total returns the number of calls without the yields.
func (c Calls) total() uint64 { return c.Doorbells + c.Wakes + c.Sleeps }

// CallsPerOp returns the system calls per operation without the yields of processes that found nothing to do.
func (r Result) CallsPerOp() float64 { return float64(r.Calls.total()) / float64(max(r.Ops, 1)) }

// callsTable writes the system calls per operation of those results whose case counts them.
func callsTable(b *strings.Builder, results []Result) {
	head := false
	for _, r := range results {
		if r.Case.Calls == 0 {
			continue
		}
		if !head {
			b.WriteString("\n| case | wanted | system calls per message | verdict | doorbells | sleeps | yields |\n" +
				"|---|---|---|---|---|---|---|\n")
			head = true
		}
		verdict := "met"
		if r.CallsPerOp() > r.Case.Calls {
			verdict = "missed"
		}
		per := func(n uint64) string { return fmt.Sprintf("%.5f", float64(n)/float64(max(r.Ops, 1))) }
		fmt.Fprintf(b, "| %s | at most %.2g | **%.5f** | %s | %s | %s | %s |\n", r.Name, r.Case.Calls, r.CallsPerOp(),
			verdict, per(r.Calls.Doorbells), per(r.Calls.Sleeps), per(r.Calls.Yields))
	}
}
