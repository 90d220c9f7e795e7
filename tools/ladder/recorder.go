package ladder

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// A Recorder records a run and makes a Chart of it. Its methods may be called concurrently.
type Recorder struct {
	clock clock.Clock
	ports [2][]netip.Addr // addresses of each end's ports, first port first

	mu     sync.Mutex
	on     bool
	start  time.Duration
	chart  Chart
	ids    [][]byte // ids of the messages so far
	flying map[[2]netip.Addr][]int
	err    error
}

// NewRecorder returns a recorder for two ends whose ports have these addresses. It records nothing before Start.
func NewRecorder(c clock.Clock, title string, ends [2]string, ports [2][]netip.Addr) *Recorder {
	return &Recorder{clock: c, ports: ports, chart: Chart{Title: title, Ends: ends}, flying: map[[2]netip.Addr][]int{}}
}

// Start starts recording.
func (r *Recorder) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.start = true, r.clock.Elapsed()
}

// Stop stops recording and returns the chart. Times of the chart are relative to its first entry. Packets that have not
// arrived and packets that Decode does not recognize are errors.
func (r *Recorder) Stop() (*Chart, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	for w, l := range r.flying {
		if len(l) > 0 && r.err == nil {
			r.err = fmt.Errorf("%d packets from %v to %v have not arrived when the run ends", len(l), w[0], w[1])
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	c := r.chart
	c.Messages = slices.Clone(c.Messages)
	slices.SortStableFunc(c.Messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Sent, b.Sent),
			cmp.Compare(a.From, b.From))
	})
	c.Notes = slices.Clone(c.Notes)
	first := time.Duration(math.MaxInt64)
	for _, m := range c.Messages {
		first = min(first, m.Sent)
	}
	for _, n := range c.Notes {
		first = min(first, n.At)
	}
	for i := range c.Messages {
		c.Messages[i].Sent -= first
		c.Messages[i].Arrived = max(c.Messages[i].Arrived-first, 0)
	}
	for i := range c.Notes {
		c.Notes[i].At -= first
	}
	slices.SortStableFunc(c.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Side, b.Side), cmp.Compare(a.Kind, b.Kind))
	})
	return &c, nil
}

// Note records an event at a side at the current time.
func (r *Recorder) Note(s Side, k Kind, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.chart.Notes = append(r.chart.Notes, Note{At: r.clock.Elapsed() - r.start, Side: s, Kind: k, Text: text})
	}
}

// Watch is for the field of sim.NetworkConfig. The network may lose packets but must not reorder them.
func (r *Recorder) Watch(d *sim.Datagram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on || r.err != nil {
		return
	}
	w := [2]netip.Addr{d.From, d.To}
	at := d.Time - r.start
	if d.Arrived {
		if l := r.flying[w]; len(l) > 0 { // sent before Start
			r.chart.Messages[l[0]].Arrived = at
			r.flying[w] = l[1:]
		}
		return
	}
	m := Message{Sent: at, Lost: d.Verdict == impair.Drop, Alternate: d.From != r.ports[Left][0] &&
		d.From != r.ports[Right][0]}
	if slices.Contains(r.ports[Right], d.From) {
		m.From = Right
	}
	var id []byte
	if m.Text, id, r.err = Decode(d.Data); r.err != nil {
		return
	}
	m.Again = id != nil && slices.ContainsFunc(r.ids, func(b []byte) bool { return bytes.Equal(b, id) })
	r.ids = append(r.ids, id)
	if !m.Lost {
		r.flying[w] = append(r.flying[w], len(r.chart.Messages))
	}
	r.chart.Messages = append(r.chart.Messages, m)
}
