package fabric

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
)

// counting is a client that counts responses.
type counting struct{ responses int }

func (c *counting) Take(d *Datagram) bool {
	c.responses++
	return true
}

// sendSMPs returns a function that reads NodeInfo of a switch one hop away, with a request by directed route, and a
// client that gets the responses.
func sendSMPs(tb testing.TB) (send func(), c *counting) {
	f := twoLevels(tb)
	p := port(tb, f, "h1", 1)
	c = new(counting)
	tb.Cleanup(p.Attach(c))
	request := directed(mad.AttrNodeInfo, 0, 1)
	m := new(ci.MAD)
	d := new(Datagram)
	return func() {
		*m = *request
		*d = Datagram{SLID: permissiveLID, DLID: permissiveLID, MAD: m}
		if err := p.Send(d); err != nil {
			tb.Fatal(err)
		}
	}, c
}

// An SMP to a switch and its response back cross the link twice. The agents allocate nothing for them.
func BenchmarkSMPHop(b *testing.B) {
	send, c := sendSMPs(b)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
	b.ReportMetric(float64(c.responses)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(2*float64(c.responses)/b.Elapsed().Seconds(), "SMPs/s")
}

// SMPs allocate nothing on their way.
func TestSMPAllocations(t *testing.T) {
	send, c := sendSMPs(t)
	assert.Zero(t, testing.AllocsPerRun(1000, send))
	require.NotZero(t, c.responses)
}
