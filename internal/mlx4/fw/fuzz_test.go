package fw_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// A liar is a model behind a device that changes what the driver reads: registers, mailboxes and event queues.
type liar struct {
	*model.Model
	host bus.Host

	mu    sync.Mutex
	rand  *rand.Rand
	rate  int // one access of so many is changed; 0: none
	polls bool
}

func (l *liar) Attach(h bus.Host) {
	l.host = h
	l.Model.Attach(h)
}

// lies reports whether to change something, and with what.
func (l *liar) lies() (v uint64, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 || l.rand.IntN(l.rate) != 0 {
		return 0, false
	}
	if l.rand.IntN(4) == 0 {
		return 1<<64 - 1, true
	}
	return l.rand.Uint64(), true
}

func (l *liar) ReadBAR(bar int, off uint64, size int) uint64 {
	v := l.Model.ReadBAR(bar, off, size)
	if x, yes := l.lies(); yes && off != prm.RegOwnership && off != prm.RegSemaphore {
		return x
	}
	return v
}

// WriteBAR executes commands, and changes the output mailbox of some.
func (l *liar) WriteBAR(bar int, off uint64, size int, v uint64) {
	var out uint64
	if bar == prm.BARControl && off == prm.RegHCR+4*prm.HCRStatusDword {
		var b [4 * prm.HCRDwords]byte
		for i := range prm.HCRDwords - 1 {
			bus.PutNumber(b[4*i:4*i+4], l.Model.ReadBAR(bar, prm.RegHCR+4*uint64(i), 4))
		}
		out = prm.HCROutHigh.Get(b[:])<<32 | prm.HCROutLow.Get(b[:])
	}
	l.Model.WriteBAR(bar, off, size, v)
	if x, yes := l.lies(); yes && out != 0 {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], x)
		l.host.Memory().Write(out+x%(prm.MailboxSize-8), b[:])
	}
}

// openLiar opens a device that may lie, with a time limit for its commands.
func openLiar(l *liar, f bus.Function, limit time.Duration) (*fw.Device, error) {
	return fw.Open(context.Background(), f, fw.Config{ResetDelay: 1, CommandTimeout: limit,
		WatchInterval: time.Millisecond, Polling: l.polls, PolledCommands: l.rand.IntN(2) == 0, MaxMemory: 64 << 20,
		LogEQSize: 4, CompletionEQs: 2, Profile: small})
}

// FuzzLyingDevice opens and uses a device whose registers and mailboxes have random contents from some point on. The
// driver ends in time, with or without an error, releases everything, and drives the device again when it behaves.
func FuzzLyingDevice(f *testing.F) {
	for i := range uint64(8) {
		f.Add(i, uint8(1<<i-1), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, rate uint8, late bool) {
		l := &liar{Model: newModel(t, model.Config{}), rand: rand.New(rand.NewPCG(seed, 0)), polls: seed%3 == 0}
		function := local.New(l, "a liar")
		defer function.Close()
		set := func(rate int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.rate = rate
		}
		if !late {
			set(int(rate))
		}
		d, err := openLiar(l, function, 20*time.Millisecond)
		set(int(rate))
		if err == nil {
			ctx := t.Context()
			for range 20 {
				_ = d.Cmd(ctx, prm.CmdNOP, fw.Args{})
				_, _ = d.QueryPort(ctx, 1)
				_, _ = d.ReadMCG(ctx, uint32(seed)%d.Caps().NumMCGs)
				if n, err := d.AllocCQ(ctx); err == nil {
					d.FreeCQ(n)
				}
			}
			_ = d.Close()
		}
		require.Zero(t, function.Memory().Len(), "DMA memory is left")
		set(0)
		l.Model.Reset()
		again, err := openLiar(l, function, time.Minute) // a busy machine needs long
		require.NoError(t, err)
		require.NoError(t, again.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
		require.NoError(t, again.Close())
	})
}

// FuzzEvents passes random entries of event queues to the driver, by a device that writes them there. Events of unknown
// objects and types are counted, and the device goes on.
func FuzzEvents(f *testing.F) {
	for i := range byte(0x20) {
		e := make([]byte, 64)
		e[1], e[3] = i, prm.MgmtPortInfo
		e[7], e[12] = 1, 1<<4 // port 1, of both kinds of port events
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, entries []byte) {
		fw.FeedEvents(t, entries)
	})
}

// FuzzCommands executes random commands: each returns, and the device is well or has failed with a cause.
func FuzzCommands(f *testing.F) {
	f.Add([]byte("\x00\x24\x00\x00\x00\x01\x03and a mailbox"))
	f.Add([]byte("\x00\x16\x00\x00\x00\x80\x00"))
	f.Add([]byte("\x0f\xfa\x00\x00\x00\x01\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		function := newFunction(t, newModel(t, model.Config{}))
		// Commands that end event queues leave Close without a completion. An input of 10 seconds counts as hung.
		d, err := fw.Open(t.Context(), function, quick(fw.Config{Profile: small, CompletionEQs: 1,
			CommandTimeout: 3 * time.Second}))
		require.NoError(t, err)
		const head = 7
		for range 32 {
			if len(b) < head {
				break
			}
			a := fw.Args{Modifier: binary.BigEndian.Uint32(b[2:]), OpModifier: b[6] & 15}
			op := prm.Opcode(binary.BigEndian.Uint16(b) & 0xfff)
			b = b[head:]
			if n := min(len(b), int(a.OpModifier)*16); n > 0 {
				a.In, b = b[:n], b[n:]
			}
			if a.Modifier&1 != 0 {
				a.Out = make([]byte, 256)
			}
			if err := d.Cmd(t.Context(), op, a); err != nil && d.Err() == nil {
				var e *fw.CommandError
				assert.ErrorAs(t, err, &e)
			}
			if op == prm.CmdUnmapFA || op == prm.CmdCloseHCA || op == prm.CmdHW2SWEQ || op == prm.CmdMapEQ {
				break // the driver would wait for its events
			}
		}
		_ = d.Close() // the objects of the commands may make it fail
		require.Zero(t, function.Memory().Len())
	})
}
