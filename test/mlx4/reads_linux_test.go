package mlx4

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
)

// countedDevice is a device that counts the reads of its registers, each of which is a round trip over the socket.
type countedDevice struct {
	bus.Device
	reads atomic.Uint64
}

func (d *countedDevice) ReadBAR(bar int, off uint64, size int) uint64 {
	d.reads.Add(1)
	return d.Device.ReadBAR(bar, off, size)
}

// requireNoReads requires that the reads of registers do not grow with the number of messages: commands, which create
// and destroy a program's queues, read registers, and the data path does not. The data path of events is that of the
// kernel, too: interrupts, event queues and the arming of completion queues.
func (p *pair) requireNoReads(t *testing.T, ctx context.Context, args ...string) {
	t.Helper()
	const few, many = 200, 4000
	var reads [2][2]uint64 // of a short and a long run, by card
	for i, count := range []int{few, many} {
		var before [2]uint64
		for card, d := range p.counted {
			before[card] = d.reads.Load()
		}
		_, out := p.run(t, ctx, pingPongPort, append(args, "-d", device, "-n", strconv.Itoa(count), "-F")...)
		require.Contains(t, out, strconv.Itoa(count))
		for card, d := range p.counted {
			reads[i][card] = d.reads.Load() - before[card]
		}
	}
	for card := range p.counted {
		t.Logf("%v: card %d: %d reads for %d messages, %d for %d", args, card, reads[0][card], few, reads[1][card],
			many)
		require.Positive(t, reads[0][card], "commands read registers")
		require.Less(t, reads[1][card], reads[0][card]+few, "reads of %d messages, beside those of %d", many, few)
	}
}
